"""Helpers of the ONNX tests: reading a model into a recorder, shapes of its last call, totals of its calls."""

from __future__ import annotations

from typing import Any

from onnx import ModelProto

from costcore.counting import Pricer
from costcore.frontends.onnx.estimate import estimate
from costcore.ir import Operations
from costcore.registry import calculators
from costcore.trace.call import Call
from costcore.trace.run import Recorder


def read(model: Any, inputs: Any = None, **options: Any) -> Recorder:
    """The run of a model."""
    recorder = Recorder()
    estimate(recorder, model, inputs, **options)
    return recorder


def shapes(model: ModelProto, inputs: Any = None, **options: Any) -> list[tuple[Any, ...]]:
    """The shapes of the outputs of the last call."""
    return [tensor.shape for tensor in read(model, inputs, **options).calls[-1].layer.outputs]


def total(calls: list[Call], kind: str) -> Any:
    """The sum of ``flops``, ``macs``, ``mread`` or ``mwrite`` over calls that all have a price."""
    price, found = Pricer(calculators()), 0
    for call in calls:
        cost = price(call).cost
        assert cost is not None, call
        value = getattr(cost, kind)
        found += (value.flops() if isinstance(value, Operations) else value) * call.times
    return found
