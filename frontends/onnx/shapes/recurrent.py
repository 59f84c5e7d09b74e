"""Shapes of recurrent layers and of layers that carry a state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..graph.node import Node, Rule
from ..values.value import Value
from .rules import positive


def recurrent(node: Node) -> Sequence[Value]:
    """Infer all steps, the last hidden state, and the last cell state (LSTM)."""
    x, r = node.value("X"), node.value("R")
    directions, hidden = r.known_shape[0], node.args.get("hidden_size") or r.known_shape[-1]
    if len(x.known_shape) != 3:
        raise node.error(f"needs an input of 3 dimensions (got the shape {x.known_shape})")
    if node.args.get("layout"):
        batch, steps = x.known_shape[:2]
        last = node.result((batch, directions, hidden), x.dtype)
        return [node.result((batch, steps, directions, hidden), x.dtype), last, node.result(last.known_shape, x.dtype)]
    steps, batch = x.known_shape[:2]
    last = node.result((directions, batch, hidden), x.dtype)
    return [node.result((steps, directions, batch, hidden), x.dtype), last, node.result(last.known_shape, x.dtype)]


def linear_attention(node: Node) -> Sequence[Value]:
    """Infer the output and the state, whose matrices have the features of keys by those of values."""
    q, k, v = node.value("query"), node.value("key"), node.value("value")
    count, shared = positive(node, "q_num_heads"), positive(node, "kv_num_heads")
    for value in (q, k, v):
        if len(value.known_shape) != 3:
            raise node.error(f"needs inputs of 3 dimensions (got the shape {value.known_shape})")
    for name, part in (("decay", "gated"), ("beta", "delta")):
        if part in node.args["update_rule"] and node.get(name) is None:
            raise node.error(f"lacks the input {name!r}, which the update_rule {node.args['update_rule']!r} needs")
    batch, steps, _ = q.known_shape
    width, features = k.known_shape[-1] // shared, v.known_shape[-1] // shared
    state = node.get("past_state")
    return [
        node.result((batch, steps, count * features), q.dtype),
        node.result((batch, shared, width, features), state.dtype if state is not None else q.dtype),
    ]


def causal_conv(node: Node) -> Sequence[Value]:
    """Infer the output and the state: the last inputs, one less than the kernel size."""
    x, w = node.value("input"), node.value("weight")
    last = node.args.get("channels_last")
    batch, channels = (x.known_shape[0], x.known_shape[-1]) if last else x.known_shape[:2]
    kept = (w.known_shape[-1] - 1) * node.args.get("dilation", 1)
    return [node.result(x.known_shape, x.dtype), node.result((batch, channels, kept), x.dtype)]


RULES: Mapping[str, Rule] = {
    **{f"ai.onnx::{op}": recurrent for op in ("LSTM", "GRU", "RNN")},
    "ai.onnx::LinearAttention": linear_attention,
    "ai.onnx::CausalConvWithState": causal_conv,
}
"""Rules by full operator name."""
