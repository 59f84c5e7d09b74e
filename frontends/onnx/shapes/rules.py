"""Shape rules that several families share, and checks that rules begin with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from costcore.messages import short_repr
from costcore.numbers.dims import Dim, maximum

from ..graph.node import Node, Rule
from ..values.constant_folding import UNARY, each
from ..values.value import Shape, Value


def broadcast(node: Node, *shapes: Shape) -> Shape:
    """Return the shape that all ``shapes`` broadcast to.

    Raises:
        CostError: if they do not.
    """

    def pair(a: Dim, b: Dim) -> Dim:
        if a == b or b == 1:
            return a
        if a == 1:
            return b
        if isinstance(a, int) and isinstance(b, int):
            raise node.error(f"cannot broadcast its inputs {' and '.join(map(str, shapes))}")
        if isinstance(a, int) or isinstance(b, int):
            return a if isinstance(a, int) else b  # the symbol is this number, or 1
        for size in (a, b):
            if _is_longer_than_one(size):
                return size  # the other one is equal, or 1
        return maximum(a, b)

    def both(a: Shape, b: Shape) -> Shape:
        rank = max(len(a), len(b))
        return tuple(map(pair, (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b))

    return reduce(both, shapes)


def common_shape(a: Shape, b: Shape) -> Shape | None:
    """Return the shape of two inputs that must have the same one, with numbers if one of them has; None if they differ.

    Sizes with a name may be equal to any other.
    """
    if len(a) != len(b) or any(isinstance(p, int) and isinstance(q, int) and p != q for p, q in zip(a, b, strict=True)):
        return None
    return tuple(q if isinstance(q, int) else p for p, q in zip(a, b, strict=True))


def _is_longer_than_one(size: Any) -> bool:
    """Return True for a sum of products of sizes, such as ``past + 1``, that is more than 1 for all of them."""
    terms: Mapping[Any, Any] = size.as_coefficients_dict()
    if any(not (term.is_integer and term.is_positive and factor.is_positive) for term, factor in terms.items()):
        return False
    return bool(sum(terms.values()) > 1)  # each term is 1 or more


def present_inputs(node: Node) -> list[Value]:
    """Return the inputs that are not omitted.

    Raises:
        CostError: if there are none.
    """
    values = [value for value in node.inputs if value is not None]
    if not values:
        raise node.error("has no inputs")
    return values


def same_shape(node: Node) -> Sequence[Value]:
    """Infer an output like the first input."""
    x = present_inputs(node)[0]
    function = UNARY.get(node.op)
    return [node.result(x.known_shape, x.dtype, each(lambda a, *_: function(a)) if function else None)]


def same_shape_in(dtype: str) -> Rule:
    """Return a rule whose output has the shape of the first input, in this dtype."""
    return lambda node: [node.result(present_inputs(node)[0].known_shape, dtype)]


def positive(node: Node, name: str) -> int:
    """Return a positive integer attribute.

    Raises:
        CostError: if it is missing or not a positive integer.
    """
    number = node.args.get(name)
    if number is None:
        raise node.error(f"lacks the required attribute {name!r}")
    if not isinstance(number, int) or number < 1:
        raise node.error(f"needs a positive integer {name} (got {short_repr(number)})")
    return number


def check_ranks(node: Node, **ranks: int) -> None:
    """Check the ranks of the named inputs.

    Raises:
        CostError: if one is omitted or has another rank.
    """
    for name, rank in ranks.items():
        shape = node.value(name).known_shape
        if len(shape) != rank:
            raise node.error(f"needs {name} of {rank} dimensions (got the shape {shape})")


def broadcast_of(first: str, second: str) -> Rule:
    """Return a rule whose output is the broadcast of two inputs, in the dtype of the first."""
    return lambda node: [
        node.result(
            broadcast(node, node.value(first).known_shape, node.value(second).known_shape), node.value(first).dtype
        )
    ]


def like(*names: str, dtype: str = "") -> Rule:
    """Return a rule whose outputs are like the inputs of these names, or the first of them, maybe in another dtype."""

    def rule(node: Node) -> list[Value]:
        first = node.value(names[0])
        values = [node.get(name) or first for name in names]
        return [node.result(value.known_shape, dtype or value.dtype) for value in values]

    return rule
