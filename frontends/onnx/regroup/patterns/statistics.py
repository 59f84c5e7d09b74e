"""Variances, standard deviations, similarities and distances as exporters decompose them."""

from __future__ import annotations

from typing import Any

from costcore.ir import prod
from costcore.trace.patterns import Either, Named, Number, Op, Pattern

from ...reading.exporter_metadata import origin
from ..matcher import X0, X1, Decomposition, Extension, Group, Match, X
from .checks import built, function, is_shape, scalar

_CENTRED = Named("centred", Op("Sub", X, Op("ReduceMean", X)))
_SQUARES = Op("ReduceMean", Op("Mul", _CENTRED, _CENTRED))
_UNBIASED = Op("Div", Op("Mul", _SQUARES, Named("n", Number())), Named("n - 1", Number()))
_VARIANCE = Either((_UNBIASED, _SQUARES))


def _statistic(op: str, kind: str) -> Any:
    """Return the builder of a variance or a standard deviation over some axes."""

    def build(match: Match, _: Extension) -> Group | str | None:
        x = match.values["x"]
        if x.shape is None:
            return None
        layers = [recorded.call.layer for recorded in match.nodes if recorded.node.op == "ReduceMean"]
        found = {tuple(layer.attrs.get("axis") or range(len(x.shape))) for layer in layers}
        if len(found) != 1:
            return "the axes of both means differ"
        axes, is_unbiased = found.pop(), "n" in match.values
        if not is_unbiased and not any("prims.var" in origin(recorded.node.proto) for recorded in match.nodes):
            return "without a correction, only nodes that were written for a variance are one"
        correction = 0
        if is_unbiased:
            n = scalar(match.values["n"])
            correction = n - scalar(match.values["n - 1"])
            count = int(n) if isinstance(n, float) and n.is_integer() else n
            if not is_shape((count,), (prod(x.shape[axis] for axis in axes),)):
                return "the factor is not the number of elements"
        return Group(op, kind, {"x": x}, {"axis": axes, "correction": correction}, match.nodes)

    return build


VAR = Decomposition(("Div", "ReduceMean"), _VARIANCE, _statistic("var", "Var"))
STD = Decomposition(("Sqrt",), Op("Sqrt", _VARIANCE), _statistic("std", "Std"), r"\bstd\(")


def _along_axis(op: str, kind: str, reduction: str, **attrs: Any) -> Any:
    """Return the builder of a function of two operands along the axis of the reductions of this op_type."""

    def build(match: Match, extend: Extension) -> Group | str | None:
        found = {recorded.call.layer.attrs.get("axis") for recorded in match.nodes if recorded.node.op == reduction}
        axes = found.pop() if len(found) == 1 else None
        if not axes or len(axes) != 1:
            return "the reductions are not along one axis"
        return built(op, kind, "x0", "x1", axis=axes[0], **attrs)(match, extend)

    return build


def _sum_of(*factors: Pattern) -> Op:
    return Op("ReduceSum", Op("Mul", *factors))


def _unit(x: Pattern) -> Op:
    """Return the quotient of a vector and its length, which is not less than a small number."""
    length = Op("ReduceL2", x)
    return Op("Div", x, Op("Clip", Either((Op("Identity", length), length)), Number()))


_LENGTHS = Op("Sqrt", Op("Mul", _sum_of(X0, X0), _sum_of(X1, X1)))
TORCHSCRIPT_COSINE_SIMILARITY = Op("Div", _sum_of(X0, X1), Op("Max", _LENGTHS, Number()))
COSINE_SIMILARITY = Decomposition(
    ("ReduceSum", "Div"),
    Either((_sum_of(_unit(X0), _unit(X1)), TORCHSCRIPT_COSINE_SIMILARITY)),
    _along_axis("cosine_similarity", "CosineSimilarity", "ReduceSum"),
    function("cosine_similarity"),
)


def _rooted(difference: Pattern) -> Op:
    """Return the root of summed squares as the older exporter writes it: to the power of 0.5, or nearly so."""
    return Op("Pow", Op("ReduceSum", Op("Pow", difference, Number(2.0))), Named("root", Number()))


def _euclidean(op: str, kind: str, **attrs: Any) -> Any:
    build = _along_axis(op, kind, "ReduceSum", **attrs)

    def rooted(match: Match, extend: Extension) -> Group | str | None:
        if "root" not in match.values:
            return built(op, kind, "x0", "x1", **attrs)(match, extend)
        return build(match, extend) if abs(scalar(match.values["root"]) - 0.5) < 1e-5 else "the power is not a root"

    return rooted


TORCHSCRIPT_PAIRWISE_DISTANCE = _rooted(Op("Sub", X0, X1))
PAIRWISE_DISTANCE = Decomposition(
    ("ReduceL2", "Pow"),
    Either((Op("ReduceL2", Op("Add", Op("Sub", X0, X1), Number())), TORCHSCRIPT_PAIRWISE_DISTANCE)),
    _euclidean("pairwise_distance", "PairwiseDistance", p=2),
    function("pairwise_distance"),
)
PAIRWISE_DISTANCES = Decomposition(
    ("Pow",),
    _rooted(Op("Sub", Op("Unsqueeze", X0), Op("Unsqueeze", X1))),
    _euclidean("pairwise_distances", "PairwiseDistances", p=2),
)
"""``cdist(x0, x1)``."""
