"""Rows of element-wise functions, activation functions, softmax, dropout, and their gradients."""

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
    axis,
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
"""Gradients computed from the input and the gradient of the output."""

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


ELEMENTWISE_ROWS: tuple[Row, ...] = (
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


# Activation functions and softmax.


ACTIVATIONS: Mapping[str, str] = {"ReLU": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh"}

GRADIENTS_OF_OUTPUT: Mapping[str, str] = {"SigmoidGrad": "sigmoid_backward", "TanhGrad": "tanh_backward"}
"""Gradients computed from the output and its gradient."""

GRADIENTS_OF_SAVED_ARRAY: Mapping[str, tuple[str, str, str]] = {
    "HardSigmoidGrad": ("hard_sigmoid_backward", "x", "x"),
    "ReLUGrad2": ("relu_backward", "y", "b"),
    "ReLUGradCudnn": ("relu_backward", "y", "y"),
    "_LeakyReLUGrad": ("leaky_relu_backward", "x", "cond"),
    "_RReLUGrad": ("rrelu_backward", "x", "y"),
}
"""Gradients computed from an array saved on the function: operator, operand, name of the attribute."""

ACTIVATION_ROWS: tuple[Row, ...] = (
    *rows_by_name(ACTIVATIONS, X),
    Row("chainer::ClippedReLU", "relu6", X, when=lambda args: args["function"].cap == 6),
    row("CReLU", "crelu", X, axis=attribute("axis")),
    row("ELU", "elu", X, alpha=attribute("alpha")),
    row("HardSigmoid", "hard_sigmoid", X, slope=constant(0.2), shift=constant(0.5)),
    row("LeakyReLU", "leaky_relu", X, slope=attribute("slope")),
    row("LogSoftmax", "log_softmax", X, axis=axis),
    row("PReLUFunction", "prelu", operands("x", "w")),
    row("RReLU", "rrelu", X, lower=attribute("lower"), upper=attribute("upper")),
    row("Softmax", "softmax", X, axis=axis),
    row("Softplus", "softplus", X, beta=attribute("beta")),
    row("Swish", "swish", operands("x", "beta")),
    row("Zoneout", "zoneout", X0_X1, rate=attribute("zoneout_ratio"), training=constant(True)),  # in training only
    # gradients
    row("LogSoftmaxGrad", "log_softmax_backward", Y_DY, axis=axis),
    row("_SoftmaxGrad", "softmax_backward", Y_DY, axis=axis),
    row("SoftplusGrad", "softplus_backward", X_DY),
    *rows_by_name(GRADIENTS_OF_OUTPUT, Y_DY),
    *(
        row(name, op, {"dy": input_at(0), operand: array_attribute(saved)})
        for name, (op, operand, saved) in GRADIENTS_OF_SAVED_ARRAY.items()
    ),
    row("ELUGrad", "elu_derivative", {"y": input_at(0), "x": array_attribute("cond")}, alpha=attribute("alpha")),
    row("SwishGrad", "swish_backward", operands("x", "beta", "dy")),
    row("PReLUFunctionGrad", "prelu_backward", operands("x", "w", "dy")),
)


# Dropout.


RANDOM_ROWS: tuple[Row, ...] = (
    Row(  # runs in training only
        "chainer::Dropout",
        "dropout",
        X,
        {"rate": attribute("dropout_ratio"), "training": constant(True)},
        outputs=lambda args, outputs: (*outputs, args["function"].mask),
    ),
    row("DropoutGrad", "dropout_backward", {"dy": input_at(0), "mask": array_attribute("mask")}),
    row("DropoutGradCuDNN", "dropout_backward", {"dy": input_at(0), "mask": array_attribute("states")}),
)


ROWS: tuple[Row, ...] = (*ACTIVATION_ROWS, *ELEMENTWISE_ROWS, *RANDOM_ROWS)
"""A clipped ReLU is ReLU6 (activation), or else a clip (elementwise): the first row that fits is used."""
