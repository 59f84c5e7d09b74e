"""The call cache changes no result, shares no settings and keeps no tensor alive."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from costcore.frontends.pytorch.operators import call_cache
from costcore.frontends.pytorch.operators.call_cache import CallCache, clear_cached_calls
from tests.frontends.pytorch.runs import GRAD_MODES, capturing, listed, record, types

FUNCTIONS = {
    "view": lambda x: x.view(-1),
    "reshape that copies": lambda x: x.t().reshape(-1),
    "transpose": lambda x: x.t(),
    "slice": lambda x: x[:, 1:],
    "select": lambda x: x[1],
    "chunk": lambda x: x.chunk(2, 1),
    "expand": lambda x: x[:1].expand(5, -1),
    "as_strided": lambda x: x.as_strided((2, 2), (1, 1), 3),
    "other type": lambda x: x.view(torch.int32),
    "sum": lambda x: x + x,
    "broadcast sum": lambda x: x[:, :1] + x,
    "pair": lambda x: x.max(1),
    "in place": lambda x: x.mul_(2),
    "in place on a view": lambda x: x[:, :2].relu_(),
    "in place that reshapes": lambda x: x.clone().t_(),
    "dropout in inference": lambda x: functional.dropout(x, 0.5, False),
    "no cast": lambda x: x.to(torch.float32),
    "linear": lambda x: functional.linear(x, x),
}


def inputs(device):
    """Equal tensors that begin elsewhere in their memory."""
    memory = torch.zeros(40, device=device)
    return [memory[start : start + 16].view(4, 4) for start in (0, 8, 16)]


def look(x, result):
    made = (result,) if isinstance(result, torch.Tensor) else result
    memory = x.untyped_storage()._cdata
    return [
        (y.shape, y.stride(), y.dtype, y.untyped_storage()._cdata == memory and y.storage_offset(), y is x)
        for y in made
    ]


@pytest.mark.parametrize("mode", GRAD_MODES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_made_again_are_those_of_the_kernel(name, mode):
    function, found = FUNCTIONS[name], []

    def run():
        found.extend(look(x, function(x)) for x in inputs("meta"))

    with GRAD_MODES[mode]():
        calls = listed(record(run))
        expected = [look(x, function(x)) for x in inputs("cpu")]
        assert found == expected
        assert listed(record(lambda: [function(x) for x in inputs("meta")], has_replay=False)) == calls


def test_an_in_place_operator_that_is_spared_still_counts_as_a_change():
    x = torch.ones(4, device="meta")
    before = x._version
    record(lambda: [x.mul_(2) for _ in range(3)])
    assert x._version == before + 3


def test_numbers_of_different_types_are_different_settings():
    x = torch.ones(3, dtype=torch.int64, device="meta")
    calls = record(lambda: (x * 1, x * True, x * 1.0, x * 1)).calls
    assert [call.layer.out.dtype for call in calls] == ["int64", "int64", "float32", "int64"]


def test_a_report_may_be_looked_at_while_it_is_written():
    x = torch.ones(3)
    with capturing() as recorder:
        x.neg()
        recorder.flush()
        assert types(recorder) == ["neg"]
        x.exp()
        recorder.flush()
        first, second = recorder.calls
        x.sin()
        assert types(recorder) == ["neg", "exp"], "until the next flush"
    assert types(recorder) == ["neg", "exp", "sin"]
    assert recorder.calls[0] is first and recorder.calls[1] is second
    assert recorder.pending == []


def test_a_capture_keeps_no_memory_alive():
    storages = []
    model = nn.Sequential(nn.Conv1d(1, 2, 3), nn.BatchNorm1d(2), nn.ReLU(inplace=True))
    with capturing() as recorder:
        for _ in range(2):
            y = model(torch.ones(2, 1, 8))
            storages.append(weakref.ref(y.untyped_storage()))
            y.sum().backward()
            del y
        assert [ref() for ref in storages] == [None, None]
    parameter = weakref.ref(model[0].weight)
    del model
    assert parameter() is None
    assert len(recorder.calls) > 20


def test_what_is_the_users_is_not_remembered():
    def once():
        class Mine(torch.Tensor):
            pass

        x = torch.ones(3).as_subclass(Mine)
        assert types(record(lambda: x.neg())) == ["neg"]
        return weakref.ref(Mine)

    kind = once()
    gc.collect()
    assert kind() is None


def is_kept(cache: CallCache, size: int) -> bool:
    """Whether the cache holds a call of ``relu`` on ``size`` elements."""
    plan, args = cache.plans.of(torch.ops.aten.relu.default), (torch.empty(size, device="meta"),)
    return cache.find(plan, args, {})[1] is not None


def keep(cache: CallCache, size: int) -> None:
    plan, args = cache.plans.of(torch.ops.aten.relu.default), (torch.empty(size, device="meta"),)
    key, _, tensors = cache.find(plan, args, {})
    cache.add(plan, key, args, {}, tensors, torch.empty(size, device="meta"))


def test_the_shared_calls_are_cleared_when_there_are_too_many(monkeypatch):
    clear_cached_calls()
    monkeypatch.setattr(call_cache, "MAX_CACHED_CALLS", 2)
    cache = CallCache(True, True)
    for size in (1, 2):
        keep(cache, size)
    assert [is_kept(cache, size) for size in (1, 2)] == [True, True], "as many as are allowed"
    keep(cache, 3)
    assert [is_kept(cache, size) for size in (1, 2, 3)] == [True, True, True], "this capture keeps more"
    later = CallCache(True, True)
    assert [is_kept(later, size) for size in (1, 2, 3)] == [False, False, False]
    monkeypatch.setattr(call_cache, "MAX_OWN_CALLS", 1)
    for size in (1, 2, 3, 4):
        keep(later, size)
    assert [is_kept(later, size) for size in (1, 2, 3, 4)] == [True, True, False, True]
    clear_cached_calls()


def decided(cache: CallCache, axis: int, rows: int) -> Any:
    """The cached call of ``unique_dim`` along an axis of a matrix, of which ``rows`` rows are left."""
    plan, x = cache.plans.of(torch.ops.aten.unique_dim.default), torch.empty(4, 4, device="meta")
    cached, tensors = cache.find_by_result(plan, (x, axis), {}, (torch.empty(rows, 4, device="meta"), None, None))
    assert len(tensors) == 1 and tensors[0] is x
    assert cached.plan is plan
    return cached


def test_calls_that_data_decided_are_shared_by_their_arguments_and_the_shapes_of_their_results():
    cache = CallCache(True, True)
    first = decided(cache, 0, 3)
    assert decided(cache, 0, 3) is first
    assert decided(cache, 0, 2) is not first, "of other results"
    assert decided(cache, 1, 3) is not first, "along another axis"
    assert decided(CallCache(True, True), 0, 3) is not first, "in another capture"


SPARSE = {
    "CSR": lambda: torch.ones(2, 2).to_sparse_csr(),
    "COO": lambda: torch.ones(2, 2).to_sparse(),
    "COO without axes": lambda: torch.tensor(1.0).to_sparse(),
}


@pytest.mark.parametrize("make", SPARSE.values(), ids=SPARSE)
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")
def test_a_call_without_a_key_is_made_but_not_kept(make):
    cache, sparse = CallCache(True, True), make()
    plan = cache.plans.of(torch.ops.aten.relu.default)
    key, found, tensors = cache.find(plan, (sparse,), {})
    assert key is None and found is None
    assert len(tensors) == 1 and tensors[0] is sparse
    assert cache.add(plan, key, (sparse,), {}, tensors, sparse).replay is None


def test_a_call_that_saves_indices_is_not_one_that_saves_none():
    """A pool writes its indices only where a backward pass can follow, on equal shapes."""
    constant, learned = torch.ones(1, 1, 4, 4), torch.ones(1, 1, 4, 4, requires_grad=True)
    calls = record(lambda: [functional.max_pool2d(x, 2) for x in (constant, learned, constant)]).calls
    assert ["indices" in call.layer.attrs for call in calls] == [False, True, False]


def test_an_object_of_the_user_in_a_key_is_kept_for_one_capture():
    class Mine(int):
        pass

    clear_cached_calls()
    cache, args = CallCache(True, True), (torch.empty(3, 4, device="meta"), Mine(1))
    plan = cache.plans.of(torch.ops.aten.softmax.int)
    key, _, tensors = cache.find(plan, args, {})
    assert cache._own == {}
    cached = cache.add(plan, key, args, {}, tensors, torch.empty(3, 4, device="meta"))
    assert list(cache._own.values()) == [cached]
    clear_cached_calls()
