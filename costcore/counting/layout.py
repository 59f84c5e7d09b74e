"""Costs without data movement, as ``layout="free"`` counts them."""

from __future__ import annotations

from dataclasses import replace

from costcore.ir import Calculator, Cost, Layer, Operations
from costcore.registry.calculators import calculators
from costcore.trace.trace import Trace


def is_layout(calculator: Calculator | None) -> bool:
    """Return whether the operators of a calculator only move data."""
    return getattr(calculator, "is_layout", False)


def cost_of_free(layer: Layer) -> Cost:
    """Return the cost of an operator that is ignored."""
    return Cost(Operations(), 0, 0, layer.attrs)


def with_free_layout(trace: Trace) -> Trace:
    """Return a trace in which the operators that only move data cost nothing."""
    table = calculators()
    records = tuple(
        record._replace(cost=cost_of_free(record.call.layer))
        if record.cost is not None and is_layout(table.get(record.call.layer.op))
        else record
        for record in trace
    )
    return Trace(records, replace(trace.run, layout="free"))
