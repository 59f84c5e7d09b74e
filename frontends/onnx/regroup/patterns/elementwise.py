"""Functions of single elements as exporters decompose them: comparisons, roots, logarithms, remainders, angles."""

from __future__ import annotations

from collections.abc import Callable
from math import log, pi

from costcore.trace.patterns import Either, Named, Number, Op, Operand

from ...reading.exporter_metadata import origin
from ...walk.history import RecordedNode
from ..matcher import ONE, X0, X1, Decomposition, Extension, Group, Match, X
from .checks import built, comes_from, function, preserves_x

_SQRT = Op("Sqrt", X)


def is_to(dtype: str) -> Callable[[RecordedNode], bool]:
    """Return the check for conversions to a dtype."""
    return lambda recorded: recorded.call.layer.out.dtype == dtype


def _same_type(match: Match, _: Extension) -> Group | None:
    """Build the identity for a conversion to the dtype that a value has already."""
    return Group("identity", "Cast", {"x": match.values["x"]}, {}, match.nodes) if preserves_x(match) else None


NOT_EQUAL = Decomposition(("Not",), Op("Not", Op("Equal", X0, X1)), built("not_equal", "NotEqual", "x0", "x1"))
RSQRT = Decomposition(
    ("Reciprocal", "Div"), Either((Op("Reciprocal", _SQRT), Op("Div", ONE, _SQRT))), built("rsqrt", "Rsqrt", "x")
)
EXPM1 = Decomposition(("Sub",), Op("Sub", Op("Exp", X), ONE), built("expm1", "Expm1", "x", source="expm1"))


def _is_first_constant(recorded: RecordedNode) -> bool:
    """Return True if the older exporter wrote the constant first, or another exporter the node."""
    first = recorded.node.inputs[0]
    return bool(origin(recorded.node.proto)) or (first is not None and first.role == "const")


LOG1P = Decomposition(
    ("Log",),
    Op("Log", Op("Add", X, ONE, check=_is_first_constant)),
    built("log1p", "Log1p", "x", source="log1p"),
)
"""``log(1 + x)``; the older exporter writes the 1 of the operation first, that of a program second."""

LOG2 = Decomposition(("Div",), Op("Div", Op("Log", X), Number(log(2))), built("log2", "Log2", "x", source="log2"))

_QUOTIENT = Op("Div", X0, X1)


def _floor_div(match: Match, extend: Extension) -> Group | str | None:
    """Build the rounded quotient of ``floor_divide``, or of ``div`` with a rounding mode."""
    source = "div" if comes_from(match, "div") else "floor_divide"
    return built("floor_div", "FloorDiv", "x0", "x1", source=source)(match, extend)


FLOOR_DIV = Decomposition(
    ("Floor", "Cast"),
    Either((Op("Floor", _QUOTIENT), Op("Cast", Op("Cast", _QUOTIENT, check=is_to("int64"))))),
    _floor_div,
)
REMAINDER = Decomposition(
    ("Sub",),
    Op("Sub", X0, Op("Mul", Op("Floor", _QUOTIENT), X1)),
    built("mod", "Mod", "x0", "x1", source="remainder"),
)
"""``x0 - floor(x0 / x1) * x1``."""

_ANGLE = Named("angle", Op("Atan", _QUOTIENT))
_OTHER_SIDE = Op("Where", Op("Greater", X0, Number(0.0)), Op("Add", _ANGLE, Number(pi)), Op("Sub", _ANGLE, Number(pi)))
_QUADRANT = Op("Where", Op("Less", X1, Number(0.0)), _OTHER_SIDE, _ANGLE)
_DEFINED = Named("quadrant", _QUADRANT)
ATAN2 = Decomposition(
    ("Where",),
    Either((Op("Where", Op("IsNaN", _DEFINED), Number(0.0), _DEFINED), _QUADRANT)),
    built("atan2", "Atan2", "x0", "x1"),
)
IDENTITY = Decomposition(("Cast", "CastLike"), Either((Op("Cast", X), Op("CastLike", X, Operand("like")))), _same_type)

_CLASSES = Op("Cast", Op("Equal", Op("Unsqueeze", X), Operand("classes")))
ONE_HOT = Decomposition(
    ("Cast",),
    _CLASSES,
    lambda match, _: Group("one_hot", "OneHot", {"x": match.values["x"]}, {}, match.nodes),
    function("one_hot"),
    needs_origin=True,
)
