"""Rows of gradients that work on each element by itself: those of activation functions."""

from __future__ import annotations

from costcore.translate import Row, Source

from ..arguments import first, given

_DX: dict[str, Source] = {"dy": first, "x": "self"}


def _pointwise(words: str, inputs: dict[str, Source]) -> tuple[Row, ...]:
    pairs = (word.partition("=") for word in words.split())
    return tuple(Row(f"aten::{native}_backward", f"{op or native}_backward", inputs) for native, _, op in pairs)


ROWS = (
    *_pointwise("threshold hardshrink=hard_shrink softshrink=soft_shrink hardsigmoid=hard_sigmoid", _DX),
    *_pointwise("hardswish=hard_swish leaky_relu silu mish log_sigmoid logit glu", _DX),
    *_pointwise("sigmoid tanh", {"dy": first, "y": "output"}),
    Row("aten::gelu_backward", "gelu_backward", _DX, {"approximate": "approximate"}),
    Row("aten::softplus_backward", "softplus_backward", _DX, {"beta": given("beta", 1)}),
    Row("aten::hardtanh_backward", "hard_tanh_backward", _DX, {"lower": "min_val", "upper": "max_val"}),
    Row(
        "aten::elu_backward",
        lambda args: "elu_backward" if args["scale"] == 1 else "selu_backward",
        {"dy": first, "x": "self_or_result"},
        ops=("elu_backward", "selu_backward"),
    ),
    Row(
        "aten::rrelu_with_noise_backward",
        "rrelu_backward",
        {**_DX, "slope": lambda args: args["noise"] if args["training"] else None},
    ),
    Row("aten::_prelu_kernel_backward", "prelu_backward", {**_DX, "w": "weight"}),
)
