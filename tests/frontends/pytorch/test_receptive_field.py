"""No output depends on an element of the input outside of its receptive field, for every operator of the audit.

Each position of the input is changed along each axis, and every element of the output that changes with it must have
that position in its field. Fields that are global or unknown contain everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from costcore import ComputationalCostHook
from tests.audit.test_audit import rows
from tests.core.analyses.receptive_field.fields import follow, sources

WITH_BORDERS = {"roll", "pad-reflect"}
"""Operators that take a border from elsewhere in the image, which is not part of a receptive field."""

MAKES_OWN_INPUTS = "the row runs on its own inputs, or not at all in float64"


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_in(item)


def is_shape(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(size, int) for size in value)


def made(value: Any) -> Any:
    if is_shape(value):
        return torch.rand(value, dtype=torch.float64) * 0.8 + 0.1
    if isinstance(value, list):
        return [made(item) for item in value]
    if not isinstance(value, torch.Tensor):
        pytest.skip(MAKES_OWN_INPUTS)
    return value


def run(model: Any, args: list[Any]) -> torch.Tensor:
    """Run the model on copies, and return its first output."""
    torch.manual_seed(1)
    with torch.no_grad():
        return next(tensors_in(model(*[arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in args])))


ROWS = [
    row
    for row in rows()
    if not (row.runs or row.backward or row.options) and row.phase == "forward" and not row.name.startswith("onnx-")
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_what_changes_an_output_is_in_its_field(row):
    torch.manual_seed(0)
    is_one = is_shape(row.inputs) or not isinstance(row.inputs, (tuple, list))
    args = [made(value) for value in ([row.inputs] if is_one else row.inputs)]
    model = row.model()
    if not isinstance(model, torch.nn.Module) or not isinstance(args[0], torch.Tensor):
        pytest.skip(MAKES_OWN_INPUTS)
    model = model.double().eval()
    for parameter in model.parameters():
        torch.nn.init.uniform_(parameter, 0.1, 1.1)
    try:
        before = run(model, args)
    except (RuntimeError, NotImplementedError, TypeError, ValueError, StopIteration):
        pytest.skip(MAKES_OWN_INPUTS)
    x = args[0]
    with ComputationalCostHook() as hook:
        run(model, args)
    trace = hook.report.trace
    source = next((each for each in sources(trace) if each.shape == tuple(x.shape)), None)
    last = trace.calls[-1]
    if source is None or not x.is_floating_point() or last.layer.out.shape != tuple(before.shape):
        pytest.skip("the input is not read, or the last call is not the output")
    followed = follow(trace, source).outputs[last.name][0]
    for axis, dependence in enumerate(followed):
        if dependence is not None and (dependence.unknown or dependence.misaligned or dependence.global_by):
            continue
        if row.name in WITH_BORDERS:
            continue
        for position in range(x.shape[axis]):
            changed = x.clone()
            changed.select(axis, position).uniform_(0.1, 0.9)
            after = run(model, [changed, *args[1:]])
            for index in (after != before).nonzero().tolist():
                assert dependence is not None and dependence.path is not None
                field = dependence.path
                at = sum((index[d.axis] - d.start) // d.unit % d.size * d.weight for d in field.factors)
                first, final = field.map(at) or (0, -1)
                assert first <= position <= final, (axis, position, index)
