"""Rows of attention and its gradients."""

from __future__ import annotations

from typing import Any

from costcore.translate import Arguments, Row, Source

from ..meta.sdpa import is_fused
from ..operators.saved_for_backward import any_is_differentiated
from ..tensors import dtype_name, sample_lengths
from .arguments import constant, differentiated, first_output, non_default

_QKV: dict[str, Source] = {"q": "query", "k": "key", "v": "value"}
_ATTRIBUTES: dict[str, Source] = {"causal": "is_causal", "dropout": non_default("dropout_p", 0)}


def _saved(args: Arguments) -> str | None:
    """Return the dtype of the logarithms of sums that a fused kernel keeps for its backward pass, one per query."""
    operands = args["query"], args["key"], args["value"]
    is_fused = all(x.dim() == 4 for x in operands) and not args.get("dropout_p")
    if not (is_fused and any_is_differentiated(*operands)):
        return None
    return "float32" if args["query"].dtype.itemsize < 4 else dtype_name(args["query"].dtype)


_CHOICE = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "enable_gqa")


def _backend(args: Arguments) -> str | None:
    """Return ``math`` if a CPU runs several operators, as it does where its fused kernel does not fit."""
    return None if is_fused(**{name: args[name] for name in _CHOICE if name in args}) else "math"


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
    """Return the added mask; None for operators without, as those of cuDNN before PyTorch 2.5."""
    return args.get("attn_bias")


GRADIENTS = (
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

ROWS = (*RAGGED, *SCALED_DOT_PRODUCT, *MULTI_HEAD, *GRADIENTS)
