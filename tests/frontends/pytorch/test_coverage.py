"""Every operator of PyTorch: the overloads that are known to run, and a run of each operator and module it tests.

A few samples of each; COSTCORE_COVERAGE=all runs all of them, which takes minutes.
"""

from __future__ import annotations

import copy
import importlib
import json
import os
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves, tree_map

from costcore.counting.pricing import Pricer
from costcore.frontends.pytorch import capture
from costcore.frontends.pytorch.operators.plan import OperatorPlan
from costcore.registry.calculators import calculators
from costcore.registry.frontends import rows
from costcore.trace.recorder import Recorder
from tests.frontends.pytorch.runs import listed

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


def test_the_lists_are_those_of_the_installed_pytorch():
    names = torch._C._dispatch_get_all_op_names()
    core = {f"aten.{name[6:]}" for name in names if name.startswith("aten::") and torch.Tag.core in tags(name)}
    core = {name if name.count(".") == 2 else f"{name}.default" for name in core}
    assert (len(OVERLOADS["seen"]), len(core), len(OPERATORS)) == (870, 193, 694 + 5)
    assert set(OVERLOADS["core"]) == core - set(OVERLOADS["seen"])


def tags(name: str) -> Any:
    packet, _, overload = name.removeprefix("aten::").partition(".")
    found = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
    return () if found is None else found.tags


@pytest.mark.parametrize("kind", ["seen", "core"])
def test_every_overload_is_in_the_table_or_not_listed_or_taken_apart(kind):
    importlib.import_module("torch.nn.modules.linear_cross_entropy")  # registers operators of its own
    natives = frozenset(row.native for row in rows("pytorch"))
    unknown = set()
    for name in OVERLOADS[kind]:
        namespace, packet, overload = name.split(".")
        plan = OperatorPlan(getattr(getattr(getattr(torch.ops, namespace), packet), overload), natives)
        if plan.is_recorded and plan.row not in natives and not plan.decompose:
            unknown.add(plan.native)
    assert unknown == UNKNOWN


def fails(run: Callable[[], Any]) -> bool:
    try:
        run()
    except Exception:  # whatever an operator has to say
        return True
    return False


def recorded(run: Callable[[], Any]) -> list[tuple[Any, ...]] | None:
    """Return the recorded calls, each of which must be supported; None if PyTorch itself fails."""
    recorder = Recorder()
    try:
        with capture(recorder):
            run()
    except Exception:
        if fails(run):
            return None
        raise
    pricer = Pricer(calculators())
    reasons = {call.native: priced.reason for call in recorder.calls if (priced := pricer(call)).cost is None}
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
