"""Rows of gradients of layers: products, normalisations, attention, recurrent layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from costcore.translate import Arguments, Row, Source

from .rules import axis, constant, given, named, needs, normalized_axes, spread_out


def _spatial(name: str) -> Callable[[Arguments], Any]:
    return lambda args: spread_out(args[name], args["weight"].dim() - 2)


_CONV: dict[str, Source] = {
    "kernel": lambda args: tuple(args["weight"].shape[2:]),
    "stride": _spatial("stride"),
    "padding": _spatial("padding"),
    "dilation": _spatial("dilation"),
    "groups": "groups",
    "needs": needs("x", "w", "b"),
}

_LINEAR: dict[str, Source] = {"dy": "grad_output", "x": "self", "w": "weight"}

PRODUCTS = (
    *(
        Row(
            f"aten::{name}",
            lambda args: "conv_transpose_backward" if args["transposed"] else "conv_backward",
            {"dy": "grad_output", "x": "input", "w": "weight"},
            _CONV,
            ops=("conv_backward", "conv_transpose_backward"),
        )
        for name in ("convolution_backward", "convolution_backward_overrideable")
    ),
    *(
        Row(f"aten::{name}", "linear_backward", _LINEAR, {"needs": needs("x", "w", "b")})
        for name in ("linear_backward", "mkldnn_linear_backward")
    ),
    Row(
        "aten::mkldnn_linear_backward_input",
        "linear_backward",
        {"dy": "grad_output", "w": "weight"},
        {"needs": constant(("x",))},
    ),
    Row(
        "aten::mkldnn_linear_backward_weights",
        "linear_backward",
        {"dy": "grad_output", "x": "input"},
        {"needs": lambda args: ("w", "b") if args["bias_defined"] else ("w",)},
    ),
    Row(
        "aten::matmul_backward",
        "matmul_backward",
        {"dy": "grad", "x0": "self", "x1": "other"},
        {"needs": needs("x0", "x1", mask="mask")},
    ),
)

_NORM: dict[str, Source] = {"dy": "grad_out", "x": "input", "w": "weight"}
_NEEDS: dict[str, Source] = {"needs": needs("x", "w", "b")}
_SAVED: dict[str, Source] = {"mean": "save_mean", "var": "save_var"}
_RUNNING: dict[str, Source] = {"mean": "running_mean", "var": "running_var"}


def _in_training(args: Arguments) -> bool:
    return bool(args["train"])


def _is_updated(args: Arguments) -> bool:
    return bool(args["update"])


def _batch_norm(native: str, inputs: dict[str, Source], training: bool, **settings: Any) -> Row:
    return Row(f"aten::{native}", "batch_norm_backward", inputs, {"training": constant(training), **_NEEDS}, **settings)


NORMS = (
    Row(
        "aten::native_layer_norm_backward",
        "layer_norm_backward",
        {**_NORM, "b": "bias", "mean": "mean", "var": "rstd"},
        {"axis": normalized_axes, **_NEEDS},
    ),
    Row(
        "aten::native_group_norm_backward",
        "group_norm_backward",
        {**_NORM, "mean": "mean", "var": "rstd"},
        {"groups": "group", **_NEEDS},
    ),
    Row(
        "aten::_fused_rms_norm_backward",
        "rms_norm_backward",
        {**_NORM, "var": "rstd"},
        {"axis": normalized_axes, "needs": needs("x", "w")},
    ),
    _batch_norm(
        "native_batch_norm_backward", {**_NORM, "mean": "save_mean", "var": "save_invstd"}, True, when=_in_training
    ),
    _batch_norm("native_batch_norm_backward", {**_NORM, **_RUNNING}, False),
    _batch_norm("batch_norm_backward", {**_NORM, **_SAVED}, True, when=_is_updated),
    _batch_norm("batch_norm_backward", {**_NORM, **_RUNNING}, False),
    *(
        _batch_norm(name, {**_NORM, "dy": "grad_output", **_SAVED}, True)
        for name in ("cudnn_batch_norm_backward", "miopen_batch_norm_backward")
    ),
)


def _causal(args: Arguments) -> bool:
    return bool(args["is_causal"])


_QKV: dict[str, Source] = {"q": "query", "k": "key", "v": "value"}
_KEPT: dict[str, Source] = {"y": "out", "log_sum": "logsumexp"}
_ATTENTION: dict[str, Source] = {"causal": _causal, "dropout": lambda args: args["dropout_p"] or None}

ATTENTION = (
    Row(
        "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
        "attention_backward",
        {"dy": "grad_out", **_QKV, "mask": "attn_mask", **_KEPT},
        _ATTENTION,
    ),
    *(
        Row(f"aten::{name}", "attention_backward", {"dy": "grad_out", **_QKV, **_KEPT}, _ATTENTION)
        for name in ("_scaled_dot_product_flash_attention_backward",)
    ),
    *(
        Row(
            f"aten::{name}",
            "attention_backward",
            {"dy": dy, **_QKV, "mask": "attn_bias", **_KEPT},
            _ATTENTION,
        )
        for name, dy in (
            ("_scaled_dot_product_efficient_attention_backward", "grad_out_"),
            ("_scaled_dot_product_cudnn_attention_backward", "grad_out"),
            ("_scaled_dot_product_fused_attention_overrideable_backward", "grad_out"),
        )
    ),
)

_MODES = ("rnn", "rnn", "lstm", "gru")


def mode_of(suffix: str = "") -> Callable[[Arguments], str]:
    """The recurrent layer that PyTorch's number of its mode means."""
    return lambda args: _MODES[args["mode"]] + suffix


