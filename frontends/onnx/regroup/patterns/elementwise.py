"""Comparisons, reciprocal roots and conversions as exporters decompose them."""

from __future__ import annotations

from costcore.trace.patterns import Either, Number, Op, Operand

from ..matcher import Decomposition, Extension, Group, Match
from .checks import preserves_x

X = Operand("x")
_SQRT = Op("Sqrt", X)


def _not_equal(match: Match, _: Extension) -> Group | None:
    operands = {"x0": match.values["x"], "x1": match.values["other"]}
    return Group("not_equal", "NotEqual", operands, {}, match.nodes)


def _rsqrt(match: Match, _: Extension) -> Group | None:
    return Group("rsqrt", "Rsqrt", {"x": match.values["x"]}, {}, match.nodes) if preserves_x(match) else None


def _same_type(match: Match, _: Extension) -> Group | None:
    """Build the identity for a conversion to the dtype that a value has already."""
    return Group("identity", "Cast", {"x": match.values["x"]}, {}, match.nodes) if preserves_x(match) else None


NOT_EQUAL = Decomposition(("Not",), Op("Not", Op("Equal", X, Operand("other"))), _not_equal)
RSQRT = Decomposition(("Reciprocal", "Div"), Either((Op("Reciprocal", _SQRT), Op("Div", Number(1.0), _SQRT))), _rsqrt)
IDENTITY = Decomposition(("Cast", "CastLike"), Either((Op("Cast", X), Op("CastLike", X, Operand("like")))), _same_type)
