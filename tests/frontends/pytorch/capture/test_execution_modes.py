"""Every way to run a model costs the same: compiled, scripted, exported, vectorized, branching."""

from __future__ import annotations

import inspect
import subprocess
import sys
import textwrap
from copy import deepcopy
from inspect import signature
from pathlib import Path

import pytest
import torch
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.while_loop import while_loop
from torch.autograd import forward_ad
from torch.func import functional_call, grad, grad_and_value, jacrev
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from tests.frontends.pytorch.differences import NEEDS_GROUPED_QUERIES
from tests.frontends.pytorch.runs import macs, record, types
from tests.frontends.pytorch.unchanged import unchanged
from tests.frontends.pytorch.versions import module

ROOT = Path(__file__).parents[4]
X = torch.ones(6, 4)
DEVICES = ("cpu", "meta")

scan = getattr(module("torch._higher_order_ops.scan"), "scan", None)
flex_attention = getattr(module("torch.nn.attention.flex_attention"), "flex_attention", None)


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))


MACS = 6 * (4 * 5 + 5 * 3)


@pytest.mark.parametrize("is_imported", [False, True])
def test_p07_a_model_compiled_first_under_a_hook_is_compiled_afterwards(is_imported):
    """In a process of its own: whether the compiler was imported before the hook was entered makes a difference."""
    program = f"""
        import torch
        {"import torch._dynamo" if is_imported else ""}
        from costcore import ComputationalCostHook

        compiled = []

        def backend(graph, inputs):
            compiled.append(graph)
            return graph.forward

        model, x = torch.nn.Linear(4, 5), torch.ones(6, 4)
        with ComputationalCostHook() as cch:
            fast = torch.compile(model, backend=backend)
            fast(x)
        assert [entry["type"] for entry in cch.layer_report.values()] == ["linear"], cch.layer_report
        assert not compiled
        fast(x)
        fast(x)
        assert len(compiled) == 1
        with ComputationalCostHook() as cch:
            fast(x)
        assert cch.total_report["macs"] == 6 * 4 * 5
        fast(x)
        assert len(compiled) == 1
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("how", ["script", "trace", "freeze"])
def test_p08_torchscript(how):
    model = net().eval()
    made = {
        "script": lambda: torch.jit.script(model),
        "trace": lambda: torch.jit.trace(model, X),
        "freeze": lambda: torch.jit.freeze(torch.jit.script(model)),
    }[how]()
    for mode in (torch.enable_grad, torch.no_grad):
        with mode(), unchanged(model):
            recorder = record(lambda: made(X))
        assert [call.layer.op for call in recorder.calls] == ["linear", "relu", "linear"]
        assert macs(recorder.calls) == MACS


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning", "ignore::torch.jit.TracerWarning")  # torch's own
def test_p08_numbers_that_the_optimizer_of_torchscript_compares():
    """The graph of the gradients has numbers without dimensions, equal ones of which TorchScript merges."""
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(), nn.Softmax(1))
    x = torch.ones(2, 3, 8, 8, requires_grad=True)
    functions = model, lambda x: nn.functional.dropout(x).softmax(1) * 2
    for function in functions:
        traced = torch.jit.trace(function, x, check_trace=False)
        eager = record(lambda function=function: function(x).sum().backward())
        for _ in range(3):  # the first two are optimized
            recorder = record(lambda traced=traced: traced(x).sum().backward())
            assert "equal" not in types(recorder)
            assert macs(recorder.calls) == macs(eager.calls)


def test_p08_exported_models():
    module = torch.export.export(net(), (X,)).module()
    assert types(record(lambda: module(X))) == ["linear", "relu", "linear"]


@pytest.mark.parametrize("backend", [None, SDPBackend.MATH, SDPBackend.FLASH_ATTENTION])
@pytest.mark.parametrize(
    "case",
    ["plain", "causal", pytest.param("grouped", marks=NEEDS_GROUPED_QUERIES), "mask", "bool mask", "dropout"],
)
def test_p13_attention_costs_the_same_by_every_kernel(case, backend):
    q, k = torch.ones(2, 4, 6, 8), torch.ones(2, 2 if case == "grouped" else 4, 6, 8)
    settings = {
        "plain": {},
        "causal": {"is_causal": True},
        "grouped": {"enable_gqa": True},
        "mask": {"attn_mask": torch.zeros(6, 6)},
        "bool mask": {"attn_mask": torch.ones(6, 6, dtype=torch.bool)},
        "dropout": {"dropout_p": 0.1},
    }[case]

    def run():
        with sdpa_kernel([SDPBackend.MATH] if backend is None else [backend, SDPBackend.MATH]):
            functional.scaled_dot_product_attention(q, k, k, **settings)

    recorder = record(run)
    assert [call.layer.op for call in recorder.calls] == ["attention"]
    assert macs(recorder.calls) == 2 * (2 * 4 * 6 * 6 * 8)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("needs_grad", [False, True])
def test_p25_cond_shows_the_branch_it_takes(device, needs_grad):
    model, x = net().to(device), torch.ones(6, 4, device=device, requires_grad=needs_grad)

    def run():
        y = torch.cond(x.sum() > 0, lambda x: model(x), lambda x: model[0](x).sin()[:, :3], (x,))
        if needs_grad:
            torch.autograd.backward(y, torch.ones_like(y))

    with unchanged(model):
        recorder = record(run)
        model.zero_grad()
    assert [t for t in types(recorder, "forward") if t in ("linear", "relu", "sin")] == ["linear", "relu", "linear"]
    assert macs([call for call in recorder.calls if call.phase == "forward"]) == MACS
    assert macs([call for call in recorder.calls if call.phase == "backward"]) == 2 * MACS * needs_grad
    assert [a.is_branch for a in recorder.assumptions] == [True] * (device == "meta")


@pytest.mark.parametrize("device", DEVICES)
def test_p25_loops_that_count_show_every_step(device):
    def loop(x):
        start = torch.zeros((), dtype=torch.int64, device=x.device)
        while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x @ x), (start, x))

    recorder = record(lambda: loop(torch.empty(4, 4, device=device)))
    assert macs(recorder.calls) == 3 * 4 * 4 * 4
    assert recorder.assumptions == []


def test_p25_loops_until_unknown_data_change_show_one_step():
    def loop(x):
        while_loop(lambda x: x.sum() < 3, lambda x: (x @ x,), (x,))

    recorder = record(lambda: loop(torch.empty(4, 4, device="meta")))
    assert macs(recorder.calls) == 4 * 4 * 4
    assert [a.what for a in recorder.assumptions] == ["a loop with an unknown condition was assumed to run once"]


@pytest.mark.skipif(scan is None, reason="this PyTorch has no scan")
@pytest.mark.parametrize("device", DEVICES)
def test_p25_scans_show_every_step(device):
    w = torch.ones(4, 4, device=device)
    trials = inspect.getsource(scan).count("out = combine_fn(")  # before PyTorch 2.7, to see what it returns

    def step(carry, x):
        carry = torch.tanh(carry @ w + x)
        return carry, carry.clone()

    def run():
        return scan(step, torch.zeros(2, 4, device=device), torch.ones(5, 2, 4, device=device))

    found = []
    recorder = record(lambda: found.extend(run()))
    assert macs(recorder.calls) == (trials + 5) * 2 * 4 * 4
    assert [tuple(y.shape) for y in found] == [(2, 4), (5, 2, 4)]
    if device == "cpu":
        assert all(torch.allclose(y, expected) for y, expected in zip(found, run(), strict=True))


@pytest.mark.parametrize("device", DEVICES)
def test_p25_maps_show_every_step(device):
    w, xs = torch.ones(4, 3, device=device), torch.ones(5, 2, 4, device=device)
    recorder = record(lambda: map_over(lambda x, w: x @ w, xs, w))
    assert macs(recorder.calls) == 5 * 2 * 4 * 3
    if "combine_mode" in signature(associative_scan).parameters:  # otherwise it is compiled for GPUs
        recorder = record(lambda: associative_scan(torch.add, xs, 0, combine_mode="generic"))
        assert types(recorder).count("add") > 0


@pytest.mark.skipif(flex_attention is None, reason="this PyTorch has no flex_attention")
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile:UserWarning")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("heads", [4, 2])
def test_p25_flex_attention_is_attention(device, heads):
    q, k = torch.ones(2, 4, 16, 8, device=device), torch.ones(2, heads, 16, 8, device=device)

    def run():
        return flex_attention(q, k, k, score_mod=lambda s, *_: s * 2, enable_gqa=heads != 4)

    found = []
    recorder = record(lambda: found.append(run()))
    (call,) = (call for call in recorder.calls if call.layer.op == "attention")
    assert (call.type, call.native) == ("flex_attention", "higher_order::flex_attention")
    assert macs([call]) == macs(recorder.calls) == 2 * (2 * 4 * 16 * 16 * 8)
    assert found[0].shape == q.shape
    assert ["score and mask functions" in a.what for a in recorder.assumptions] == [True]


@pytest.mark.parametrize("device", DEVICES)
def test_p33_vectorised_functions_cost_their_batch(device):
    model, x = net().to(device), X.to(device)
    state = {name: value.detach() for name, value in model.named_parameters()}
    assert macs(record(lambda: torch.vmap(model)(x)).calls) == MACS
    assert macs(record(lambda: functional_call(model, state, (x,))).calls) == MACS

    def loss(state, x):
        return functional_call(model, state, (x,)).sum()

    with_gradients = 2 * MACS + 6 * 5 * 3  # the weights of both layers, and the input of the second
    assert macs(record(lambda: grad(loss)(state, x)).calls) == with_gradients
    assert macs(record(lambda: torch.vmap(grad(loss), (None, 0))(state, x)).calls) == with_gradients
    assert macs(record(lambda: jacrev(lambda x: model(x).sum(0))(x)).calls) > MACS


@pytest.mark.parametrize("device", DEVICES)
def test_p33_vectorised_functions_may_use_python_numbers(device):
    x, sizes = torch.rand(3, device=device), torch.arange(3, device=device)
    calls = record(lambda: torch.vmap(lambda t: t * 3.5 / 2)(x)).calls
    assert [call.layer.op for call in calls if call.layer.op != "view"] == ["mul", "div"]
    record(lambda: torch.vmap(grad_and_value(lambda t: torch.cos(2 * t)))(x))
    record(lambda: torch.vmap(lambda t: torch.where(t + 1 > 1, t * True, 0))(sizes))


def tangent_of(function, *operands):
    def run():
        with forward_ad.dual_level():
            return function(*(forward_ad.make_dual(x, torch.ones_like(x)) for x in operands))

    return run


# the primal, and a product for the tangent of each operand; that of a parameter is zero, and multiplied all the same
DUAL = {
    "linear": (nn.Linear(16, 16), (4, 16), 3 * 4 * 16 * 16),
    "convolution": (nn.Conv2d(3, 4, 3), (2, 3, 8, 8), 3 * (2 * 4 * 6 * 6) * (3 * 3 * 3)),
    "two layers": (nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 8)), (4, 16), 3 * 4 * 16 * (16 + 8)),
}


scripts_formulas = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # PyTorch does, for tangents


@scripts_formulas
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", DUAL)
def test_tangents_are_counted(name, device):
    model, shape, expected = DUAL[name]
    model, x = deepcopy(model).to(device), torch.ones(shape, device=device)
    recorder = record(tangent_of(model, x))
    assert macs(recorder.calls) == expected
    assert macs(record(lambda: torch.func.jvp(model, (x,), (x,))).calls) == expected


def test_a_module_without_tangents_is_one_call_beside_those_with():
    x, w = torch.ones(4, 16), torch.ones(8, 16)
    with forward_ad.dual_level():
        recorder = record(lambda: functional.linear(x, w))
    assert types(recorder) == ["linear"]
