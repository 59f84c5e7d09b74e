"""How often a loop runs, by the graphs of its condition and its body."""

from __future__ import annotations

from collections.abc import Sequence

import tflite

from costcore.graphs import GraphValue

from .model import Graph, OperatorInfo

JOINS = ("LOGICAL_AND", "STABLEHLO_AND")
ORDERS = ("LESS", "STABLEHLO_COMPARE")
LESS = tflite.StablehloComparisonDirection.STABLEHLO_COMPARISON_DIRECTION_LT


def counted_trips(condition: Graph, body: Graph, given: Sequence[GraphValue]) -> int | None:
    """Return how often a loop runs that counts from constants to constants; None if that depends on data.

    The condition is a comparison LESS of a carried value with a constant, or with a carried value that is one, or
    several of them joined by LOGICAL_AND, as converters write recurrent layers. The body adds a constant to each such
    value. The comparison that fails first ends the loop.
    """
    producers = {index: operator for operator in condition.operators for index in operator.outputs}
    waiting, counts = [*condition.outputs], []
    while waiting:
        operator = producers.pop(waiting.pop(), None)
        if operator is None or operator.name not in (*JOINS, *ORDERS):
            return None
        if operator.name == "STABLEHLO_COMPARE" and operator.options.get("ComparisonDirection") != LESS:
            return None
        if operator.name in JOINS:
            waiting += operator.inputs
        else:
            counts.append(_trips_below(operator, condition, body, given))
    known = [count for count in counts if count is not None]
    return min(known) if known and len(known) == len(counts) else None


def _trips_below(less: OperatorInfo, condition: Graph, body: Graph, given: Sequence[GraphValue]) -> int | None:
    """Return how often a comparison holds, of a value that the body adds a constant to."""
    if len(less.inputs) != 2 or less.inputs[0] not in condition.inputs:
        return None
    counter, limit = less.inputs
    place = condition.inputs.index(counter)
    if place >= min(len(body.inputs), len(body.outputs), len(given)):
        return None
    steps = [
        body.tensors[i].data
        for operator in body.operators
        if operator.name in ("ADD", "STABLEHLO_ADD")
        and operator.outputs == (body.outputs[place],)
        and body.inputs[place] in operator.inputs
        for i in operator.inputs
        if i != body.inputs[place]
    ]
    numbers = (given[place].data, _limit(condition, body, limit, given), steps[0] if len(steps) == 1 else None)
    if any(each is None or len(each) != 1 for each in numbers):
        return None
    (start,), (stop,), (by,) = numbers  # type: ignore[misc]  # none of them is None
    return max(0, -(-(stop - start) // by)) if by > 0 else None


def _limit(condition: Graph, body: Graph, index: int, given: Sequence[GraphValue]) -> tuple[int, ...] | None:
    """Return the constant that a counter is compared with; None if it is computed or changes."""
    if index not in condition.inputs:
        return condition.tensors[index].data
    place = condition.inputs.index(index)
    is_kept = place < min(len(body.inputs), len(body.outputs)) and body.inputs[place] == body.outputs[place]
    return given[place].data if is_kept and place < len(given) else None
