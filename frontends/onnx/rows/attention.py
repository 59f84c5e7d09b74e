"""Rows of attention and of rotary position embeddings."""

from __future__ import annotations

from typing import Any

from costcore.translate import Arguments, Row

from ..values.value import Value
from .arguments import flag, node_of, nonzero


def _heads(name: str, count: str) -> Any:
    """Return a source for queries, keys or values as ``[N, H, T, D]``, also if they are packed ``[N, T, H * D]``."""

    def read(a: Arguments) -> Value:
        value, past = a[name], a.get(f"past_{'key' if name == 'K' else 'value'}") if name != "Q" else None
        shape = value.known_shape
        if len(shape) == 3:
            shape = (shape[0], a[count], shape[1], shape[2] // a[count])
        if isinstance(past, Value):
            shape = (*shape[:2], past.known_shape[2] + shape[2], shape[3])  # the past is read as well
        view: Value = value.viewed(shape)
        return view

    return read


def _window(a: Arguments) -> Any:
    """Return the left and right size of the attention window; None if it is unlimited."""
    sides = (a.get("left_window_size", -1), a.get("right_window_size", -1))
    return None if sides == (-1, -1) else sides


def rotary_input(a: Arguments) -> Value:
    """Return the input of a rotary embedding as ``[N, H, T, D]``."""
    n = node_of(a)
    x: Value = n.value("X", "input")
    heads = a.get("num_heads")
    if len(x.known_shape) != 3 or not heads:
        return x
    batch, steps, width = x.known_shape
    return x.viewed((batch, heads, steps, width // heads))


ROWS: tuple[Row, ...] = (
    Row(
        "ai.onnx::Attention",
        "attention",
        {
            "q": _heads("Q", "q_num_heads"),
            "k": _heads("K", "kv_num_heads"),
            "v": _heads("V", "kv_num_heads"),
            "mask": "attn_mask",
            "lengths": "nonpad_kv_seqlen",
        },
        {"causal": flag("is_causal"), "softcap": lambda a: a.get("softcap") or None, "window": _window},
    ),
    Row(
        "ai.onnx::RotaryEmbedding",
        "rotary_embedding",
        {"x": rotary_input, "cos": "cos_cache", "sin": "sin_cache", "position": "position_ids"},
        {"rotary_dim": nonzero("rotary_embedding_dim"), "interleaved": flag("interleaved")},
    ),
    Row(
        "ai.onnx.preview::FlexAttention",
        "attention",
        {"q": "Q", "k": "K", "v": "V"},
        when=lambda a: a.get("score_mod") is None and a.get("prob_mod") is None,
    ),
)
