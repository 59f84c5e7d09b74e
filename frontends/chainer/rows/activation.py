"""Rows of activation functions and softmax, and of their gradients."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.translate import Row

from .arguments import (
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
)

UNARY: Mapping[str, str] = {"ReLU": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh"}

GRADIENTS_OF_OUTPUT: Mapping[str, str] = {"SigmoidGrad": "sigmoid_backward", "TanhGrad": "tanh_backward"}
"""Gradients that are computed from the output and its gradient."""

GRADIENTS_OF_SAVED_ARRAY: Mapping[str, tuple[str, str, str]] = {
    "HardSigmoidGrad": ("hard_sigmoid_backward", "x", "x"),
    "ReLUGrad2": ("relu_backward", "y", "b"),
    "ReLUGradCudnn": ("relu_backward", "y", "y"),
    "_LeakyReLUGrad": ("leaky_relu_backward", "x", "cond"),
    "_RReLUGrad": ("rrelu_backward", "x", "y"),
}
"""Gradients that are computed from an array saved on the function: operator, operand, name of the attribute."""

ROWS: tuple[Row, ...] = (
    *rows_by_name(UNARY, X),
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
