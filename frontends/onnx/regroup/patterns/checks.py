"""Checks of matched values that several patterns share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from costcore.numbers.dims import Dim, is_symbolic

from ...reading.exporter_metadata import call_site, origin
from ...values.value import FLOATS, Value
from ...walk.history import RecordedNode
from ..exported_program import operation
from ..matcher import DependsOnSizes, Extension, Group, Match


def is_shape(shape: tuple[Dim, ...] | None, expected: tuple[Dim, ...]) -> bool:
    """Return True if two shapes are equal for all sizes, False if they are for none.

    Raises:
        DependsOnSizes: if they are equal for some sizes only.
    """
    if shape is None or len(shape) != len(expected):
        return False
    unequal: list[tuple[Any, Any]] = [pair for pair in zip(shape, expected, strict=True) if pair[0] != pair[1]]
    if any(not (is_symbolic(a) or is_symbolic(b)) or (a - b).is_zero is False for a, b in unequal):
        return False
    if unequal:
        raise DependsOnSizes(tuple(dict.fromkeys(_condition(*pair) for pair in unequal)))
    return True


def _condition(size: Any, expected: Any) -> tuple[Any, Any]:
    """Return the two sizes that must be equal, one that has a name first.

    If ``size`` is the broadcast of ``expected`` and another size, these two are.
    """
    broadcast = size.args if is_symbolic(size) and size.func.__name__ == "Max" else ()
    others = [other for other in broadcast if other != expected]
    found = (others[0], expected) if len(broadcast) == 2 and len(others) == 1 else (size, expected)
    return found if is_symbolic(found[0]) and found[0].is_Symbol else found[::-1]


def is_learned(value: Value | None, *shape: Any) -> bool:
    """Return True for a stored floating-point tensor of this shape; see :func:`is_shape`."""
    if value is None or value.stored is None or value.dtype not in FLOATS:
        return False
    return is_shape(value.shape, shape)


def preserves_x(match: Match) -> bool:
    """Return True if the output of the group has the shape and dtype of ``x``; see :func:`is_shape`."""
    y, x = match.nodes[0].call.layer.out, match.values["x"]
    return x.dtype == y.dtype and is_shape(x.shape, y.shape)


def scalar(value: Value) -> Any:
    """Return the element of a constant of one element."""
    return value.data.ravel()[0]


def comes_from(match: Match, name: str, *, or_no_origin: bool = True) -> bool:
    """Return True if the exporter wrote all nodes of a match for this operation of the user's program.

    Args:
        match: the nodes.
        name: the operation.
        or_no_origin: the answer for nodes without an origin.
    """
    origins = {origin(recorded.node.proto) for recorded in match.nodes}
    written_for = operation(origins.pop()) if len(origins) == 1 else None
    return or_no_origin if written_for is None else written_for.name == name


def built(
    op: str, kind: str, *operands: str, source: str = "", settings: dict[str, str] | None = None, **attrs: Any
) -> Callable[[Match, Extension], Group | str | None]:
    """Return a builder of an operator whose operands are values of the match.

    Args:
        op: canonical name of the operator.
        kind: its op_type.
        operands: the operands, by the names that they have in the match; ``x`` has the shape of the output.
        source: the operation of the program that a single operation must be.
        settings: numbers of the match by attribute.
        attrs: other attributes.
    """

    def build(match: Match, _: Extension) -> Group | str | None:
        if source and not comes_from(match, source):
            return f"the nodes were not written for {source}"
        if operands == ("x",) and not preserves_x(match):
            return None
        numbers = {name: scalar(match.values[value]) for name, value in (settings or {}).items()}
        return Group(op, kind, {name: match.values[name] for name in operands}, {**attrs, **numbers}, match.nodes)

    return build


def function(*names: str) -> str:
    """Return the regular expression for a call of a function of PyTorch in a source line."""
    return rf"\b(F|functional|torch)\.({'|'.join(names)})\("


def nodes_of_call(root: RecordedNode, extend: Extension) -> list[RecordedNode]:
    """Return the connected nodes that were written for the same call of the user's program, the last one first."""
    site, found, waiting = call_site(root.node.proto), {root.position: root}, [root]
    while waiting:
        node = waiting.pop().node
        near = [extend.producer(value) for value in node.inputs if value is not None]
        near += [reader for value in node.outputs if value is not None for reader in extend.readers(value)]
        for recorded in near:
            if recorded is None or recorded.position in found or recorded.node.op == "Constant":
                continue  # operations of the program share constants
            if call_site(recorded.node.proto) == site:
                found[recorded.position] = recorded
                waiting.append(recorded)
    return sorted(found.values(), key=lambda recorded: recorded.position, reverse=True)
