"""Activation functions as ``jax.nn`` writes them."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.trace.patterns import Named, Number

from ..matcher import either, op
from .builders import Decomposition, X, of_x

_CUBE = either(op("integer_pow", X), op("mul", op("mul", X, X), X), op("mul", op("square", X), X))
_TANH = op("tanh", op("mul", Number(0.7978845608), op("add", X, op("mul", Number(0.044715), _CUBE))))
_HALF = Number(0.5)
GELU_TANH = Decomposition(
    either(
        op("mul", X, op("mul", _HALF, op("add", Number(1), _TANH))),
        op("mul", op("mul", _HALF, X), op("add", Number(1), _TANH)),
    ),
    of_x("gelu", approximate="tanh"),
)
_ROOT_HALF = Number(0.70710678)
_SCALED = either(op("mul", X, _ROOT_HALF), op("div", X, Number(1.41421356)))
GELU = Decomposition(
    either(
        op("mul", op("mul", _HALF, X), op("erfc", op("mul", op("neg", X), _ROOT_HALF))),
        op("mul", op("mul", _HALF, X), op("add", Number(1), op("erf", _SCALED))),
        op("mul", X, op("mul", _HALF, op("add", Number(1), op("erf", _SCALED)))),
        op("div", op("mul", X, op("add", Number(1), op("erf", _SCALED))), Number(2)),
    ),
    of_x("gelu"),
)
_SIGMOID = op("div", Number(1), op("add", Number(1), op("exp", op("neg", X))))
SILU = Decomposition(op("mul", X, either(op("logistic", X), _SIGMOID)), of_x("silu"))


_POSITIVE = op("max", X, Number(0))
_BELOW_6 = either(op("min", _POSITIVE, Number(6)), op("clamp", Number(0), X, Number(6)))
_SHIFTED = op("add", X, Number(3))
_SHIFTED_BELOW_6 = either(
    op("min", op("max", _SHIFTED, Number(0)), Number(6)), op("clamp", Number(0), _SHIFTED, Number(6))
)
_SIXTH = either(op("div", _SHIFTED_BELOW_6, Number(6)), op("mul", _SHIFTED_BELOW_6, Number(1 / 6)))
_IS_POSITIVE = either(op("gt", X, Number(0)), op("ge", X, Number(0)))
_WITHOUT_POSITIVE = either(op("select_n", _IS_POSITIVE, X, Number(0)), X)
_POWER = op("expm1", _WITHOUT_POSITIVE)
_NEGATIVE_PART = either(op("mul", Number(), _POWER), _POWER)
_ELU = op("select_n", _IS_POSITIVE, _NEGATIVE_PART, X)
_DIFFERENCE = Named("difference", op("sub", X, Number(0)))
_LOG_SUM = op("add", op("max", X, Number(0)), op("log1p", op("exp", op("neg", op("abs", _DIFFERENCE)))))
_SOFTPLUS = either(op("select_n", op("ne", _DIFFERENCE, _DIFFERENCE), _LOG_SUM, op("add", X, Number(0))), _LOG_SUM)

PATTERNS: Mapping[str, Decomposition] = {
    "gelu_tanh": GELU_TANH,
    "gelu": GELU,
    "silu": SILU,
    "hard_swish": Decomposition(op("mul", X, _SIXTH), of_x("hard_swish")),
    "hard_sigmoid": Decomposition(_SIXTH, of_x("hard_sigmoid")),
    "selu": Decomposition(op("mul", Number(1.05070098), _ELU), of_x("selu")),
    "elu": Decomposition(_ELU, of_x("elu")),
    "leaky_relu": Decomposition(op("select_n", _IS_POSITIVE, op("mul", Number(), X), X), of_x("leaky_relu")),
    "mish": Decomposition(op("mul", X, op("tanh", _SOFTPLUS)), of_x("mish")),
    "softplus": Decomposition(_SOFTPLUS, of_x("softplus")),
    "relu6": Decomposition(_BELOW_6, of_x("relu6")),
    "relu": Decomposition(_POSITIVE, of_x("relu")),
    "sigmoid": Decomposition(_SIGMOID, of_x("sigmoid")),
}
"""Patterns by name, the longer ones first."""
