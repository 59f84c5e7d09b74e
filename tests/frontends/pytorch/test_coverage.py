"""Every operator of PyTorch: the overloads that are known to run, and a run of each operator and module it tests.

A few samples of each; COSTCORE_COVERAGE=all runs all of them, which takes minutes.
"""

from __future__ import annotations

import copy
import json
import os
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from costcore import ComputationalCostHook, estimate
from costcore.frontends.pytorch.operators.plan import OperatorPlan
from costcore.registry import rows
from tests.frontends.pytorch.runs import listed, record
from tests.frontends.pytorch.versions import IS_LISTED, LACKS, UNPRICED
from tests.registered import price

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.common_modules import module_db

EVERYTHING = os.environ.get("COSTCORE_COVERAGE") == "all"
SAMPLES = None if EVERYTHING else 2
UNKNOWN: frozenset[str] = frozenset()
"""Operators without a price. It may only shrink."""

OVERLOADS = json.loads((Path(__file__).parents[2] / "data" / "torch_overloads.json").read_text())

pytestmark = pytest.mark.filterwarnings("ignore")

OPERATORS = {
    f"{info.name}{'.' if info.variant_test_name else ''}{info.variant_test_name}": info for info in op_db if info.dtypes
}
MODULES = {info.name: info for info in module_db}


def overload(native: str) -> Any:
    """Return an operator by its full name; None if the installed PyTorch lacks it."""
    namespace, _, name = native.partition("::")
    packet, _, word = name.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet, None), word or "default", None)


def is_covered(operator: Any, natives: frozenset[str]) -> bool:
    """Return whether an operator has a mapping rule, or is bookkeeping, or is taken apart into others."""
    plan = OperatorPlan(operator, natives)
    return not plan.is_recorded or plan.row in natives or plan.decompose


@pytest.fixture(scope="module")
def installed() -> dict[str, Any]:
    """The operators of ``aten`` in the installed PyTorch, but for variants that write to ``out``."""
    names = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
    words = {name: {*name.partition(".")[2].split("_"), name.partition(".")[0].rpartition("_")[2]} for name in names}
    found = {name: overload(name) for name in names if "out" not in words[name]}
    return {name: operator for name, operator in found.items() if operator is not None}


def test_every_operator_of_the_installed_pytorch_is_covered_or_named(installed):
    natives = frozenset(row.native for row in rows("pytorch"))
    uncovered = {name for name, operator in installed.items() if not is_covered(operator, natives)}
    assert uncovered <= UNPRICED  # which may still name operators that have a rule by now
    assert {name for name in uncovered if torch.Tag.core in installed[name].tags} == set()


@pytest.mark.parametrize("kind", ["seen", "core"])
def test_every_overload_that_runs_is_covered(kind):
    natives = frozenset(row.native for row in rows("pytorch"))
    names = {name.replace(".", "::", 1).removesuffix(".default") for name in OVERLOADS[kind]}
    missing = {name for name in names if overload(name) is None}
    assert missing == LACKS & names if IS_LISTED else missing <= LACKS
    assert {name for name in names - missing if not is_covered(overload(name), natives)} == UNKNOWN


def fails(run: Callable[[], Any]) -> bool:
    try:
        run()
    except Exception:  # whatever an operator has to say
        return True
    return False


def recorded(run: Callable[[], Any]) -> list[tuple[Any, ...]] | None:
    """Return the recorded calls, each of which must be supported; None if PyTorch itself fails."""
    try:
        recorder = record(run)
    except Exception:
        if fails(run):
            return None
        raise
    reasons = {call.native: priced.reason for call in recorder.calls if (priced := price(call)).cost is None}
    assert reasons.keys() <= UNKNOWN, reasons
    return listed(recorder)


def without_data(values: Any) -> Any:
    """Return inputs or a module on the meta device; None if they cannot be there."""

    def on_meta(value: Any) -> Any:
        if isinstance(value, torch.nn.Module):
            return copy.deepcopy(value).to("meta")
        if isinstance(value, torch.Tensor):
            return value.to("meta")
        return torch.device("meta") if value == torch.device("cpu") or value == "cpu" else value

    try:
        return tree_map(on_meta, values)
    except (NotImplementedError, RuntimeError):
        return None


def backward(result: Any) -> None:
    """The backward pass of everything that has one."""
    outputs = [x for x in tree_leaves(result) if isinstance(x, torch.Tensor) and x.requires_grad]
    if outputs:
        torch.autograd.backward(outputs, [torch.ones_like(x) for x in outputs])


