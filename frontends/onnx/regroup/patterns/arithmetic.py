"""Products added to an operand, and gated or shifted activations, as exporters decompose them."""

from __future__ import annotations

from typing import Any

from costcore.trace.patterns import Either, Named, Number, Op, Operand

from ..matcher import X0, X1, X2, B, Decomposition, Extension, Group, Match, W, X
from .checks import built, comes_from, is_shape, preserves_x, scalar

_VALUE = Named("value", Number())


def _settings(match: Match, **names: str) -> dict[str, Any]:
    """Return the numbers of a match other than 1, by attribute."""
    found = {name: scalar(match.values[value]) for name, value in names.items() if value in match.values}
    return {name: number for name, number in found.items() if number != 1}


_PRODUCT = Op("Mul", X1, X2)
_ADDCMUL = Op("Add", X0, Either((Op("Mul", Op("Mul", X1, _VALUE), X2), Op("Mul", _PRODUCT, _VALUE), _PRODUCT)))
TORCHSCRIPT_ADDCMUL = Op("Add", X0, Op("Mul", _PRODUCT, _VALUE))
"""The TorchScript exporter stores the factor as one element along an axis; a number of the program has no axis."""


def _addcmul(match: Match, _: Extension) -> Group | None:
    factor = match.values.get("value")
    is_along_an_axis = factor is not None and factor.shape == (1,)
    if not comes_from(match, "addcmul", or_no_origin=is_along_an_axis):
        return None
    operands = {name: match.values[name] for name in ("x0", "x1", "x2")}
    return Group("addcmul", "Addcmul", operands, _settings(match, value="value"), match.nodes)


ADDCMUL = Decomposition(("Add",), _ADDCMUL, _addcmul)
"""``x0 + value * x1 * x2``."""


def _addcdiv(match: Match, _: Extension) -> Group | None:
    operands = {name: match.values[name] for name in ("x0", "x1", "x2")}
    return Group("addcdiv", "Addcdiv", operands, _settings(match, value="value"), match.nodes)


ADDCDIV = Decomposition(("Add",), Op("Add", X0, Op("Mul", Op("Div", X1, X2), _VALUE)), _addcdiv)
"""``x0 + value * x1 / x2``, with the factor even if it is 1."""

_FRACTION = Either((Op("CastLike", X2, X0), X2))
_DIFFERENCE, _WEIGHT = Op("Sub", X1, X0), Named("weight", _FRACTION)
_LERP = Op(
    "Where",
    Op("Less", _WEIGHT, Number(0.5)),
    Op("Add", X0, Op("Mul", _WEIGHT, Named("difference", _DIFFERENCE))),
    Op("Sub", X1, Op("Mul", Named("difference", _DIFFERENCE), Either((Op("Sub", Number(1.0), _WEIGHT), Number())))),
)
LERP = Decomposition(("Where",), _LERP, built("lerp", "Lerp", "x0", "x1", "x2"))
"""``x0 + x2 * (x1 - x0)``."""

_BETA = Named("beta", Number())
_SCALED = Op("Mul", X, _BETA)
_SCALED_X, _THRESHOLD, _DIVISOR = Named("scaled", _SCALED), Named("threshold", Number()), Named("divisor", Number())
_SHIFTED = Either(
    (
        Op("Where", Op("Greater", _SCALED_X, _THRESHOLD), X, Op("Div", Op("Softplus", _SCALED_X), _DIVISOR)),
        Op("Where", Op("Greater", X, _THRESHOLD), X, Op("Softplus", X)),
    )
)
TORCHSCRIPT_SOFTPLUS = Op("Div", Op("Softplus", _SCALED), _DIVISOR)


def _softplus(match: Match, _: Extension) -> Group | None:
    """Build a softplus that is the identity beyond a threshold, or one with a factor."""
    factors = {scalar(match.values[name]) for name in ("beta", "divisor") if name in match.values}
    if len(factors) > 1 or not preserves_x(match) or not comes_from(match, "softplus"):
        return None
    threshold = {"threshold": scalar(match.values["threshold"])} if "threshold" in match.values else {}
    attrs = {**_settings(match, beta="beta"), **threshold}
    return Group("softplus", "Softplus", {"x": match.values["x"]}, attrs, match.nodes)


