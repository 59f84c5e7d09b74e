"""Shapes of the attention family that ONNX Runtime adds, and what its table rows need to know of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from costcore.dims import Dim

from ..graph.node import Node
from ..values.value import Shape, Undetermined, Value
from .recurrent import causal_conv, linear_attention
from .rules import Rule, heads


class Operands(NamedTuple):
    """Queries, keys and values as ``[N, H, T, D]``, and how many keys there are with those of the past."""

    q: Value
    k: Value
    v: Value
    keys: Dim


OPERANDS = "operands"
"""Under this name a node's cache keeps its :class:`Operands`."""


def _split(value: Value, count: int, shape: Shape | None = None) -> Value:
    """Packed heads ``[N, T, H * D]``, or heads of their own ``[N, H, T, D]``, as the latter."""
    shape = value.known if shape is None else shape
    if len(shape) == 4:
        return value.viewed(shape)
    if len(shape) != 3:
        raise Undetermined
    batch, steps, width = shape
    return value.viewed((batch, count, steps, width // count))


def joined(value: Value) -> Shape:
    """``[T, H * D]`` of sequences joined, as one sequence."""
    return (1, *value.known) if len(value.known) == 2 else value.known


def multi_head(node: Node) -> Sequence[Value]:
    """Attention of projected queries: keys and values apart, packed with the queries, or with each other."""
    query, key, value = node.value("query"), node.get("key"), node.get("value")
    count, past = heads(node, "num_heads"), node.get("past_key")
    if len(query.known) == 5:  # [N, T, H, 3, D]
        batch, steps, _, _, width = query.known
        q = k = v = query.viewed((batch, count, steps, width))
    elif key is not None and len(key.known) == 5:  # [N, T, H, 2, D]
        batch, steps, _, _, width = key.known
        q, k = _split(query, count), key.viewed((batch, count, steps, width))
        v = k
    elif key is None or value is None:
        raise node.error("has no keys")
    else:
        q, k, v = _split(query, count), _split(key, count), _split(value, count)
    steps = k.known[2]
    is_cross = key is not None and len(key.known) == 4  # a cache that is complete: the past is in it
    total = steps if past is None or is_cross else steps + past.known[2]
    length = total
    if past is not None and not is_cross and node.args.get("past_present_share_buffer"):
        length, used = past.known[2], node.get("past_sequence_length")
        total = length if used is None or used.data is None else used.data.ravel()[0] + steps
        if total is length:
            node.assumed.append("the number of keys in use depends on data: the whole cache counts")
    node.cache[OPERANDS] = Operands(q, k, v, total)
    batch, _, asked, _ = q.known
    present = (batch, count, length, k.known[3])
    return [
        node.result((batch, asked, count * v.known[3]), query.dtype),
        node.result(present, query.dtype),
        node.result((*present[:3], v.known[3]), query.dtype),
        node.result((batch, count, asked, total), query.dtype),
    ]


def unpacked(node: Node, rows: Shape, count: int, shared: int) -> tuple[Value, Value, Value]:
    """Queries, keys and values, which the query holds all where there is no key."""
    query, key, value = node.value("query"), node.get("key"), node.get("value")
    if key is not None and value is not None:
        k = _split(key, shared, joined(key))
        return _split(query, count, rows), k, _split(value, shared, joined(value))
    width = rows[-1] // (count + 2 * shared)
    batch, steps = rows[:2]
    k = query.viewed((batch, shared, steps, width))
    return query.viewed((batch, count, steps, width)), k, k


def grouped(node: Node) -> Sequence[Value]:
    """Attention with fewer key heads; the number of keys in use is a value."""
    query, past = node.value("query"), node.get("past_key")
    count, shared = heads(node, "num_heads"), heads(node, "kv_num_heads")
    q, k, v = unpacked(node, query.known, count, shared)
    steps, told = k.known[2], node.get("total_sequence_length")
    total = told.data.ravel()[0] if told is not None and told.data is not None else None
    if total is None:
        total = steps if past is None else steps + past.known[2]
        if past is not None:
            node.assumed.append("the number of keys in use depends on data: the whole cache and the new ones count")
    node.cache[OPERANDS] = Operands(q, k, v, total)
    length = total
    if past is not None and all(isinstance(d, int) for d in (total, past.known[2])):
        length = max(total, past.known[2])
    dtype = past.dtype if past is not None else query.dtype
    width = past.known[3] if past is not None else k.known[3]
    batch, _, asked, features = q.known
    present = (batch, shared, length, width)
    return [
        node.result((batch, asked, count * features), query.dtype),
        node.result(present, dtype),
        node.result(present, dtype),
        node.result((batch, count, asked, total), query.dtype),
    ]


def sparse(node: Node) -> Sequence[Value]:
    """As :func:`grouped`; the cache has its full length, and all its keys count."""
    outputs = grouped(node)
    node.assumed.append("which blocks of keys are used depends on data: all of them count")
    return outputs[:3]


def paged(node: Node) -> Sequence[Value]:
    """Joined sequences on a cache in pages: as many keys each as a row of the page table can name, at most."""
    query, cache, table = node.value("query"), node.value("key_cache"), node.value("block_table")
    count, shared = heads(node, "num_heads"), heads(node, "kv_num_heads")
    q, k, v = unpacked(node, joined(query), count, shared)
    keys = table.known[1] * cache.known[1]
    node.cache[OPERANDS] = Operands(q, k, v, keys)
    node.assumed.append("the lengths of the sequences depend on data: as long as the page table allows")
    features = q.known[3]
    value = node.value("value_cache")
    return [
        node.result((query.known[0], count * features), query.dtype),
        node.result(cache.known, cache.dtype),
        node.result(value.known, value.dtype),
    ]


def packed_multi_head(node: Node) -> Sequence[Value]:
    """Joined sequences: each query meets as many keys as the longest sequence may have."""
    query, key, offsets = node.value("query"), node.get("key"), node.value("token_offset")
    count = heads(node, "num_heads")
    if key is None:  # [T, H, 3, D]
        tokens, _, _, width = query.known
        q = k = v = query.viewed((1, count, tokens, width))
    else:
        q, k = (_split(value, count, joined(value)) for value in (query, key))
        v = _split(node.value("value"), count, joined(node.value("value")))
    node.cache[OPERANDS] = Operands(q, k, v, offsets.known[1])
    node.assumed.append("the lengths of the sequences depend on data: all are as long as the longest may be")
    return [node.result((q.known[2], count * v.known[3]), query.dtype)]


def _features(node: Node, width: Dim) -> tuple[Dim, ...]:
    """Sizes of the three projections."""
    given = node.args.get("qkv_hidden_sizes")
    return tuple(given) if given else (width // 3,) * 3


FEATURES = "features"


def projected(node: Node) -> Sequence[Value]:
    """Attention with its projections, whose weight is ``[E, Fq + Fk + Fv]``, and present keys and values in one."""
    x = node.value("input")
    if node.op == "QOrderedAttention":
        features: tuple[Dim, ...] = tuple(node.value(f"{name}_weight").known[-1] for name in "QKV")
    else:
        features = _features(node, node.value("weights", "weight").known[-1])
    node.cache[FEATURES] = features
    count, past = heads(node, "num_heads"), node.get("past")
    dtype = node.value("input_scale").dtype if node.op == "QAttention" else x.dtype
    if len(x.known) == 2:
        node.assumed.append("the lengths of the sequences depend on data: all are as long as the longest may be")
        return [node.result((x.known[0], features[2]), dtype)]
    batch, steps, _ = x.known
    total = steps if past is None else steps + past.known[3]
    if past is not None and node.args.get("past_present_share_buffer"):
        total = past.known[3]
    present = (2, batch, count, total, features[1] // count)
    return [node.result((batch, steps, features[2]), dtype), node.result(present, dtype)]


def gated_linear_attention(node: Node) -> Sequence[Value]:
    """As the operator of the standard, whose schema says which rule is the usual one."""
    node.args.setdefault("update_rule", "gated_delta")
    return linear_attention(node)


class Delta(NamedTuple):
    """Heads of keys and of values, and features of each of both."""

    heads: tuple[Dim, Dim]
    features: tuple[Dim, Dim]


DELTA = "delta"
"""Under this name a node's cache keeps its :class:`Delta`."""

UPDATES = ("linear", "gated", "delta", "gated_delta")


def delta_net(node: Node) -> Sequence[Value]:
    """Joined sequences through gated delta rules; heads are axes of their own, or queries, keys and values are packed.

    The state is ``[N, H_v, D_v, D]``.
    """
    query, key, value, state = node.value("query"), node.get("key"), node.get("value"), node.get("initial_state")
    rule = node.args.get("update_rule", "gated_delta")
    if rule not in UPDATES:
        raise node.error(f"has the update_rule {rule!r}; known are {', '.join(UPDATES)}")
    for name, part in (("decay", "gated"), ("beta", "delta")):
        if part in rule and node.get(name) is None:
            raise node.error(f"has no input {name!r}, which the update_rule {rule!r} needs")
    if key is None or value is None:
        if state is None:
            raise node.error("has no keys and values, and no state that tells their heads")
        lead, (_, heads_v, width_v, width) = query.known[:-1], state.known
        heads_k = (query.known[-1] - heads_v * width_v) // (2 * width)
    else:
        (*lead_axes, heads_v, width_v), (heads_k, width) = value.known, key.known[-2:]
        lead = tuple(lead_axes)
    cuts = node.get("cu_seqlens")
    count: Dim = lead[0] if len(lead) == 2 else 1
    if state is not None:
        count = state.known[0]
    elif cuts is not None:
        count = cuts.known[0] - 1
    node.cache[DELTA] = Delta((heads_k, heads_v), (width, width_v))
    kept = node.args.get("state_update_capacity", 0) * (heads_v + heads_k * width + heads_v * width_v)
    return [
        node.result((*lead, heads_v, width_v), query.dtype),
        node.result((count, heads_v, width_v, width), "float32"),
        node.result((count, kept), "float32"),
    ]


def rotary(*names: str) -> Rule:
    """Outputs like the inputs of these names."""
    return lambda node: [node.result(node.value(name).known, node.value(name).dtype) for name in names]


ADDED = {
    "MultiHeadAttention": multi_head,
    "DecoderMaskedMultiHeadAttention": multi_head,
    "GroupQueryAttention": grouped,
    "SparseAttention": sparse,
    "PagedAttention": paged,
    "PackedMultiHeadAttention": packed_multi_head,
    **dict.fromkeys(
        ("Attention", "DecoderMaskedSelfAttention", "PackedAttention", "QAttention", "QOrderedAttention"), projected
    ),
    "LinearAttention": gated_linear_attention,
    "CausalConvWithState": causal_conv,
    "GatedDeltaNet": delta_net,
    "RotaryEmbedding": rotary("input"),
    "MRotaryEmbedding": rotary("input"),
    "GemmaRotaryEmbedding": rotary("q", "k"),
}
