"""Rows of attention and its gradients."""

from __future__ import annotations

from costcore.translate import Row, Source

from ..tensors import sample_lengths
from .arguments import first_output, non_default

_QKV: dict[str, Source] = {"q": "query", "k": "key", "v": "value"}
_ATTRIBUTES: dict[str, Source] = {"causal": "is_causal", "dropout": non_default("dropout_p", 0)}

SCALED_DOT_PRODUCT = tuple(
    Row(
        f"aten::{name}",
        "attention",
        {**_QKV, "mask": lambda args: args.get("attn_mask", args.get("attn_bias"))},
        _ATTRIBUTES,
        outputs=first_output,
    )
    for name in (
        "scaled_dot_product_attention",
        "_scaled_dot_product_attention_math",
        "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_cudnn_attention",
        "_scaled_dot_product_fused_attention_overrideable",
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
        {
            "q": "query",
            "k": lambda args: None if args["key"] is args["query"] else args["key"],
            "v": lambda args: None if args["value"] is args["key"] else args["value"],
            **PROJECTIONS,
            "mask": "mask",
        },
        {"heads": "num_head", "lengths": lambda args: sample_lengths(args["query"])},
    ),
)


_SAVED: dict[str, Source] = {"y": "out", "log_sum": "logsumexp"}

GRADIENTS = (
    Row(
        "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
        "attention_backward",
        {"dy": "grad_out", **_QKV, "mask": "attn_mask", **_SAVED},
        _ATTRIBUTES,
    ),
    Row(
        "aten::_scaled_dot_product_flash_attention_backward",
        "attention_backward",
        {"dy": "grad_out", **_QKV, **_SAVED},
        _ATTRIBUTES,
    ),
    *(
        Row(f"aten::{name}", "attention_backward", {"dy": dy, **_QKV, "mask": "attn_bias", **_SAVED}, _ATTRIBUTES)
        for name, dy in (
            ("_scaled_dot_product_efficient_attention_backward", "grad_out_"),
            ("_scaled_dot_product_cudnn_attention_backward", "grad_out"),
            ("_scaled_dot_product_fused_attention_overrideable_backward", "grad_out"),
        )
    ),
)

ROWS = (*SCALED_DOT_PRODUCT, *MULTI_HEAD, *GRADIENTS)
