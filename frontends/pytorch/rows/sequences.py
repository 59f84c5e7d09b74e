"""Rows of recurrent layers and cells, of attention, and of fused operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from costcore.translate import Arguments, Row, Source

from ..meta.replacements import is_fused
from ..operators.plan import any_is_differentiated
from ..tensors import dtype_name, sample_lengths
from .arguments import (
    PACKED,
    Reader,
    as_data,
    constant,
    differentiated,
    first_argument,
    first_output,
    is_unpacked,
    needed_gradients,
    non_default,
    non_empty_outputs,
    operands,
)


def _weights(name: str) -> Reader:
    return lambda args: [value for value in args[name] if value.dim() == 2]


def _biases(name: str) -> Reader:
    return lambda args: [value for value in args[name] if value.dim() == 1]


def _hidden_size(gates: int) -> Callable[[Arguments], int]:
    return lambda args: int(args["params"][0].shape[0]) // gates


def _projection_size(args: Arguments) -> int | None:
    size = int(args["hx"][0].shape[-1])
    return size if size != _hidden_size(4)(args) else None


def _layer_and_cell(
    native: str,
    op: str,
    gates: int,
    states: dict[str, Source],
    attrs: dict[str, Source],
    projection: dict[str, Source] | None = None,
) -> tuple[Row, ...]:
    layer_attrs: dict[str, Source] = {
        "hidden": _hidden_size(gates),
        "layers": "num_layers",
        "bidirectional": "bidirectional",
        **(projection or {}),
        **attrs,
    }
    weights: dict[str, Source] = {"w*": _weights("params"), "b*": _biases("params")}
    return (
        Row(f"aten::{native}.input", op, {"x": "input", **states, **weights}, layer_attrs),
        Row(f"aten::{native}.data", op, {"x": "data", **states, **weights}, layer_attrs),
        Row(
            f"aten::{native}_cell",
            op,
            {"x": "input", **states, "w0": "w_ih", "w1": "w_hh", "b0": "b_ih", "b1": "b_hh"},
            {"hidden": lambda args: int(args["w_ih"].shape[0]) // gates, **attrs},
        ),
    )


_LSTM_STATES: dict[str, Source] = {"h0": lambda args: args["hx"][0], "c0": lambda args: args["hx"][1]}

_STATE: dict[str, Source] = {"h0": "hx"}

LAYERS_AND_CELLS = (
    *_layer_and_cell("lstm", "lstm", 4, _LSTM_STATES, {}, {"projection": _projection_size}),
    *_layer_and_cell("gru", "gru", 3, _STATE, {"reset_after": constant(True)}),
    *_layer_and_cell("rnn_tanh", "rnn", 1, _STATE, {"activation": constant("tanh")}),
    *_layer_and_cell("rnn_relu", "rnn", 1, _STATE, {"activation": constant("relu")}),
)

_LAYER_BY_MODE = ("rnn", "rnn", "lstm", "gru")


def _layer_by_mode(suffix: str = "") -> Callable[[Arguments], str]:
    # cuDNN and oneDNN number their modes alike.
    return lambda args: _LAYER_BY_MODE[args["mode"]] + suffix


def _activation(args: Arguments) -> str | None:
    return ("relu", "tanh", None, None)[args["mode"]]


def _reset_after(args: Arguments) -> bool | None:
    # PyTorch applies the reset gate of a GRU after the matrix product.
    return True if args["mode"] == 3 else None


_LAYER_ATTRIBUTES: dict[str, Source] = {
    "hidden": "hidden_size",
    "layers": "num_layers",
    "bidirectional": "bidirectional",
    "activation": _activation,
    "reset_after": _reset_after,
}

BACKEND_SPECIFIC = (
    Row(
        "aten::mkldnn_rnn_layer",
        _layer_by_mode(),
        {"x": "input", "h0": "hx_", "c0": "cx_", "w0": "weight0", "w1": "weight1", "b0": "weight2", "b1": "weight3"},
        {"hidden": "hidden_size", "layers": constant(1)},
        outputs=lambda args, outputs: outputs[:3],
        ops=("rnn", "lstm", "gru"),
    ),
    *(
        Row(
            f"aten::{name}",
            _layer_by_mode(),
            {
                "x": "input",
                "h0": "hx",
                "c0": "cx",
                "w*": _weights("weight"),
                "b*": _biases("weight"),
            },
            {**_LAYER_ATTRIBUTES, "projection": non_default("proj_size", 0)},
            outputs=lambda args, outputs: outputs[:4],
            ops=("rnn", "lstm", "gru"),
        )
        for name in ("_cudnn_rnn", "miopen_rnn")
    ),
    Row(
        "aten::_thnn_fused_lstm_cell",
        "summed_lstm_gates",
        {"x0": "input_gates", "x1": "hidden_gates", "c0": "cx", "b0": "input_bias", "b1": "hidden_bias"},
    ),
    Row(
        "aten::_thnn_fused_gru_cell",
        "summed_gru_gates",
        {"x0": "input_gates", "x1": "hidden_gates", "h0": "hx", "b0": "input_bias", "b1": "hidden_bias"},
    ),
)

_GRADIENT_OPS = ("rnn_backward", "lstm_backward", "gru_backward")

_GRADIENT: dict[str, Source] = operands("dy=grad_output dh=grad_hy dc=grad_cy x=input y=output")

RECURRENT_GRADIENTS = (
    Row(
        "aten::mkldnn_rnn_layer_backward",
        _layer_by_mode("_backward"),
        {
            **_GRADIENT,
            **operands("h0=hx_ c0=cx_tmp w0=weight1 w1=weight2 b0=weight3 b1=weight4"),
        },
        {
            **_LAYER_ATTRIBUTES,
            "layers": constant(1),
            "bidirectional": constant(False),
            "needs": differentiated(x="input", h0="hx_", c0="cx_tmp", w0="weight1", w1="weight2"),
        },
        ops=_GRADIENT_OPS,
    ),
    *(
        Row(
            f"aten::{name}",
            _layer_by_mode("_backward"),
            {
                **_GRADIENT,
                **operands("h0=hx c0=cx"),
                "w*": _weights("weight"),
                "b*": _biases("weight"),
            },
            {
                **_LAYER_ATTRIBUTES,
                "projection": non_default("proj_size", 0),
                "needs": needed_gradients("x", "h0", "c0", "w"),
            },
            ops=_GRADIENT_OPS,
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

RECURRENT_ROWS = (*LAYERS_AND_CELLS, *BACKEND_SPECIFIC, *RECURRENT_GRADIENTS)


# Attention and its gradients


_QKV: dict[str, Source] = {"q": "query", "k": "key", "v": "value"}

_ATTRIBUTES: dict[str, Source] = {"causal": "is_causal", "dropout": non_default("dropout_p", 0)}


def _saved(args: Arguments) -> str | None:
    # A fused kernel keeps the log-sum-exp of every query for its backward pass.
    operands = args["query"], args["key"], args["value"]
    fits_kernel = all(x.dim() == 4 for x in operands) and not args.get("dropout_p")
    if not (fits_kernel and any_is_differentiated(*operands)):
        return None
    return "float32" if args["query"].dtype.itemsize < 4 else dtype_name(args["query"].dtype)


_IS_FUSED_ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "enable_gqa")


def _backend(args: Arguments) -> str | None:
    # A CPU runs several operators where its fused kernel does not fit.
    return None if is_fused(**{name: args[name] for name in _IS_FUSED_ARGUMENTS if name in args}) else "math"


RAGGED = (
    Row(
        "aten::scaled_dot_product_attention",
        "ragged_attention",
        {**_QKV, "mask": "attn_mask"},
        {
            **_ATTRIBUTES,
            "lengths": lambda args: sample_lengths(args["query"]),
            "key_lengths": lambda args: sample_lengths(args["key"]),
        },
        when=lambda args: args["query"].is_nested and args["key"].is_nested,
    ),
)

SCALED_DOT_PRODUCT = tuple(
    Row(
        f"aten::{name}",
        "attention",
        {**_QKV, "mask": lambda args: args.get("attn_mask", args.get("attn_bias"))},
        {**_ATTRIBUTES, "saved": _saved, **more},
        outputs=first_output,
    )
    for name, more in (
        ("scaled_dot_product_attention", {"backend": _backend}),
        ("_scaled_dot_product_attention_math", {"backend": constant("math")}),
        ("_scaled_dot_product_flash_attention", {}),
        ("_scaled_dot_product_flash_attention_for_cpu", {}),
        ("_scaled_dot_product_efficient_attention", {}),
        ("_scaled_dot_product_cudnn_attention", {}),
        ("_scaled_dot_product_fused_attention_overrideable", {}),
    )
)

PROJECTIONS: dict[str, Source] = {
    "w0": "qkv_weight",
    "b0": "qkv_bias",
    "w1": "proj_weight",
    "b1": "proj_bias",
}

MULTI_HEAD = (
    Row(
        "aten::_native_multi_head_attention",
        "multi_head_attention",
        {**_QKV, **PROJECTIONS, "mask": "mask"},
        {"heads": "num_head", "lengths": lambda args: sample_lengths(args["query"])},
    ),
)

_SAVED: dict[str, Source] = {"y": "out", "log_sum": "logsumexp"}


def _bias(args: Arguments) -> Any:
    # The operators of cuDNN have no bias before PyTorch 2.5.
    return args.get("attn_bias")


ATTENTION_GRADIENTS = (
    Row(
        "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
        "attention_backward",
        {"dy": "grad_out", **_QKV, "mask": "attn_mask", **_SAVED},
        {**_ATTRIBUTES, "needs": differentiated(q="query", k="key", v="value")},
    ),
    Row(
        "aten::_scaled_dot_product_flash_attention_backward",
        "attention_backward",
        {"dy": "grad_out", **_QKV, **_SAVED},
        _ATTRIBUTES,
    ),
    *(
        Row(f"aten::{name}", "attention_backward", {"dy": dy, **_QKV, "mask": _bias, **_SAVED}, _ATTRIBUTES)
        for name, dy in (
            ("_scaled_dot_product_efficient_attention_backward", "grad_out_"),
            ("_scaled_dot_product_cudnn_attention_backward", "grad_out"),
            ("_scaled_dot_product_fused_attention_overrideable_backward", "grad_out"),
        )
    ),
)

ATTENTION_ROWS = (*RAGGED, *SCALED_DOT_PRODUCT, *MULTI_HEAD, *ATTENTION_GRADIENTS)


# Fused operators: transformer layers, chunked losses, products and convolutions with an activation


TRANSFORMER_LAYERS = (
    Row(
        "aten::_transformer_encoder_layer_fwd",
        "transformer_encoder_layer",
        {
            **operands("x=src mask=mask w2=ffn_weight_1 b2=ffn_bias_1 w3=ffn_weight_2 b3=ffn_bias_2"),
            **operands("w4=norm_weight_1 b4=norm_bias_1 w5=norm_weight_2 b5=norm_bias_2"),
            **PROJECTIONS,
        },
        {
            "heads": "num_heads",
            "activation": lambda args: "gelu" if args["use_gelu"] else None,
            "lengths": lambda args: sample_lengths(args["src"]),
        },
    ),
    Row("aten::_transform_bias_rescale_qkv", "scaled_split_heads", {"x": "qkv", "b": "qkv_bias"}),
)

_LINEAR_CROSS_ENTROPY: dict[str, Source] = {
    "x": "input",
    "w": "linear_weight",
    "b": "linear_bias",
    "target": "target",
    "class_weights": "weight",
}


def _needed_gradients(args: Arguments) -> tuple[str, ...]:
    operands_and_arguments = (("x", "input"), ("w", "linear_weight"), ("b", "linear_bias"))
    return tuple(name for name, argument in operands_and_arguments if args[f"compute_{argument}_grad"])


LOSSES = (
    Row(
        "torch_nn::_linear_cross_entropy_batch_chunked",
        "linear_cross_entropy",
        _LINEAR_CROSS_ENTROPY,
        {"reduction": "reduction", "needs": _needed_gradients},
        outputs=non_empty_outputs,
    ),
    Row(
        "torch_nn::_linear_cross_entropy_batch_chunked_no_reduction",
        "linear_cross_entropy",
        _LINEAR_CROSS_ENTROPY,
        {"reduction": constant("none"), "needs": constant(())},
    ),
)

EPILOGUES = (
    Row(
        "quantized::linear_relu_dynamic_fp16",
        "fused_linear",
        {"x": first_argument, **PACKED},
        {"activation": constant("relu")},
        is_unpacked,
    ),
    Row(
        "aten::_addmm_activation",
        "fused_matmul",
        {"x0": "mat1", "x1": "mat2", "b": as_data("self")},
        {
            "alpha": non_default("alpha", 1),
            "beta": non_default("beta", 1),
            "activation": lambda args: "gelu" if args["use_gelu"] else "relu",
        },
    ),
    Row(
        "aten::cudnn_convolution_relu",
        "fused_conv",
        {"x": "self", "w": "weight", "b": "bias"},
        {"activation": constant("relu"), "groups": "groups"},
    ),
    Row(
        "aten::cudnn_convolution_add_relu",
        "fused_conv",
        {"x": "self", "w": "weight", "b": "bias", "z": "z"},
        {"activation": constant("relu"), "groups": "groups"},
    ),
)

FUSED_ROWS = (*TRANSFORMER_LAYERS, *LOSSES, *EPILOGUES)


ROWS = (*RECURRENT_ROWS, *ATTENTION_ROWS, *FUSED_ROWS)
