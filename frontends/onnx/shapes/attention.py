"""Shapes of attention and of rotary position embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..graph.node import Node, Rule
from ..values.value import Shape, Value
from .rules import same_shape


def attention(node: Node) -> Sequence[Value]:
    """Infer the attention output, keys and values with the past prepended, and the scores."""
    q, k, v, past = node.value("Q"), node.value("K"), node.value("V"), node.get("past_key")
    if len(q.known_shape) == 3:
        heads, kv_heads = node.args.get("q_num_heads"), node.args.get("kv_num_heads")
        if not heads or not kv_heads:
            raise node.error("has inputs of 3 dimensions, but no q_num_heads and kv_num_heads")
        (b, tq, _), (_, tk, ek), (_, _, ev) = q.known_shape, k.known_shape, v.known_shape
        shape: Shape = (b, tq, ev // kv_heads * heads)
        dk, dv = ek // kv_heads, ev // kv_heads
    else:
        (b, heads, tq, _), (_, kv_heads, tk, dk), dv = q.known_shape, k.known_shape, v.known_shape[-1]
        shape = (b, heads, tq, dv)
    total = tk + (past.known_shape[2] if past is not None else 0)
    return [
        node.result(shape, q.dtype),
        node.result((b, kv_heads, total, dk), k.dtype),
        node.result((b, kv_heads, total, dv), v.dtype),
        node.result((b, heads, tq, total), q.dtype),
    ]


def flex_attention(node: Node) -> Sequence[Value]:
    """Infer the attention output: the shape of the queries with the feature size of the values."""
    q, v = node.value("Q"), node.value("V")
    return [node.result((*q.known_shape[:-1], v.known_shape[-1]), q.dtype)]


RULES: Mapping[str, Rule] = {
    "ai.onnx::Attention": attention,
    "ai.onnx::RotaryEmbedding": same_shape,
    "ai.onnx.preview::FlexAttention": flex_attention,
}
"""Rules by full operator name."""
