"""Rows of elementwise gradients, which are those of activation functions."""

from __future__ import annotations

from costcore.translate import Row, Source

from ..arguments import first_argument, non_default, rows_by_name

_DX: dict[str, Source] = {"dy": first_argument, "x": "self"}


ROWS = (
    *rows_by_name(
        "threshold_backward hardshrink_backward=hard_shrink_backward softshrink_backward=soft_shrink_backward "
        "hardsigmoid_backward=hard_sigmoid_backward hardswish_backward=hard_swish_backward leaky_relu_backward "
        "silu_backward mish_backward log_sigmoid_backward logit_backward glu_backward",
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
