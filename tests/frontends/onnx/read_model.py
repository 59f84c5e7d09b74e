"""Helpers of the ONNX tests: reading a model into a recorder, shapes of its last call, totals of its calls."""

from __future__ import annotations

from typing import Any

from onnx import ModelProto

from costcore.frontends.onnx.estimate import estimate
from costcore.ir import Operations
from costcore.trace.run import Recorder
from tests.registered import cost


def read(model: Any, inputs: Any = None, **options: Any) -> Recorder:
    """The run of a model."""
    recorder = Recorder()
    estimate(recorder, model, inputs, **options)
    return recorder


def shapes(model: ModelProto, inputs: Any = None, **options: Any) -> list[tuple[Any, ...]]:
    """The shapes of the outputs of the last call."""
    return [tensor.shape for tensor in read(model, inputs, **options).calls[-1].layer.outputs]


def total(calls: list[Any], kind: str) -> Any:
    """The sum of ``flops``, ``macs``, ``mread`` or ``mwrite`` over calls that all have a price."""
    found = 0
    for call in calls:
        value = getattr(cost(call), kind)
        found += (value.flops() if isinstance(value, Operations) else value) * call.times
    return found
