"""Infer the trip count of a loop from the blocks of its condition and its body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from costcore.graphs import GraphValue

from .model import Block, Operation


def counted_trips(
    condition: Block, body: Block, given: Sequence[GraphValue], values: Mapping[str, GraphValue]
) -> int | None:
    """Return the trip count of a loop that counts up to a known limit; None if it depends on data.

    The condition is ``less(counter, limit)``, or several of these joined by ``logical_and``, as the converter writes
    recurrent layers. A counter is a loop variable to which the body adds a number. The first comparison that fails ends
    the loop.

    Args:
        condition: the block of the condition.
        body: the block of the body.
        given: the initial values of the loop variables.
        values: the values outside the loop, by name.
    """
    makers = {name: operation for operation in condition.operations for name, _ in operation.outputs}
    waiting: list[Any] = [*condition.outputs]
    counts: list[int | None] = []
    while waiting:
        operation = makers.pop(waiting.pop(), None)
        if operation is not None and operation.type == "logical_and":
            waiting += [each for name in ("x", "y") for each in operation.inputs.get(name, ()) if isinstance(each, str)]
        elif operation is not None and operation.type == "less":
            counts.append(_trips_below(operation, condition, body, given, values))
        else:
            return None
    known = [count for count in counts if count is not None]
    return min(known) if known and len(known) == len(counts) else None


def _trips_below(
    less: Operation, condition: Block, body: Block, given: Sequence[GraphValue], values: Mapping[str, GraphValue]
) -> int | None:
    """Return the number of iterations until one comparison fails; None if it depends on data."""
    carried = [name for name, _ in condition.inputs]
    counter, limit = _operand(less, "x"), _operand(less, "y")
    if counter not in carried or carried.index(counter) >= min(len(body.inputs), len(body.outputs), len(given)):
        return None
    place = carried.index(counter)
    start, inner = given[place].data, body.inputs[place][0]
    adds = [
        (_operand(operation, "x"), _operand(operation, "y"))
        for operation in body.operations
        if operation.type == "add" and any(name == body.outputs[place] for name, _ in operation.outputs)
    ]
    steps = [y if x == inner else x for x, y in adds if inner in (x, y)]
    if len(steps) != 1 or steps[0] == inner:
        return None
    numbers = (start, _number(condition, limit, values), _number(body, steps[0], values))
    if any(each is None or len(each) != 1 or type(each[0]) is not int for each in numbers):
        return None
    (first,), (stop,), (by,) = numbers  # type: ignore[misc]  # none of them is None
    return max(0, -(-(stop - first) // by)) if by > 0 else None


def _operand(operation: Operation, name: str) -> Any:
    """Return an operand, as a value or its name; None if it is absent or a list of several."""
    given = operation.inputs.get(name, ())
    return given[0] if len(given) == 1 else None


def _number(block: Block, operand: Any, values: Mapping[str, GraphValue]) -> Any:
    """Return the elements of an operand, which is a constant in the block or a value outside; None if unknown."""
    if isinstance(operand, GraphValue):
        return operand.data
    for operation in block.operations:
        if any(name == operand for name, _ in operation.outputs):
            stored = [each for given in operation.inputs.values() for each in given if isinstance(each, GraphValue)]
            return stored[-1].data if operation.type == "const" and stored else None
    is_carried = any(name == operand for name, _ in block.inputs)
    return None if is_carried or operand not in values else values[operand].data
