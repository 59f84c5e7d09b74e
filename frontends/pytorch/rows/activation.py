"""Rows of activation functions and softmax, and of the gradients of softmax."""

from __future__ import annotations

from costcore.translate import Arguments, Row, Source

from .arguments import X, axis, axis_or_last, first_output, rows_by_name


def _hard_tanh_or_relu6(args: Arguments) -> str:
    return "relu6" if (args["min_val"], args["max_val"]) == (0, 6) else "hard_tanh"


def _elu_or_selu(args: Arguments) -> str:
    return "elu" if args["scale"] == 1 else "selu"


ACTIVATIONS = (
    *rows_by_name(
        "relu relu6 sigmoid tanh silu mish selu log_sigmoid hardsigmoid=hard_sigmoid hardswish=hard_swish",
        X,
    ),
    Row("aten::log_sigmoid_forward", "log_sigmoid", X, outputs=first_output),
    Row("aten::hardtanh", _hard_tanh_or_relu6, X, {"lower": "min_val", "upper": "max_val"}, ops=("relu6", "hard_tanh")),
    Row("aten::elu", _elu_or_selu, X, {"alpha": "alpha"}, ops=("elu", "selu")),
    Row("aten::celu", "celu", X, {"alpha": "alpha"}),
    Row("aten::leaky_relu", "leaky_relu", X, {"slope": "negative_slope"}),
    Row("aten::gelu", "gelu", X, {"approximate": "approximate"}),
    Row("aten::softplus", "softplus", X, {"beta": "beta", "threshold": "threshold"}),
    Row("aten::threshold", "threshold", X, {"threshold": "threshold", "value": "value"}),
    Row("aten::glu", "glu", X, {"axis": axis()}),
    Row("aten::hardshrink", "hard_shrink", X, {"lambd": "lambd"}),
    Row("aten::softshrink", "soft_shrink", X, {"lambd": "lambd"}),
    *rows_by_name("prelu _prelu_kernel", {"x": "self", "w": "weight"}, op="prelu"),
    *(Row(f"aten::{name}", "rrelu", X, outputs=first_output) for name in ("rrelu_with_noise", "rrelu")),
)

SOFTMAX = (
    *rows_by_name("softmax _softmax _safe_softmax", X, {"axis": axis()}, op="softmax"),
    *rows_by_name("log_softmax _log_softmax", X, {"axis": axis()}, op="log_softmax"),
)

_GRADIENT: dict[str, Source] = {"dy": "grad_output", "y": "output"}

SOFTMAX_GRADIENTS = (
    Row("aten::_softmax_backward_data", "softmax_backward", _GRADIENT, {"axis": axis()}),
    Row("aten::_log_softmax_backward_data", "log_softmax_backward", _GRADIENT, {"axis": axis()}),
    Row(
        "aten::_masked_softmax_backward",
        "softmax_backward",
        {**_GRADIENT, "mask": "mask"},
        {"axis": axis_or_last},
    ),
)

ROWS = (*ACTIVATIONS, *SOFTMAX, *SOFTMAX_GRADIENTS)
