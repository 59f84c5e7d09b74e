"""How one operator is decomposed, and the layer that it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from costcore.ir import Layer, Tensor
from costcore.trace.patterns import Operand, Pattern

from ...capture.recording import Recorded
from ...capture.values import Value
from ..matcher import Graph, Match

PRODUCTS = ("conv_general_dilated", "dot_general")

X, W, B = Operand("x"), Operand("w"), Operand("b")

Group: TypeAlias = tuple[Layer, tuple[Value, ...]]
"""A layer, and the values of its operands."""

Builder: TypeAlias = Callable[[Match, Recorded, Graph], "Group | None"]
"""Returns the layer for a match that ends in an equation; None if the match is something else after all."""


class Decomposition(NamedTuple):
    """How one operator is decomposed.

    Attributes:
        pattern: the pattern of the value that it computes.
        build: returns the layer for a match.
    """

    pattern: Pattern
    build: Builder


def layer_of(kind: str, operands: Mapping[str, Value], root: Recorded, attrs: Mapping[str, Any]) -> Group:
    """Return the layer of a group whose last equation is ``root``."""
    tensors = {name: value.tensor() for name, value in operands.items()}
    outputs = [tensor for value in root.outputs if (tensor := value.tensor()) is not None]
    known = {name: tensor for name, tensor in tensors.items() if isinstance(tensor, Tensor)}
    return Layer(kind, known, outputs, attrs), tuple(operands.values())


def of_x(kind: str, **attrs: Any) -> Builder:
    """Return a builder of an elementwise operator of ``x``."""

    def build(match: Match, root: Recorded, graph: Graph) -> Group | None:
        if match.values["x"].size != root.outputs[0].size:
            return None
        return layer_of(kind, {"x": match.values["x"]}, root, attrs)

    return build


def found_product(match: Match, root: Recorded, graph: Graph) -> Recorded | None:
    """Return the one product or convolution of a match besides its last equation; None if there are several."""
    products = [graph.history[i] for i in match.nodes if graph.history[i].primitive in PRODUCTS]
    inner = [recorded for recorded in products if recorded is not root]
    return inner[0] if len(inner) == 1 else None


def is_mean(match: Match, length: Any) -> bool:
    """Return whether sums are divided by the number of their elements."""
    count, share = match.values.get("count"), match.values.get("share")
    if count is not None and count.number != length:
        return False
    return share is None or abs(share.number * length - 1) < 1e-3


def reduced_axes(match: Match, graph: Graph, *primitives: str) -> tuple[int, ...] | None:
    """Return the axes of all reductions of a match; None if they differ."""
    reductions = [graph.history[i] for i in match.nodes if graph.history[i].primitive in primitives]
    found = {tuple(map(int, each.params["axes"])) for each in reductions}
    return found.pop() if len(found) == 1 else None