SOFTPLUS = Decomposition(("Where", "Div"), Either((_SHIFTED, TORCHSCRIPT_SOFTPLUS)), _softplus)
"""``log(1 + exp(beta * x)) / beta``, and ``x`` where that is large."""


MISH = Decomposition(("Mul",), Op("Mul", X, Op("Tanh", Op("Softplus", X))), built("mish", "Mish", "x", source="mish"))


def _glu(match: Match, extend: Extension) -> Group | None:
    """Build the product of one half of a tensor and the sigmoid of the other half."""
    longer = extend(match, match.values["first"], Op("Split", X))
    if longer is None or not comes_from(longer, "glu"):
        return None
    split = longer.nodes[-1]
    if len(split.node.outputs) != 2 or split.node.outputs[1] is not match.values["second"]:
        return None
    attrs = {"axis": split.call.layer.attrs.get("axis")}
    return Group("glu", "Glu", {"x": longer.values["x"]}, attrs, longer.nodes)


GLU = Decomposition(("Mul",), Op("Mul", Operand("first"), Op("Sigmoid", Operand("second"))), _glu)

_MATMUL = Op("MatMul", X0, X1)
_ALPHA = Named("alpha", Number())
_PRODUCTS = Either((Op("Mul", _MATMUL, _ALPHA), _MATMUL))
_ADDEND = Either((Op("Mul", B, Named("beta", Number())), B))
TORCHSCRIPT_BADDBMM = Either(
    (
        Op("Add", Op("Mul", _MATMUL, _ALPHA), Op("Mul", B, Named("beta", Number()))),
        Op("Add", Op("Mul", _MATMUL, Named("alpha", Number(1.0))), B),
    )
)
"""Factors are written even if they are 1; one of a stored addend is folded into it."""


def _baddbmm(match: Match, _: Extension) -> Group | None:
    product = next(recorded.call.layer.out for recorded in match.nodes if recorded.node.op == "MatMul")
    if product.ndim != 3 or not is_shape(match.nodes[0].call.layer.out.shape, product.shape):
        return None
    alpha = match.values.get("alpha")
    is_scaled = alpha is not None and ("beta" in match.values or scalar(alpha) == 1)
    if not comes_from(match, "baddbmm", or_no_origin=is_scaled):
        return None
    operands = {name: match.values[name] for name in ("x0", "x1", "b")}
    return Group("matmul", "Baddbmm", operands, _settings(match, alpha="alpha", beta="beta"), match.nodes)


BADDBMM = Decomposition(("Add",), Op("Add", _PRODUCTS, _ADDEND), _baddbmm)
"""``beta * b + alpha * x0 @ x1``."""

_STACKED = Either((Op("Reshape", Op("Transpose", Named("whole", W))), W))
_FORMS = Op("Squeeze", Op("MatMul", Op("Reshape", Op("MatMul", X0, _STACKED)), Op("Unsqueeze", X1)))


def _bilinear(match: Match, _: Extension) -> Group | None:
    root, x0, x1 = match.nodes[0].call.layer.out, match.values["x0"].shape, match.values["x1"].shape
    if not comes_from(match, "bilinear", or_no_origin=False) or not x0 or not x1:
        return None
    shape, w = (root.shape[-1], x0[-1], x1[-1]), match.values["w"]
    if "whole" not in match.values and w.stored is None:
        return None
    if not is_shape(w.shape, shape if "whole" in match.values else (shape[1], shape[0] * shape[2])):
        return None
    w = w.viewed(shape)
    operands = {"x0": match.values["x0"], "x1": match.values["x1"], "w": w}
    if "b" in match.values:
        operands["b"] = match.values["b"]
    return Group("bilinear", "Bilinear", operands, {}, match.nodes)


BILINEAR = Decomposition(("Add", "Squeeze"), Either((Op("Add", _FORMS, B), _FORMS)), _bilinear)
"""``x0^T w x1 + b`` for each output feature."""
