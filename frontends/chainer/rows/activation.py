"""Rows of activation functions, and of softmax and its gradients."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.translate import Row

from .arguments import X0_X1, Y_DY, X, attribute, axis, constant, operands, row, rows_by_name

UNARY: Mapping[str, str] = {"ReLU": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh"}

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
)
