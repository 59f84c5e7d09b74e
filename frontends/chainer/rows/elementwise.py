"""Rows of element-by-element functions and their gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from costcore.translate import Arguments, Row, Source

from .arguments import (
    ALL_INPUTS,
    X0_X1,
    X_DY,
    Y_DY,
    X,
    array_attribute,
    attribute,
    constant,
    input_at,
    operands,
    row,
    rows_by_name,
    with_saved_array,
)

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
    "LaplaceCDF": "laplace_cdf",
    "LaplaceICDF": "laplace_icdf",
    "Log": "log",
    "Log10": "log10",
    "Log1p": "log1p",
    "Log2": "log2",
    "LogNdtr": "log_ndtr",
    "Ndtr": "ndtr",
    "Ndtri": "ndtri",
    "Neg": "neg",
    "RsqrtGPU": "rsqrt",
    "Sin": "sin",
    "Sinh": "sinh",
    "Sqrt": "sqrt",
    "Square": "square",
    "Tan": "tan",
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

GRADIENTS_OF_INPUT: Mapping[str, str] = {
    "ArccosGrad": "acos_backward",
    "ArcsinGrad": "asin_backward",
    "ArctanGrad": "atan_backward",
    "CosGrad": "cos_backward",
    "SinGrad": "sin_backward",
}
"""Gradients that are computed from the input and the gradient of the output."""

GRADIENTS_OF_TWO_INPUTS: Mapping[str, str] = {"Arctan2Grad": "atan2_backward", "DivGrad": "div_backward"}

VALUE = attribute("value")


def clip_bound(name: str) -> Source:
    """Read a bound from the clip function itself: its gradient function does not store the bounds."""
    return lambda args: getattr(args["origin"], name, None)


def is_checked(args: Arguments) -> bool:
    """Return True if the logarithm of a probability tests whether the outcomes are possible."""
    return bool(args["function"].binary_check)


def with_saved_masks(args: Arguments, outputs: Sequence[Any]) -> Sequence[Any]:
    """Return the outputs, and the masks of infinite logits and impossible outcomes if a backward pass can follow."""
    return with_saved_array("invalid")(args, with_saved_array("logit_ispinf")(args, outputs))


ROWS: tuple[Row, ...] = (
    *rows_by_name(UNARY, X),
    *rows_by_name(BINARY, X0_X1),
    *rows_by_name(WITH_CONSTANT, {"x0": input_at(0), "x1": VALUE}),
    *rows_by_name(FROM_CONSTANT, {"x0": VALUE, "x1": input_at(0)}),
    row("PowVarConst", "pow", {"x0": input_at(0), "x1": VALUE}, exponent=VALUE),
    row("MultiAdd", "add", ALL_INPUTS),
    # p x + (1 - p) y = y + p (x - y)
    row("LinearInterpolate", "lerp", {"x0": input_at(2), "x1": input_at(1), "x2": input_at(0)}),
    row("Zeta", "zeta", {"x0": array_attribute("_x"), "x1": input_at(0)}),
    row("Where", "where", {"condition": array_attribute("condition"), "x0": input_at(0), "x1": input_at(1)}),
    row("Clip", "clip", X, lower=attribute("x_min"), upper=attribute("x_max")),
    row("ClippedReLU", "clip", X, lower=constant(0), upper=attribute("cap")),
    row("Gaussian", "gaussian", X0_X1),
    Row("chainer::BernoulliLogProb", "checked_bernoulli_log_prob", X0_X1, when=is_checked, outputs=with_saved_masks),
    Row("chainer::BernoulliLogProb", "bernoulli_log_prob", X0_X1, outputs=with_saved_array("logit_ispinf")),
    Row(
        "chainer::ModifiedXLogX",
        "xlogx",
        {"x0": input_at(0), "x1": lambda args: args["function"]._logx},
        outputs=with_saved_array("x_zero"),
    ),
    row("_MulInvStd", "mul", {"x0": input_at(1), "x1": array_attribute("inv_std")}),
    # gradients
    Row("chainermn::AllGatherBackward", "add", {"x*": "gradients"}),
    Row("chainermn::BcastBackward", "add", {"x*": lambda args: args["gradients"] * args["function"].comm.size}),
    *rows_by_name(GRADIENTS_OF_INPUT, X_DY),
    row("AbsoluteGrad", "abs_backward", {"dy": input_at(0), "x": array_attribute("x")}),
    *rows_by_name(GRADIENTS_OF_TWO_INPUTS, operands("x0", "x1", "dy")),
    *(
        row(
            name,
            "clip_backward",
            {"dy": input_at(0), "x": array_attribute("x")},
            lower=constant(0),
            upper=attribute("cap"),
        )
        for name in ("ClippedReLUGrad2", "ClippedReLUGrad3")
    ),
    row(
        "ClipGrad",
        "clip_backward",
        {"dy": input_at(0), "x": array_attribute("cond")},
        lower=clip_bound("x_min"),
        upper=clip_bound("x_max"),
    ),
    row("DivFromConstantGrad", "constant_div_backward", X_DY, value=VALUE),
    row("PowConstVarGrad", "constant_pow_backward", Y_DY, value=VALUE),
    row("LinearInterpolateGrad", "lerp_backward", operands("x2", "x1", "x0", "dy")),
    row("MaximumGrad", "maximum_backward", {"dy": input_at(0), "condition": array_attribute("cond")}),
    row(
        "MinimumGrad",
        "minimum_backward",
        {"dy": input_at(0), "x0": array_attribute("x1"), "x1": array_attribute("x2")},
    ),
    row("PowVarConstGrad", "pow_backward", operands("x0", "dy"), exponent=VALUE),
    row("PowVarVarGrad", "pow_backward", {**operands("x0", "x1", "dy"), "y": array_attribute("y")}),
)
