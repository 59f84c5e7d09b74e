"""Rows of the attention family that ONNX Runtime adds, with what carries a state and mixtures of experts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costcore.translate import Arguments, Row

from .contrib import with_own_inputs
from .rows.arguments import flag, node, nonzero
from .rows.attention import rotated
from .rows.recurrent import RECURRENCE, causal_activation
from .shapes.contrib_attention import FEATURES, OPERANDS
from .shapes.contrib_products import width
from .values.value import Value


def _part(name: str) -> Any:
    """One of the operands that the rule of shapes found."""
    return lambda a: getattr(node(a).cache[OPERANDS], name)


def _mask(*names: str) -> Any:
    """A mask over pairs of queries and keys, or over keys; lengths alone are none."""

    def read(a: Arguments) -> Any:
        return next((a[n] for n in names if isinstance(a.get(n), Value) and len(a[n].known) > 1), None)

    return read


def _shared(a: Arguments) -> Any:
    """Whether keys and values go into the cache they come from: it is as long after as before."""
    past = a.get("past_key") or a.get("key_cache")
    present = node(a).outputs[1] if len(node(a).outputs) > 1 else None
    return True if isinstance(past, Value) and present is not None and past.shape == present.shape else None


def _turned(a: Arguments) -> Any:
    """How many features are turned, where tables do it."""
    cos = a.get("cos_cache")
    return 2 * cos.known[-1] if isinstance(cos, Value) and a.get("do_rotary", 1) else None


def _window(a: Arguments) -> Any:
    size = a.get("local_window_size", -1)
    return size if size > 0 else None


def _table(name: str) -> Any:
    return lambda a: a.get(name) if a.get("do_rotary", 1) else None


def _past(*names: str) -> Any:
    """What is kept of the past, none where it is empty, as it is before the first step."""

    def read(a: Arguments) -> Any:
        value = next((a[name] for name in names if isinstance(a.get(name), Value)), None)
        return None if value is None or 0 in value.known else value

    return read


OPERAND = {
    "q": _part("q"),
    "k": _part("k"),
    "v": _part("v"),
    "past_k": _past("past_key", "key_cache"),
    "past_v": _past("past_value", "value_cache"),
    "mask": _mask("attention_bias", "key_padding_mask", "mask_index"),
    "b": "bias",
    "cos": _table("cos_cache"),
    "sin": _table("sin_cache"),
    "w0": "q_norm_weight",
    "w1": "k_norm_weight",
    "k_scale": "k_scale",
    "v_scale": "v_scale",
    "sink": "head_sink",
}
SETTINGS = {
    "keys": _part("keys"),
    "shared": _shared,
    "rotary_dim": _turned,
    "causal": lambda a: bool(a.get("unidirectional", a.get("causal", 0))) or None,
    "softcap": nonzero("softcap"),
    "window": _window,
}

DECODERS = (
    *("MultiHeadAttention", "DecoderMaskedMultiHeadAttention", "GroupQueryAttention", "SparseAttention"),
    "PackedMultiHeadAttention",
)


def _positions(a: Arguments) -> Any:
    """How many keys the tables of all sequences can name."""
    return a["block_table"].known[0] * node(a).cache[OPERANDS].keys


def _in_three(a: Arguments) -> Value:
    """The input as ``[N, T, E]``; joined sequences are one."""
    x: Value = a["input"]
    return x.viewed((1, *x.known)) if len(x.known) == 2 else x


def _turned_heads(a: Arguments) -> Any:
    if not a.get("do_rotary"):
        return None
    return a.get("rotary_embedding_dim") or node(a).cache[FEATURES][0] // a["num_heads"]


PROJECTED: Mapping[str, Any] = {
    "heads": "num_heads",
    "features": lambda a: node(a).cache[FEATURES],
    "causal": lambda a: bool(a.get("unidirectional")) or None,
    "rotary_dim": _turned_heads,
    "keys": lambda a: a["token_offset"].known[1] if isinstance(a.get("token_offset"), Value) else None,
}


ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swiglu": "swiglu", "identity": "none"}


def _expert(i: int) -> Any:
    return lambda a: node(a).cache.get(f"fc{i}_experts_weights")


def _expert_zero_point(a: Arguments) -> Any:
    """The zero point of experts of integers that have none of their own."""
    if a.get("quant_type", "int") != "int" or a.get("fc1_zero_points") is not None:
        return None
    return 1 << (width(node(a), "fc1_expert_weight_bits", "expert_weight_bits") - 1)


def _expert_activation(a: Arguments) -> str:
    return ACTIVATIONS.get(str(a.get("activation_type", "relu")), "relu")


EXPERTS = {
    "x": "input",
    "router": "router_probs",
    **{f"w{i}": _expert(j) for i, j in enumerate((1, 2, 3))},
    **{f"b{i}": f"fc{j}_experts_bias" for i, j in enumerate((1, 2, 3))},
}
SCALES = {
    **{f"w{i}_scale": f"fc{j}_scales" for i, j in enumerate((1, 2, 3))},
    **{f"w{i}_zero_point": f"fc{j}_zero_points" for i, j in enumerate((1, 2, 3))},
}
ROUTING = {
    "k": lambda a: a.get("k") or 1,
    "normalize": lambda a: bool(a.get("normalize_routing_weights")) or None,
    "activation": _expert_activation,
}

ATTENTION: tuple[Row, ...] = (
    *(Row(f"com.microsoft::{op}", "decoder_attention", OPERAND, SETTINGS) for op in DECODERS),
    Row("com.microsoft::PagedAttention", "paged_attention", OPERAND, {**SETTINGS, "positions": _positions}),
    *(
        Row(
            f"com.microsoft::{op}",
            "multi_head_attention",
            {
                "q": _in_three,
                "w0": "weights",
                "b0": "bias",
                "past": _past("past"),
                "mask": _mask("attention_bias", "mask_index"),
            },
            PROJECTED,
        )
        for op in ("Attention", "DecoderMaskedSelfAttention", "PackedAttention")
    ),
    Row(
        "com.microsoft::QAttention",
        "quantized_multi_head_attention",
        {
            "q": _in_three,
            "w0": "weight",
            "b0": "bias",
            "past": _past("past"),
            "mask": _mask("mask_index"),
            "q_scale": "input_scale",
            "w0_scale": "weight_scale",
            "q_zero_point": "input_zero_point",
            "w0_zero_point": "weight_zero_point",
        },
        PROJECTED,
    ),
    Row(
        "com.microsoft::QOrderedAttention",
        "quantized_multi_head_attention",
        {
            "q": "input",
            "w0": "Q_weight",
            "w2": "K_weight",
            "w3": "V_weight",
            "b0": "Q_bias",
            "b2": "K_bias",
            "b3": "V_bias",
            "mask": _mask("attention_bias", "mask_index"),
            "w0_scale": "scale_Q_weight",
            "w2_scale": "scale_K_weight",
            "w3_scale": "scale_V_weight",
        },
        PROJECTED,
    ),
    Row(
        "com.microsoft::LinearAttention",
        "linear_attention",
        RECURRENCE,
        {"rule": lambda a: a.get("update_rule", "gated_delta")},
    ),
    Row(
        "com.microsoft::CausalConvWithState",
        "causal_conv",
        {"x": "input", "w": "weight", "b": "bias", "state": "past_state"},
        {"activation": causal_activation},
        when=lambda a: causal_activation(a) in (None, "silu"),
    ),
    *(
        Row(
            f"com.microsoft::{op}",
            "rotary_embedding",
            {"x": rotated, "cos": "cos_cache", "sin": "sin_cache", "position": "position_ids"},
            {"rotary_dim": nonzero("rotary_embedding_dim"), "interleaved": flag("interleaved")},
        )
        for op in ("RotaryEmbedding", "MRotaryEmbedding")
    ),
    Row(
        "com.microsoft::GemmaRotaryEmbedding",
        "rotated_pair",
        {"x0": "q", "x1": "q_rot", "x2": "k", "x3": "k_rot", "angle": "emb"},
    ),
    Row("com.microsoft::MoE", "moe", EXPERTS, ROUTING),
    Row("com.microsoft::QMoE", "moe", {**EXPERTS, **SCALES}, {**ROUTING, "zero_point": _expert_zero_point}),
)
ROWS: tuple[Row, ...] = tuple(map(with_own_inputs, ATTENTION))
"""The rows of this family."""