def activation(args: Arguments) -> str | None:
    """The activation of an Elman layer, by the same number."""
    return ("relu", "tanh", None, None)[args["mode"]]


def reset(args: Arguments) -> bool | None:
    """Whether a GRU resets the state after its product, as PyTorch does."""
    return True if args["mode"] == 3 else None


BACK = ("rnn_backward", "lstm_backward", "gru_backward")
LAYER: dict[str, Source] = {
    "hidden": "hidden_size",
    "layers": "num_layers",
    "bidirectional": "bidirectional",
    "activation": activation,
    "reset_after": reset,
}


def matrices(args: Arguments) -> list[Any]:
    """The matrices among the parameters of a recurrent layer."""
    return [value for value in args["weight"] if value.dim() == 2]


def vectors(args: Arguments) -> list[Any]:
    """The biases among the parameters of a recurrent layer."""
    return [value for value in args["weight"] if value.dim() == 1]


_STEPS: dict[str, Source] = named("dy=grad_output dh=grad_hy dc=grad_cy x=input y=output")

RECURRENT = (
    Row(
        "aten::mkldnn_rnn_layer_backward",
        mode_of("_backward"),
        {
            **_STEPS,
            **named("h0=hx_ c0=cx_tmp w0=weight1 w1=weight2 b0=weight3 b1=weight4 workspace=workspace"),
        },
        {**LAYER, "layers": constant(1), "bidirectional": constant(False)},
        ops=BACK,
    ),
    *(
        Row(
            f"aten::{name}",
            mode_of("_backward"),
            {
                **_STEPS,
                **named("h0=hx c0=cx reserve=reserve"),
                "w*": matrices,
                "b*": vectors,
            },
            {**LAYER, "projection": given("proj_size", 0), "needs": needs("x", "h0", "c0", "w")},
            ops=BACK,
        )
        for name in ("_cudnn_rnn_backward", "miopen_rnn_backward")
    ),
    Row(
        "aten::_thnn_fused_lstm_cell_backward_impl",
        "summed_lstm_gates_backward",
        {"dy": "grad_hy", "dc": "grad_cy", "c0": "cx", "c": "cy", "gates": "workspace"},
        {"biased": "has_bias"},
    ),
    Row(
        "aten::_thnn_fused_gru_cell_backward",
        "summed_gru_gates_backward",
        {"dy": "grad_hy", "gates": "workspace"},
        {"biased": "has_bias", "kept": constant(5)},
    ),
)

_ROW: dict[str, Source] = {"dy": "grad_output", "y": "output"}

SOFTMAX = (
    Row("aten::_softmax_backward_data", "softmax_backward", _ROW, {"axis": axis()}),
    Row("aten::_log_softmax_backward_data", "log_softmax_backward", _ROW, {"axis": axis()}),
    Row(
        "aten::_masked_softmax_backward",
        "softmax_backward",
        {**_ROW, "mask": "mask"},
        {"axis": lambda args: args["output"].dim() - 1 if args["dim"] is None else axis()(args)},
    ),
    Row(
        "aten::_weight_norm_interface_backward",
        "weight_norm_backward",
        {"dy": "grad_w", "w0": "saved_v", "w1": "saved_g", "norms": "saved_norms"},
        {"axis": "dim"},
    ),
)

ROWS = (*PRODUCTS, *NORMS, *ATTENTION, *RECURRENT, *SOFTMAX)
