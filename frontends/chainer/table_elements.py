"""Rows of functions of single elements: arithmetic, mathematical functions, activations, noise."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.translate import Row

from .rows.arguments import ALL, X0_X1, X, array, at, axis, constant, named, row, same_rows, setting

UNARY: Mapping[str, str] = {
    "Absolute": "abs",
    "Arccos": "acos",
    "Arcsin": "asin",
    "Arctan": "atan",
    "Arctanh": "atanh",
    "Cos": "cos",
    "Cosh": "cosh",
    "DiGamma": "digamma",
    "Erf": "erf",
    "ErfInv": "erfinv",
    "Erfc": "erfc",
    "ErfcInv": "erfcinv",
    "Erfcx": "erfcx",
    "Exp": "exp",
    "Expm1": "expm1",
    "LGamma": "lgamma",
    "Log": "log",
    "Log10": "log10",
    "Log1p": "log1p",
    "Log2": "log2",
    "LogNdtr": "log_ndtr",
    "Ndtr": "ndtr",
    "Ndtri": "ndtri",
    "Neg": "neg",
    "ReLU": "relu",
    "RsqrtGPU": "rsqrt",
    "Sigmoid": "sigmoid",
    "Sin": "sin",
    "Sinh": "sinh",
    "Sqrt": "sqrt",
    "Square": "square",
    "Tan": "tan",
    "Tanh": "tanh",
}

BINARY: Mapping[str, str] = {
    "Add": "add",
    "Arctan2": "atan2",
    "Div": "div",
    "Fmod": "fmod",
    "Maximum": "maximum",
    "Minimum": "minimum",
    "Mul": "mul",
    "PolyGamma": "polygamma",
    "PowVarVar": "pow",
    "Sub": "sub",
}

WITH_CONSTANT: Mapping[str, str] = {"AddConstant": "add", "MulConstant": "mul"}
FROM_CONSTANT: Mapping[str, str] = {"DivFromConstant": "div", "PowConstVar": "pow", "SubFromConstant": "sub"}

VALUE = setting("value")

ROWS: tuple[Row, ...] = (
    *same_rows(UNARY, X),
    *same_rows(BINARY, X0_X1),
    *same_rows(WITH_CONSTANT, {"x0": at(0), "x1": VALUE}),
    *same_rows(FROM_CONSTANT, {"x0": VALUE, "x1": at(0)}),
    row("PowVarConst", "pow", {"x0": at(0), "x1": VALUE}, exponent=VALUE),
    row("MultiAdd", "add", ALL),
    row("LinearInterpolate", "lerp", {"x0": at(2), "x1": at(1), "x2": at(0)}),  # p x + (1 - p) y = y + p (x - y)
    row("Zeta", "zeta", {"x0": array("_x"), "x1": at(0)}),
    row("Where", "where", {"condition": array("condition"), "x0": at(0), "x1": at(1)}),
    row("Clip", "clip", X, lower=setting("x_min"), upper=setting("x_max")),
    row("Identity", "identity", X),
    # activations
    Row("chainer::ClippedReLU", "relu6", X, when=lambda args: args["function"].cap == 6),
    row("ClippedReLU", "clip", X, lower=constant(0), upper=setting("cap")),
    row("CReLU", "crelu", X, axis=setting("axis")),
    row("ELU", "elu", X, alpha=setting("alpha")),
    row("HardSigmoid", "hard_sigmoid", X, slope=constant(0.2), shift=constant(0.5)),
    row("LeakyReLU", "leaky_relu", X, slope=setting("slope")),
    row("LogSoftmax", "log_softmax", X, axis=axis),
    row("PReLUFunction", "prelu", named("x", "w")),
    row("RReLU", "rrelu", X, lower=setting("lower"), upper=setting("upper")),
    row("Softmax", "softmax", X, axis=axis),
    row("Softplus", "softplus", X, beta=setting("beta")),
    row("Swish", "swish", named("x", "beta")),
    # noise; these functions run in training only
    Row(
        "chainer::Dropout",
        "dropout",
        X,
        {"rate": setting("dropout_ratio"), "training": constant(True)},
        outputs=lambda args, outputs: (*outputs, args["function"].mask),
    ),
    row("Gaussian", "gaussian", X0_X1),
    row("Zoneout", "zoneout", X0_X1, rate=setting("zoneout_ratio"), training=constant(True)),
)
