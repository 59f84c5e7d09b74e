"""Process groups among the arguments of operators, without processes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import distributed

from costcore.frontends.pytorch.operators.plan import group_name, group_size, is_root, reduction, written_argument


def group(size=3, rank=2, description="mesh_tp") -> Any:
    return SimpleNamespace(size=lambda: size, rank=lambda: rank, group_desc=description)


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        ("c10d::allreduce_", "tensors"),
        ("c10d::_allgather_base_", "output_tensor"),
        ("c10d::send", ""),
        ("c10d::other_", None),
        ("aten::send", None),
        ("send", None),
    ],
)
def test_arguments_that_operators_write_to(name, argument):
    assert written_argument(name) == argument


@pytest.mark.parametrize("key", ["process_group", "group_name"])
def test_the_group_of_a_call(key):
    assert group_size({key: group()}) == 3
    assert group_name({key: group()}) == "tp"
    assert group_name({key: group(description="default_pg")}) is None
    assert group_name({key: group(description="a mesh_tp")}) is None
    assert [is_root({key: group(rank=rank), "root_rank": 2}, "root_rank") for rank in (0, 1, 2)] == [False, False, True]


def test_a_group_by_its_name(monkeypatch):
    groups = {"first": group(5), "second": group(7)}
    monkeypatch.setattr(distributed.distributed_c10d, "_resolve_process_group", groups.__getitem__)
    assert [group_size({"group_name": name}) for name in groups] == [5, 7]


def test_a_group_as_an_object_of_scripts(monkeypatch):
    unboxed = group(11)
    monkeypatch.setattr(distributed.ProcessGroup, "unbox", lambda found: unboxed if found == "boxed" else None, False)
    boxed = type("Boxed", (), {"__eq__": lambda self, other: other == "boxed", "__hash__": object.__hash__})()
    assert group_size({"process_group": boxed}) == 11


def test_reductions_by_text_and_by_object():
    assert reduction({"reduce_op": "SUM"}) == "sum"
    number = int(distributed.ReduceOp.RedOpType.MAX)
    assert reduction({"reduce_op": SimpleNamespace(op=lambda: number)}) == "max"
    assert reduction({"reduce_op": SimpleNamespace()}) is None

    def fails() -> None:
        raise RuntimeError

    assert reduction({"reduce_op": SimpleNamespace(op=fails)}) is None


def test_gradients_of_collectives(monkeypatch):
    """In a group of 3, whose collectives are replaced: what they receive is made of what is sent, times a number."""
    from costcore.frontends.pytorch.parallel import strategies

    sent = []

    def replaced(factor):
        def collective(*tensors, group):
            made, given = tensors if len(tensors) == 2 else tensors * 2
            sent.append((factor, tuple(made.shape), tuple(given.shape)))
            made.copy_(factor * given.sum())

        return collective

    names = {"all_reduce": 2, "all_to_all_single": 3}
    names |= dict.fromkeys(("all_gather_single", "all_gather_into_tensor"), 5)
    names |= dict.fromkeys(("reduce_scatter_single", "reduce_scatter_tensor"), 7)
    for name, factor in names.items():
        monkeypatch.setattr(distributed, name, replaced(factor), raising=False)
    results = {}
    for name in ("shared", "added", "gathered", "exchanged"):
        x = torch.ones(4, 5, requires_grad=True)
        y = getattr(strategies, name)(x, group())
        y.backward(torch.ones_like(y))
        results[name] = (tuple(y.shape), y.unique().tolist(), x.grad.unique().tolist())
    assert results == {
        "shared": ((4, 5), [1], [2 * 20]),
        "added": ((4, 5), [2 * 20], [1]),
        "gathered": ((12, 5), [5 * 20], [7 * 60]),
        "exchanged": ((4, 5), [3 * 20], [3 * 20]),
    }
    assert sent == [
        *((2, (4, 5), (4, 5)), (2, (4, 5), (4, 5))),
        *((5, (12, 5), (4, 5)), (7, (4, 5), (12, 5))),
        *((3, (4, 5), (4, 5)), (3, (4, 5), (4, 5))),
    ]
