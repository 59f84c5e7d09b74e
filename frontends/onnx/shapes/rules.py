"""Shape rules that several families share, and checks that rules begin with."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from costcore.dims import Dim, maximum

from ..graph.node import Node, Rule
from ..values.constant_folding import UNARY, each
from ..values.value import Shape, Value


def broadcast(node: Node, *shapes: Shape) -> Shape:
    """The shape that all ``shapes`` broadcast to.

    Raises:
        CostError: where they do not.
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
        return maximum(a, b)

    def both(a: Shape, b: Shape) -> Shape:
        rank = max(len(a), len(b))
        return tuple(map(pair, (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b))

    return reduce(both, shapes)


def given(node: Node) -> list[Value]:
    """The inputs that are not left out.

    Raises:
        CostError: where there is none.
    """
    values = [value for value in node.inputs if value is not None]
    if not values:
        raise node.error("has no inputs")
    return values


def same(node: Node) -> Sequence[Value]:
    """The output is like the first input."""
    x = given(node)[0]
    if node.op == "Gelu" and node.args.get("approximate", "none") not in ("none", "tanh"):
        raise node.error(f"has the unknown approximation {node.args['approximate']!r}")
    function = UNARY.get(node.op)
    return [node.result(x.known, x.dtype, each(lambda a, *_: function(a)) if function else None)]


def shape_only(dtype: str) -> Rule:
    """The output has the shape of the first input and this element type."""
    return lambda node: [node.result(given(node)[0].known, dtype)]


def heads(node: Node, name: str) -> int:
    """How many heads an attribute says there are.

    Raises:
        CostError: where it says none.
    """
    count = node.args.get(name) or 0
    if count < 1:
        raise node.error(f"has no {name}")
    return int(count)


def said(node: Node, name: str) -> int:
    """A number that an attribute says.

    Raises:
        CostError: where it says none.
    """
    number = node.args.get(name)
    if not isinstance(number, int) or number < 1:
        raise node.error(f"has no {name}")
    return number


def of_rank(node: Node, **ranks: int) -> None:
    """Check how many dimensions the named inputs have.

    Raises:
        CostError: for an input that is left out, or has others.
    """
    for name, rank in ranks.items():
        shape = node.value(name).known
        if len(shape) != rank:
            raise node.error(f"needs {name} of {rank} dimensions, got {shape}")


def pairwise(first: str, second: str) -> Rule:
    """Two operands, broadcast."""
    return lambda node: [
        node.result(broadcast(node, node.value(first).known, node.value(second).known), node.value(first).dtype)
    ]


def like(*names: str, dtype: str = "") -> Rule:
    """Outputs like the inputs of these names, as far as they are given, maybe of another type."""

    def rule(node: Node) -> list[Value]:
        first = node.value(names[0])
        values = [node.get(name) or first for name in names]
        return [node.result(value.known, dtype or value.dtype) for value in values]

    return rule
