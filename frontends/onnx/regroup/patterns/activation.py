"""Activation functions as exporters decompose them."""

from __future__ import annotations

from math import pi, sqrt
from typing import Any

from costcore.trace.patterns import Either, Named, Number, Op, Pattern, product

from ...walk.history import RecordedNode
from ..matcher import ONE, Decomposition, Extension, Group, Match, X
from .checks import built, function, preserves_x, scalar

HALF = Number(0.5)


_QUOTIENT = Op("Div", X, Number(sqrt(2)))
_ERF = Op("Erf", Either((_QUOTIENT, Op("Mul", X, Number(sqrt(0.5))))))
_PRODUCTS = Op("Mul", X, Op("Mul", X, X))


def _tanh(cube: Pattern) -> Op:
    return Op("Tanh", Op("Mul", Number(sqrt(2 / pi)), Op("Add", X, Op("Mul", Number(0.044715), cube))))


_TANH = _tanh(Either((Op("Pow", X, Number(3.0)), _PRODUCTS)))


def _elu(match: Match, _: Extension) -> Group | None:
    """Build an ELU whose input and output are scaled by 1."""
    recorded = next(recorded for recorded in match.nodes if recorded.node.op == "Elu")
    return (
        Group("elu", "Elu", {"x": match.values["x"]}, recorded.call.layer.attrs, match.nodes)
        if preserves_x(match)
        else None
    )


GELU = Decomposition(("Mul",), product(X, HALF, Op("Add", _ERF, ONE)), built("gelu", "Gelu", "x", approximate="none"))
GELU_TANH = Decomposition(
    ("Mul",), product(X, HALF, Op("Add", _TANH, ONE)), built("gelu", "Gelu", "x", approximate="tanh")
)
SILU = Decomposition(("Mul",), Op("Mul", X, Op("Sigmoid", X)), built("silu", "Swish", "x"))
ELU = Decomposition(("Mul",), Op("Mul", Op("Elu", Op("Mul", X, ONE)), ONE), _elu)


ZERO, LAMBDA, MINUS_LAMBDA = Number(0.0), Named("lambda", Number()), Named("minus", Number())


def _shrink(op: str) -> Any:
    build = built(op, "Shrink", "x", settings={"lambd": "lambda"})

    def both_sides(match: Match, extend: Extension) -> Group | str | None:
        minus = match.values.get("minus")
        is_same = minus is None or scalar(minus) == -scalar(match.values["lambda"])
        return build(match, extend) if is_same else "the bounds differ"

    return both_sides


_OUTSIDE = Op("Or", Op("Cast", Op("Greater", X, LAMBDA)), Op("Cast", Op("Less", X, MINUS_LAMBDA)))
_ABOVE = Op("Where", Op("Greater", X, LAMBDA), Op("Sub", X, LAMBDA), ZERO)
_BELOW = Op("Where", Op("Less", X, MINUS_LAMBDA), Op("Add", X, LAMBDA), ZERO)
_TOWARDS_ZERO = Op("Sub", X, Op("Mul", Op("Sign", X), LAMBDA))
TORCHSCRIPT_HARD_SHRINK, TORCHSCRIPT_SOFT_SHRINK = Op("Where", _OUTSIDE, X, ZERO), Op("Add", _ABOVE, _BELOW)
HARD_SHRINK = Decomposition(
    ("Where",),
    Either((Op("Where", Op("LessOrEqual", Op("Abs", X), LAMBDA), ZERO, X), TORCHSCRIPT_HARD_SHRINK)),
    _shrink("hard_shrink"),
    function("hardshrink"),
)
SOFT_SHRINK = Decomposition(
    ("Where", "Add"),
    Either(
        (
            Op("Where", Op("Greater", Op("Abs", X), LAMBDA), _TOWARDS_ZERO, Op("Mul", X, ZERO)),
            TORCHSCRIPT_SOFT_SHRINK,
        )
    ),
    _shrink("soft_shrink"),
    function("softshrink"),
)
_LIMIT, _REPLACEMENT = Named("limit", Number()), Named("replacement", Number())
THRESHOLD = Decomposition(
    ("Where",),
    Op("Where", Op("LessOrEqual", X, _LIMIT), _REPLACEMENT, X),
    built("threshold", "Threshold", "x", settings={"threshold": "limit", "value": "replacement"}),
    function("threshold"),
    needs_origin=True,
)
LOG_SIGMOID = Decomposition(
    ("Log",), Op("Log", Op("Sigmoid", X)), built("log_sigmoid", "LogSigmoid", "x", source="log_sigmoid")
)


def _is_sixth(recorded: RecordedNode) -> bool:
    slope, offset = recorded.node.args.get("alpha", 0.2), recorded.node.args.get("beta", 0.5)
    return bool(abs(slope * 6 - 1) < 1e-3 and offset == 0.5)


_RAMP = Op("Clip", Op("Add", X, Number(3.0)), ZERO, Number(6.0))
HARD_SWISH = Decomposition(
    ("Mul", "Div"),
    Either(
        (
            Op("Mul", X, Either((Op("HardSigmoid", X, check=_is_sixth), Op("Div", _RAMP, Number(6.0))))),
            Op("Div", Op("Mul", X, _RAMP), Number(6.0)),
        )
    ),
    built("hard_swish", "HardSwish", "x"),
)
"""``x * clip(x + 3, 0, 6) / 6``, for opsets without an operator."""

TORCHSCRIPT_GELU = Op("Mul", HALF, Op("Mul", X, Op("Add", Op("Erf", _QUOTIENT), ONE)))
TORCHSCRIPT_GELU_TANH = Op("Mul", HALF, Op("Mul", X, Op("Add", ONE, _tanh(_PRODUCTS))))
