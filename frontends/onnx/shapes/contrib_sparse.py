"""Shapes of attention with some of the keys, of what gates and mixes streams, and of sequences joined and set apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from costcore.dims import Dim

from ..graph.node import Node
from ..values.value import Shape, Value
from .contrib_attention import OPERANDS, Operands, joined, unpacked
from .contrib_products import of_rank
from .rules import Rule, heads

FACTS = "facts"
"""Under this name a node's cache keeps what the rows need to know beyond shapes."""


class Cached(NamedTuple):
    """Where the keys of a decoder's layer come from."""

    keys: Dim
    made: Dim
    from_key: bool
    from_cache: bool


def told(node: Node, name: str, otherwise: bool) -> bool:
    """A flag that is an input; what is assumed where it is computed."""
    value = node.get(name)
    if value is None or value.data is None:
        if value is not None:
            node.assumed.append(f"{name} depends on data: it is taken as {str(otherwise).lower()}")
        return otherwise
    return bool(value.data.ravel()[0])


def decoder_layer(node: Node) -> Sequence[Value]:
    """The output like the query ``[T, N, E]``; keys and values of the cache with the new ones."""
    query, key, cache = node.value("query"), node.value("key"), node.get("key_cache")
    count = heads(node, "num_heads")
    if len(query.known) != 3 or len(key.known) != 3:
        raise node.error(f"needs a query and a key of 3 dimensions, got {query.known} and {key.known}")
    steps, batch, width = query.known
    is_cross = told(node, "static_kv", True)
    has_past = cache is not None and told(node, "has_layer_state", True) and told(node, "use_past", True)
    past = cache.known[2] if cache is not None and has_past else 0
    new = key.known[0] if is_cross else steps
    if is_cross and has_past:
        new = 0
    node.cache[FACTS] = Cached(past + new, batch * new, is_cross and not has_past, has_past)
    present = (batch, count, past + new, width // count)
    return [node.result(query.known, query.dtype), *(node.result(present, query.dtype) for _ in range(2))]


def longformer(node: Node) -> Sequence[Value]:
    """The output like the input."""
    x = node.value("input")
    if len(x.known) != 3:
        raise node.error(f"needs an input of 3 dimensions, got {x.known}")
    heads(node, "num_heads")
    heads(node, "window")
    node.assumed.append("which tokens attend to all others depends on data: none is counted")
    return [node.result(x.known, x.dtype)]


class Selected(NamedTuple):
    """How many keys a query meets: selected ones, and those of a window."""

    selected: Dim
    local: Dim


def selected(node: Node) -> Sequence[Value]:
    """Attention with selected keys, on a cache of its own length or in pages, which comes out as it went in."""
    query, is_paged = node.value("query"), node.get("key_cache") is not None
    count, shared = heads(node, "num_heads"), heads(node, "kv_num_heads")
    new = 2 if is_paged else 3
    for name, rank in (("query", new), ("key", new), ("value", new), ("past_key", 4), ("past_value", 4)):
        if node.get(name) is not None:
            of_rank(node, **{name: rank})
    q, k, v = unpacked(node, joined(query) if is_paged else query.known, count, shared)
    if is_paged:
        cache, value_cache = node.value("key_cache"), node.value("value_cache")
        total = node.value("block_table").known[1] * cache.known[1]
        shapes = [(cache.known, cache.dtype), (value_cache.known, value_cache.dtype)]
    else:
        past, number = node.get("past_key"), node.get("total_sequence_length")
        total = k.known[2] + (past.known[2] if past is not None else 0)
        if number is not None and number.data is not None:
            total = number.data.ravel()[0]
        length = total
        if past is not None and isinstance(total, int) and isinstance(past.known[2], int):
            length = max(total, past.known[2])
        shapes = [((k.known[0], shared, length, d), query.dtype) for d in (k.known[3], v.known[3])]
    node.cache[OPERANDS] = Operands(q, k, v, total)
    local: Dim = 0
    if node.args.get("attention_mode") == "local_plus_selected":
        window = node.args.get("local_window_size", -1)
        local = window if window > 0 else total
    node.cache[FACTS] = Selected(node.value("selected_indices").known[-1], local)
    node.assumed.append("how many keys are selected depends on data: as many as there is room for")
    width = count * v.known[3]
    made = (query.known[0], width) if is_paged else (*query.known[:2], width)
    return [node.result(made, query.dtype), *(node.result(shape, dtype) for shape, dtype in shapes)]


class Indexed(NamedTuple):
    """What an indexer of keys does: heads, entries that are scored, and entries that are made in this run."""

    heads: Dim
    entries: Dim
    made: Dim
    gated: bool


def indexer(node: Node) -> Sequence[Value]:
    """Places of the keys that each query may read, and the state: keys, and what is not yet compressed of them."""
    query, key, width = node.value("query"), node.get("key"), node.value("query_norm_weight").known[0]
    ratio, mode = heads(node, "compress_ratio"), node.args.get("policy_mode")
    if mode not in ("qsa", "csa"):
        raise node.error(f"has the policy_mode {mode!r}; known are 'qsa' and 'csa'")
    gated = mode == "csa"
    tables = node.value("cos_cache").known, node.value("sin_cache").known
    if tables[0] != tables[1] or len(tables[0]) not in (2, 3):
        raise node.error(f"needs tables of cosines and sines of one shape, got {tables[0]} and {tables[1]}")
    if node.op == "PackedSparseAttentionIndexer":
        of_rank(node, query=2, past_key_state=3, past_kv_buffer=3, key_norm_weight=1)
    else:
        of_rank(node, query=3, past_key=3, key_norm_weight=1)
    count = query.known[-1] // width - (1 if key is None else 0)
    room = heads(node, "index_topk") if gated else heads(node, "token_budget") + ratio - 1
    chosen = node.result((*query.known[:-1], room), "int32")
    if node.op == "PackedSparseAttentionIndexer":
        return [chosen, *_packed_state(node, count, ratio, gated)]
    batch, steps = query.known[:2]
    past, buffer, number = node.value("past_key"), node.get("past_proj_buffer"), node.get("past_sequence_length")
    before = past.known[1]
    if number is not None and number.data is not None:
        before = number.data.ravel()[0]
    elif number is not None:
        node.assumed.append("how many keys there are depends on data: as many as there is room for")
    kept: Dim = 0
    if gated:
        waiting: Any = buffer.known[2] if buffer is not None else 0
        if not isinstance(waiting, int) or not isinstance(steps, int):
            made, kept, entries = (steps + waiting) // ratio, waiting, before + (steps + waiting) // ratio
        else:
            rest = waiting - ratio if waiting >= ratio else waiting
            made = (rest + steps) // ratio
            kept = rest + steps - made * ratio + (ratio if waiting >= ratio or made else 0)
            entries = before + made
        after = entries
    else:
        after = before + steps
        made = entries = after // ratio
    node.cache[FACTS] = Indexed(count, entries, batch * made, gated)
    length = past.known[1] if number is not None else after
    return [
        chosen,
        node.result((batch, length, width), past.dtype),
        node.result((2, batch, kept, 2 * width), query.dtype),
    ]


def _packed_state(node: Node, count: Dim, ratio: int, gated: bool) -> list[Value]:
    """The state of an indexer of joined sequences, whose capacity is fixed."""
    tokens, state = node.value("query").known[0], node.value("past_key_state")
    node.cache[FACTS] = Indexed(count, state.known[1], tokens // ratio, gated)
    node.assumed.append("the lengths of the sequences depend on data: all keys that there is room for are scored")
    lengths, buffer = node.value("past_state_lengths"), node.value("past_kv_buffer")
    gates = node.get("past_gate_buffer")
    update = (state.known[0], node.args.get("state_update_capacity", 0), state.known[2])
    return [
        node.result((tokens,), "int32"),
        node.result(state.known, state.dtype),
        node.result(buffer.known, buffer.dtype),
        node.result((gates or buffer).known, buffer.dtype),
        node.result(lengths.known, "int32"),
        node.result(update, state.dtype),
    ]


def streams(node: Node) -> tuple[Shape, Dim]:
    """Streams as ``[..., C, H]``, and C."""
    shape, count = node.value("streams", "X").known, node.args.get("num_branches") or 0
    if count < 0 or not shape:
        raise node.error(f"has num_branches {count} for streams of shape {shape}")
    if count:
        return (*shape[:-1], count, shape[-1] // count), count
    if len(shape) < 2:
        raise node.error(f"needs streams as an axis of their own, or num_branches; got {shape}")
    return shape, shape[-2]


def reduced_streams(node: Node) -> Sequence[Value]:
    """One feature vector of all streams."""
    shape, _ = streams(node)
    node.value("pre_mix")
    return [node.result((*shape[:-2], shape[-1]), node.value("streams").dtype)]


def mixed_streams(node: Node) -> Sequence[Value]:
    """Streams like those that are mixed."""
    streams(node)
    for name in ("block_output", "post_mix"):
        node.value(name)
    return same("streams")(node)


def position_bias(node: Node) -> Sequence[Value]:
    """A bias for each head and pair of positions; how many positions there are is a value."""
    table = node.value("bias_table")
    lengths = [value.data.ravel()[0] if value.data is not None else None for value in _lengths(node)]
    return [node.result((1, table.known[1], *lengths), table.dtype)]


def _lengths(node: Node) -> list[Value]:
    return [node.value("query_length"), node.value("key_length")]


def gated_value(node: Node) -> Sequence[Value]:
    """A gated value for every stream, and its norm."""
    key, query, value = node.value("key"), node.value("query"), node.value("value")
    if key.known != query.known or len(key.known) != 4 or len(value.known) != 3:
        raise node.error(f"needs keys and queries [N, T, C, H] and values [N, T, H], got {key.known} and {value.known}")
    return [node.result(key.known, key.dtype) for _ in range(2)]


def gated_position_bias(node: Node) -> Sequence[Value]:
    """A bias for each sample, head and pair of positions."""
    of_rank(node, query_bias=1, rel_pos=4, weight=2)
    query, offsets = node.value("query_layer"), node.get("token_offset")
    batch, steps = (offsets or query).known[:2]
    return [node.result((batch, heads(node, "num_heads"), steps, steps), query.dtype)]


def unpadded(node: Node) -> Sequence[Value]:
    """The tokens that are no padding, where they were, where sequences begin, and how long the longest is."""
    x = node.value("input")
    batch, steps, width = x.known
    counts = ((batch, steps), (batch + 1,), (1,))
    return [node.result((None, width), x.dtype), *(node.result(shape, "int32") for shape in counts)]


def repadded(node: Node) -> Sequence[Value]:
    """Sequences set apart again."""
    x, offsets = node.value("input"), node.value("token_offset")
    return [node.result((*offsets.known, x.known[-1]), x.dtype)]


def same(*names: str) -> Rule:
    """Outputs like the inputs of these names, as far as they are given."""

    def rule(node: Node) -> list[Value]:
        given = [node.get(name) for name in names]
        first = node.value(names[0])
        return [node.result((value or first).known, (value or first).dtype) for value in given]

    return rule


ADDED = {
    "DecoderAttention": decoder_layer,
    **dict.fromkeys(("LongformerAttention", "QOrderedLongformerAttention"), longformer),
    **dict.fromkeys(("DynamicSparseAttention", "SparsePagedAttention"), selected),
    **dict.fromkeys(("SparseAttentionIndexer", "PackedSparseAttentionIndexer"), indexer),
    "HyperConnectionPreMix": reduced_streams,
    "HyperConnectionPostMix": mixed_streams,
    "BranchwiseRMSNorm": same("X"),
    "EngramGate": gated_value,
    "GatedAdd": same("X"),
    "LinearAttentionGate": same("a", "b"),
    "RelativePositionBias": position_bias,
    "GatedRelativePositionBias": gated_position_bias,
    "RemovePadding": unpadded,
    "RestorePadding": repadded,
}
