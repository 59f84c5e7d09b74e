"""Costs of layers that are written as shapes."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from costcore.calculators import costcore_calculators
from costcore.counting import Pricer
from costcore.counting import cost_of as cost_of_layer
from costcore.ir import Cost, Layer, Operations, Tensor, as_dim
from tests.core.traces import Call

CALCULATORS = costcore_calculators()


def declared(family: str, table: str) -> Any:
    """Return a table of ``calculators/<family>.py``: the executable definition of each operator."""
    return getattr(import_module(f"costcore.calculators.{family}"), table)


def cost_of(layer: Layer) -> Cost:
    """Return the cost of a layer, not simplified."""
    return cost_of_layer(layer, CALCULATORS[layer.op])


def priced(layer: Layer, **options: Any) -> Cost:
    """Return the cost of a layer as a trace holds it."""
    cost = Pricer(CALCULATORS, **options)(Call(layer, type=layer.op, native=layer.op)).cost
    assert cost is not None
    return cost


def as_number(value: Any) -> Any:
    """Return a number of a formula as the engine writes it."""
    return as_dim(value)


def tensor(shape: Any) -> Tensor:
    """Return ``shape`` as a float32 tensor, unless it is a tensor already; None is a scalar constant."""
    if isinstance(shape, Tensor):
        return shape
    return Tensor((), role="const") if shape is None else Tensor(tuple(shape))


def layer_cost(op: str, inputs: dict[str, Any], *outputs: Any, **attrs: Any) -> Cost:
    """Return the cost of a layer: operands by name and outputs, as shapes or tensors."""
    layer = Layer(op, {name: tensor(x) for name, x in inputs.items()}, [tensor(y) for y in outputs], attrs)
    return cost_of(layer)


def operations(op: str, inputs: dict[str, Any], *outputs: Any, **attrs: Any) -> Operations:
    """Return the operations of a layer by class."""
    flops = layer_cost(op, inputs, *outputs, **attrs).flops
    assert isinstance(flops, Operations)
    return flops


def bytes_moved(op: str, inputs: dict[str, Any], *outputs: Any, **attrs: Any) -> tuple[Any, Any]:
    """Return the bytes read and written by a layer."""
    result = layer_cost(op, inputs, *outputs, **attrs)
    return result.mread, result.mwrite
