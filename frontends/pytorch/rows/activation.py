"""Rows of activation functions and softmax, and of their gradients."""

from __future__ import annotations

from costcore.translate import Arguments, Row, Source

from ..operators.saved_for_backward import any_is_differentiated
from ..tensors import dtype_name
from .arguments import X, axis, axis_or_last, first_argument, first_output, non_default, rows_by_name


def _hard_tanh_or_relu6(args: Arguments) -> str:
    return "relu6" if (args["min_val"], args["max_val"]) == (0, 6) else "hard_tanh"


def _elu_or_selu(args: Arguments) -> str:
    return "elu" if args["scale"] == 1 else "selu"


def _saved_slopes(args: Arguments) -> str | None:
    """Return the dtype of the random slopes, which the operator writes to ``noise`` for its backward pass."""
    return dtype_name(args["noise"].dtype) if args["training"] and any_is_differentiated(*args.values()) else None


ACTIVATIONS = (
    *rows_by_name(
        "relu relu6 sigmoid tanh silu mish selu log_sigmoid hardsigmoid=hard_sigmoid hardswish=hard_swish",
        X,
    ),
    Row("aten::log_sigmoid_forward", "log_sigmoid", X, outputs=first_output),
    Row("quantized::relu6", "relu6", X),
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
    Row("aten::rrelu_with_noise", "rrelu", X, {"saved": _saved_slopes}, outputs=first_output),
    Row("aten::rrelu", "rrelu", X, outputs=first_output),
)

SOFTMAX = (
    *rows_by_name("softmax _softmax _safe_softmax", X, {"axis": axis()}, op="softmax"),
    *rows_by_name("log_softmax _log_softmax", X, {"axis": axis()}, op="log_softmax"),
    Row(
        "aten::_masked_softmax",
        "masked_softmax",
        {"x": "self", "mask": "mask"},
        {"axis": axis_or_last},
    ),
)

PYTHON_FUNCTIONS = (
    Row("torch.nn.functional::softmin", "softmin", {"x": "input"}, {"axis": axis()}),
    Row("torch.nn.functional::softsign", "softsign", {"x": "input"}),
    Row("torch.nn.functional::tanhshrink", "tanh_shrink", {"x": "input"}),
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

_DX: dict[str, Source] = {"dy": first_argument, "x": "self"}

ACTIVATION_GRADIENTS = (
    *rows_by_name(
        "threshold_backward hardshrink_backward=hard_shrink_backward softshrink_backward=soft_shrink_backward "
        "hardsigmoid_backward=hard_sigmoid_backward hardswish_backward=hard_swish_backward leaky_relu_backward "
        "silu_backward mish_backward log_sigmoid_backward glu_backward",
        _DX,
    ),
    *rows_by_name("sigmoid_backward tanh_backward", {"dy": first_argument, "y": "output"}),
    Row("aten::gelu_backward", "gelu_backward", _DX, {"approximate": "approximate"}),
    Row("aten::softplus_backward", "softplus_backward", _DX, {"beta": non_default("beta", 1)}),
    Row("aten::hardtanh_backward", "hard_tanh_backward", _DX, {"lower": "min_val", "upper": "max_val"}),
    Row(
        "aten::elu_backward",
        lambda args: "elu_backward" if args["scale"] == 1 else "selu_backward",
        {"dy": first_argument, "x": "self_or_result"},
        ops=("elu_backward", "selu_backward"),
    ),
    Row(
        "aten::rrelu_with_noise_backward",
        "rrelu_backward",
        {**_DX, "slope": lambda args: args["noise"] if args["training"] else None},
    ),
    Row("aten::_prelu_kernel_backward", "prelu_backward", {**_DX, "w": "weight"}),
)

ROWS = (*ACTIVATIONS, *SOFTMAX, *PYTHON_FUNCTIONS, *SOFTMAX_GRADIENTS, *ACTIVATION_GRADIENTS)