def samples(info: Any, requires_grad: bool) -> Iterator[Any]:
    dtype = torch.float32 if torch.float32 in info.dtypes else min(info.dtypes, key=str)
    if requires_grad and not (info.supports_autograd and dtype in info.supported_backward_dtypes("cpu")):
        return iter(())
    torch.manual_seed(0)
    return islice(info.sample_inputs_func(info, "cpu", dtype, requires_grad), SAMPLES)


GRAD_MODE_MATTERS = {
    "nn.LinearCrossEntropyLoss": "its forward pass makes the gradients that will be needed",
    "nn.functional.linear_cross_entropy.chunked": "the same",
}


def check_everywhere(name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
    """Run and count in all modes; grad mode changes nothing."""

    def run() -> Any:
        return function(*args, **kwargs)

    found = recorded(run)
    with torch.no_grad():
        assert recorded(run) == found or name in GRAD_MODE_MATTERS
    with torch.inference_mode():
        recorded(run)
    twins = without_data((function, args, kwargs))
    if twins is not None:
        recorded(lambda: twins[0](*twins[1], **twins[2]))


@pytest.mark.parametrize("name", OPERATORS)
def test_operator(name):
    info = OPERATORS[name]
    for sample in samples(info, requires_grad=False):
        check_everywhere(name, info, (sample.input, *sample.args), sample.kwargs)
    for sample in samples(info, requires_grad=True):

        def train(sample: Any = sample) -> None:
            backward(sample.output_process_fn_grad(info(sample.input, *sample.args, **sample.kwargs)))

        recorded(train)


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("is_training", [False, True], ids=["eval", "train"])
def test_module(name, is_training):
    info = MODULES[name]
    dtype = torch.float32 if torch.float32 in info.dtypes else min(info.dtypes, key=str)
    torch.manual_seed(0)
    inputs = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=False, training=is_training)
    for given in islice(inputs, SAMPLES):
        if given.forward_input is None:
            continue
        args, kwargs = given.forward_input.args, given.forward_input.kwargs
        made = given.constructor_input
        module = info.module_cls(*made.args, **made.kwargs).train(is_training)
        if info.is_lazy:
            module(*args, **kwargs)
        check_everywhere(name, module, args, kwargs)
        recorded(lambda run=(module, args, kwargs): backward(run[0](*run[1], **run[2])))


NOT_ESTIMATED = {
    "histogramdd": "PyTorch has no meta kernel for the edges of its bins",
    "tensor_split": "a split at the numbers in a tensor needs them",
}

UNUSUAL_STRIDES = {"nn.functional.max_unpool2d", "nn.functional.max_unpool2d.grad"}
"""The samples have strides that PyTorch's meta kernel does not keep, which adds copies."""


def figures(report: Any) -> dict[str, tuple[Any, ...]]:
    names = ("flops", "macs", "mread", "mwrite")
    return {phase: tuple(row[name] for name in names) for phase, row in report.by("phase").items()}


def check_estimate(function: Callable[..., Any], leaves: list[Any]) -> None:
    """Count a run on data and an estimate, which may differ only by assumptions about data."""
    at = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def run(*tensors: torch.Tensor) -> None:
        given = dict(zip(at, tensors, strict=True))
        function([given.get(i, leaf) for i, leaf in enumerate(leaves)])

    def tensors() -> tuple[torch.Tensor, ...]:
        return tuple(leaves[i].detach().clone().requires_grad_(leaves[i].requires_grad) for i in at)

    if not at or any(leaves[i].layout is not torch.strided for i in at) or fails(lambda: run(*tensors())):
        return
    given = tensors()
    with ComputationalCostHook() as hook:
        run(*given)
    report = estimate(run, tensors())
    if not report.assumptions:
        assert figures(report) == figures(hook.report)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in OPERATORS if name not in {*NOT_ESTIMATED, *UNUSUAL_STRIDES}])
@pytest.mark.parametrize("is_training", [False, True], ids=["forward", "backward"])
def test_an_estimate_of_an_operator_equals_a_run(name, is_training):
    info = OPERATORS[name]
    for sample in samples(info, requires_grad=is_training):
        leaves, tree = tree_flatten((sample.input, sample.args, sample.kwargs))

        def run(leaves: list[Any], tree: Any = tree) -> None:
            given, args, kwargs = tree_unflatten(leaves, tree)
            result = info(given, *args, **kwargs)
            if is_training:
                outputs = [x for x in tree_leaves(result) if isinstance(x, torch.Tensor) and x.is_floating_point()]
                torch.autograd.backward(outputs, [torch.ones_like(x) for x in outputs])

        with torch.set_grad_enabled(is_training):
            check_estimate(run, leaves)
