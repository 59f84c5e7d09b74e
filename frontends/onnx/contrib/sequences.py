"""Sequences in ONNX Runtime: recurrent layers, layers with a state, and sparse attention.

Layers with a state are linear attention, delta rules and causal convolutions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from costcore.numbers import Dim, floor_div, maximum, minimum
from costcore.translate import Arguments

from ..node import Inferred, Node, OperatorSpec, row
from ..operators import check_ranks, fact, like, node_of, nonzero, positive
from ..operators.sequences import (
    CELL,
    RECURRENCE,
    causal_activation,
    causal_conv,
    has_known_functions,
    linear_attention,
    note_misfits,
    recurrent,
    states,
)
from ..values import Value
from .attention import ATTRIBUTES, OPERANDS, Operands, joined_shape, unpacked_operands


def gated_linear_attention(node: Node) -> Sequence[Value]:
    """Infer linear attention as the standard's operator, with its default update rule."""
    node.args.setdefault("update_rule", "gated_delta")
    return linear_attention(node)


@dataclass(frozen=True, slots=True)
class DeltaHeads:
    """Heads of keys and of values, and the features of each."""

    heads: tuple[Dim, Dim]
    features: tuple[Dim, Dim]


UPDATES = ("linear", "gated", "delta", "gated_delta")


def delta_net(node: Node) -> Inferred:
    """Infer joined sequences updated by gated delta rules, with separate or packed queries, keys and values.

    The state is ``[N, H_v, D_v, D]``.
    """
    query, key, value, state = node.value("query"), node.get("key"), node.get("value"), node.get("initial_state")
    rule = node.args.get("update_rule", "gated_delta")
    if rule not in UPDATES:
        raise node.error(f"has the update_rule {rule!r} (expected one of {', '.join(UPDATES)})")
    for name, part in (("decay", "gated"), ("beta", "delta")):
        if part in rule and node.get(name) is None:
            raise node.error(f"lacks the input {name!r}, which the update_rule {rule!r} needs")
    if key is None or value is None:
        if state is None:
            raise node.error("has no keys and values, and no state that gives their heads")
        lead, (_, heads_v, width_v, width) = query.known_shape[:-1], state.known_shape
        heads_k = (query.known_shape[-1] - heads_v * width_v) // (2 * width)
    else:
        (*lead_axes, heads_v, width_v), (heads_k, width) = value.known_shape, key.known_shape[-2:]
        lead = tuple(lead_axes)
    cuts = node.get("cu_seqlens")
    count: Dim = lead[0] if len(lead) == 2 else 1
    if state is not None:
        count = state.known_shape[0]
    elif cuts is not None:
        count = cuts.known_shape[0] - 1
    facts = DeltaHeads((heads_k, heads_v), (width, width_v))
    kept = node.args.get("state_update_capacity", 0) * (heads_v + heads_k * width + heads_v * width_v)
    return Inferred(
        [
            node.result((*lead, heads_v, width_v), query.dtype),
            node.result((count, heads_v, width_v, width), "float32"),
            node.result((count, kept), "float32"),
        ],
        facts,
    )


def quantized_recurrent(node: Node) -> Sequence[Value]:
    """Infer all steps and the last states; weights are ``[1, I, 4 H]`` and ``[1, H, 4 H]``."""
    x, r = node.value("X"), node.value("R")
    if len(x.known_shape) != 3 or len(r.known_shape) != 3:
        raise node.error(
            f"needs inputs and weights of 3 dimensions (got the shapes {x.known_shape} and {r.known_shape})"
        )
    (steps, batch, _), (directions, hidden, _) = x.known_shape, r.known_shape
    last = (directions, batch, hidden)
    note_misfits(
        node, {"W": (directions, x.known_shape[-1], 4 * hidden), "R": (directions, hidden, 4 * hidden), **states(last)}
    )
    return [node.result(shape, x.dtype) for shape in ((steps, directions, batch, hidden), last, last)]


def recurrent_with_memory(node: Node) -> Sequence[Value]:
    """Infer all steps and the last states."""
    check_ranks(node, X=3, W=3, R=3, QW=3, MW=3, V=2, M=3)
    node.args["hidden_size"] = node.value("R").known_shape[-1]
    return recurrent(node)


def joined_causal_conv(node: Node) -> Sequence[Value]:
    """Infer joined sequences ``[T, C]``, their last inputs, and captured states."""
    x, state = node.value("input"), node.value("initial_state")
    if len(x.known_shape) != 2:
        raise node.error(f"needs joined sequences [T, C] (got the shape {x.known_shape})")
    update = (state.known_shape[0], node.args.get("state_update_capacity", 0), x.known_shape[1])
    return [
        node.result(x.known_shape, x.dtype),
        node.result(state.known_shape, state.dtype),
        node.result(update, x.dtype),
    ]


RECURRENT = {
    "x": "X",
    "w0": "W",
    "w1": "R",
    "b0": "B",
    "lengths": "sequence_lens",
    "h0": "initial_h",
    "c0": "initial_c",
}


def _hidden_size(a: Arguments) -> Any:
    # The recurrent weight has four gates on its other axis.
    r = a["R"].known_shape
    return r[1] if node_of(a).op == "DynamicQuantizeLSTM" else r[-1]


DIRECTED = {
    "hidden": lambda a: a["initial_h"].known_shape[-1] if isinstance(a.get("initial_h"), Value) else _hidden_size(a),
    "bidirectional": lambda a: a.get("direction") == "bidirectional",
    **CELL,
}


def _as_one_sequence(a: Arguments) -> Value:
    x: Value = a["input"]
    return x.viewed((1, *x.known_shape[::-1]))


SEQUENCES_SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "LinearAttention",
        "query key value past_state decay beta",
        required=3,
        attributes="kv_num_heads q_num_heads",
        infer=gated_linear_attention,
        rows=[row("linear_attention", RECURRENCE, {"rule": lambda a: a.get("update_rule", "gated_delta")})],
    ),
    OperatorSpec(
        "CausalConvWithState",
        "input weight bias past_state",
        required=2,
        attributes="channels_last",
        infer=causal_conv,
        rows=[
            row(
                "causal_conv",
                {"x": "input", "w": "weight", "b": "bias", "state": "past_state"},
                {"activation": causal_activation},
                when=lambda a: causal_activation(a) in (None, "silu"),
            )
        ],
    ),
    OperatorSpec(
        "VarlenCausalConvWithState",
        "input weight cumulative_sequence_length bias initial_state capture_count",
        required=3,
        attributes="state_update_capacity",
        infer=joined_causal_conv,
        rows=[
            row(
                "causal_conv",
                {"x": _as_one_sequence, "w": "weight", "b": "bias", "state": "initial_state"},
                {"activation": causal_activation},
                when=lambda a: causal_activation(a) in (None, "silu"),
            )
        ],
    ),
    OperatorSpec(
        "GatedDeltaNet",
        "query key value cu_seqlens decay beta initial_state a_log dt_bias capture_count state_update_active",
        attributes="state_update_capacity",
        infer=delta_net,
        rows=[
            row(
                "gated_delta_net",
                {
                    "q": "query",
                    "k": "key",
                    "v": "value",
                    "decay": "decay",
                    "beta": "beta",
                    "state": "initial_state",
                    "decay_rate": lambda a: a.get("a_log") if a.get("gate_activation") == "qwen" else None,
                    "decay_bias": lambda a: a.get("dt_bias") if a.get("gate_activation") == "qwen" else None,
                },
                {
                    "heads": fact(DeltaHeads, lambda f: f.heads),
                    "features": fact(DeltaHeads, lambda f: f.features),
                    "rule": lambda a: a.get("update_rule", "gated_delta"),
                    "normalize": nonzero("qk_l2_norm"),
                    "squash": lambda a: (
                        True if a.get("beta_activation") == "sigmoid" and a.get("beta") is not None else None
                    ),
                },
            )
        ],
    ),
    OperatorSpec(
        "LinearAttentionGate",
        "a dt_bias decay_scale b",
        required=3,
        infer=like("a", "b"),
        rows=[row("decay_gate", {"x": "a", "b": "dt_bias", "rate": "decay_scale", "beta": "b"})],
    ),
    OperatorSpec(
        "DynamicQuantizeLSTM",
        "X W R B sequence_lens initial_h initial_c P W_scale W_zero_point R_scale R_zero_point",
        required=3,
        attributes="hidden_size clip",
        infer=quantized_recurrent,
        rows=[
            row(
                "dynamic_quantized_lstm",
                {
                    **RECURRENT,
                    "w2": "P",
                    "w0_scale": "W_scale",
                    "w0_zero_point": "W_zero_point",
                    "w1_scale": "R_scale",
                    "w1_zero_point": "R_zero_point",
                },
                {**DIRECTED, "peephole": lambda a: True if a.get("P") is not None else None},
                when=has_known_functions,
            )
        ],
    ),
    OperatorSpec(
        "AttnLSTM",
        "X W R B sequence_lens initial_h initial_c P QW MW V M memory_seq_lens AW",
        required=3,
        attributes="hidden_size clip",
        infer=recurrent_with_memory,
        rows=[
            row(
                "attention_lstm",
                {**RECURRENT, "w2": "P", "w3": "QW", "w4": "MW", "w5": "V", "memory": "M", "w6": "AW"},
                DIRECTED,
                when=has_known_functions,
            )
        ],
    ),
)


# Sparse attention, and the indexers that choose its keys.


def longformer(node: Node) -> Sequence[Value]:
    """Infer an output like the input."""
    x = node.value("input")
    if len(x.known_shape) != 3:
        raise node.error(f"needs an input of 3 dimensions (got the shape {x.known_shape})")
    positive(node, "num_heads")
    positive(node, "window")
    node.assumed.append("which tokens attend globally depends on data: assumed to be none")
    return [node.result(x.known_shape, x.dtype)]


@dataclass(frozen=True, slots=True)
class SelectedKeys(Operands):
    """Operands of attention, and the numbers of selected and local keys that each query attends to."""

    selected: Dim
    local: Dim


def selected(node: Node) -> Inferred:
    """Infer attention with selected keys, on a contiguous or paged cache."""
    query, is_paged = node.value("query"), node.get("key_cache") is not None
    count, shared = positive(node, "num_heads"), positive(node, "kv_num_heads")
    new = 2 if is_paged else 3
    for name, rank in (("query", new), ("key", new), ("value", new), ("past_key", 4), ("past_value", 4)):
        if node.get(name) is not None:
            check_ranks(node, **{name: rank})
    q, k, v = unpacked_operands(node, joined_shape(query) if is_paged else query.known_shape, count, shared)
    if is_paged:
        cache, value_cache = node.value("key_cache"), node.value("value_cache")
        total = node.value("block_table").known_shape[1] * cache.known_shape[1]
        shapes = [(cache.known_shape, cache.dtype), (value_cache.known_shape, value_cache.dtype)]
    else:
        past, number = node.get("past_key"), node.get("total_sequence_length")
        total = k.known_shape[2] + (past.known_shape[2] if past is not None else 0)
        if number is not None and number.data is not None:
            total = number.data.ravel()[0]
        length = total if past is None else maximum(total, past.known_shape[2])
        shapes = [((k.known_shape[0], shared, length, d), query.dtype) for d in (k.known_shape[3], v.known_shape[3])]
    local: Dim = 0
    if node.args.get("attention_mode") == "local_plus_selected":
        window = node.args.get("local_window_size", -1)
        local = window if window > 0 else total
    facts = SelectedKeys(q, k, v, total, node.value("selected_indices").known_shape[-1], local)
    node.assumed.append("the number of selected keys depends on data: assumed to be the capacity")
    width = count * v.known_shape[3]
    output = (query.known_shape[0], width) if is_paged else (*query.known_shape[:2], width)
    return Inferred([node.result(output, query.dtype), *(node.result(shape, dtype) for shape, dtype in shapes)], facts)


@dataclass(frozen=True, slots=True)
class IndexedKeys:
    """Work of a key indexer: its heads, the entries it scores, and the entries it compresses in this run."""

    heads: Dim
    entries: Dim
    made: Dim
    gated: bool


def indexer(node: Node) -> Inferred:
    """Infer the positions of the keys that each query may read, and the state: keys and uncompressed rest."""
    query, key, width = node.value("query"), node.get("key"), node.value("query_norm_weight").known_shape[0]
    ratio, mode = positive(node, "compress_ratio"), node.args.get("policy_mode")
    if mode not in ("qsa", "csa"):
        raise node.error(f"has the policy_mode {mode!r} (expected 'qsa' or 'csa')")
    gated, is_packed = mode == "csa", node.op == "PackedSparseAttentionIndexer"
    tables = node.value("cos_cache").known_shape, node.value("sin_cache").known_shape
    if tables[0] != tables[1] or len(tables[0]) not in (2, 3):
        raise node.error(f"needs cosines and sines of the same shape (got the shapes {tables[0]} and {tables[1]})")
    if is_packed:
        check_ranks(node, query=2, past_key_state=3, past_kv_buffer=3, key_norm_weight=1)
    else:
        check_ranks(node, query=3, past_key=3, key_norm_weight=1)
    count = query.known_shape[-1] // width - (1 if key is None else 0)
    room = positive(node, "index_topk") if gated else positive(node, "token_budget") + ratio - 1
    chosen = node.result((*query.known_shape[:-1], room), "int32")
    return (_packed_indexer if is_packed else _padded_indexer)(node, chosen, count, ratio, gated)


def _padded_indexer(node: Node, chosen: Value, count: Dim, ratio: int, gated: bool) -> Inferred:
    query, past, number = node.value("query"), node.value("past_key"), node.get("past_sequence_length")
    width = node.value("query_norm_weight").known_shape[0]
    batch, steps = query.known_shape[:2]
    before = past.known_shape[1]
    if number is not None and number.data is not None:
        before = number.data.ravel()[0]
    elif number is not None:
        node.assumed.append("the number of keys depends on data: assumed to be the capacity")
    if gated:
        compressed, kept = _compressed_and_waiting(node, steps, ratio)
        after = entries = before + compressed
    else:
        after, kept = before + steps, 0
        compressed = entries = after // ratio
    facts = IndexedKeys(count, entries, batch * compressed, gated)
    length = past.known_shape[1] if number is not None else after
    return Inferred(
        [
            chosen,
            node.result((batch, length, width), past.dtype),
            node.result((2, batch, kept, 2 * width), query.dtype),
        ],
        facts,
    )


def _compressed_and_waiting(node: Node, steps: Dim, ratio: int) -> tuple[Dim, Dim]:
    buffer = node.get("past_proj_buffer")
    waiting: Dim = buffer.known_shape[2] if buffer is not None else 0
    window = minimum(1, waiting // ratio)  # 1 if the buffer begins with a window that is already compressed
    rest = waiting - ratio * window
    compressed = floor_div(rest + steps, ratio)
    return compressed, rest + steps - compressed * ratio + ratio * minimum(1, window + compressed)


def _packed_indexer(node: Node, chosen: Value, count: Dim, ratio: int, gated: bool) -> Inferred:
    # The state has a fixed capacity.
    tokens, state = node.value("query").known_shape[0], node.value("past_key_state")
    facts = IndexedKeys(count, state.known_shape[1], tokens // ratio, gated)
    node.assumed.append("the sequence lengths depend on data: all keys of the capacity are assumed to be scored")
    lengths, buffer = node.value("past_state_lengths"), node.value("past_kv_buffer")
    gates = node.get("past_gate_buffer")
    update = (state.known_shape[0], node.args.get("state_update_capacity", 0), state.known_shape[2])
    return Inferred(
        [
            chosen,
            node.result((tokens,), "int32"),
            node.result(state.known_shape, state.dtype),
            node.result(buffer.known_shape, buffer.dtype),
            node.result((gates or buffer).known_shape, buffer.dtype),
            node.result(lengths.known_shape, "int32"),
            node.result(update, state.dtype),
        ],
        facts,
    )


LONGFORMER = {
    "x": "input",
    "w0": "weight",
    "b0": "bias",
    "w1": "global_weight",
    "b1": "global_bias",
    "mask": "mask",
    "flags": "global",
}

WINDOW = {"heads": "num_heads", "window": "window"}


def _rotary_dim(a: Arguments) -> Dim:
    # With ``csa`` the tables have one column per pair of features.
    width: Dim = a["cos_cache"].known_shape[-1]
    return 2 * width if a.get("policy_mode") == "csa" else width


INDEXED: Mapping[str, Any] = {
    "heads": fact(IndexedKeys, lambda f: f.heads),
    "entries": fact(IndexedKeys, lambda f: f.entries),
    "made": fact(IndexedKeys, lambda f: f.made),
    "gated": lambda a: node_of(a).facts(IndexedKeys).gated or None,
    "ratio": "compress_ratio",
    "rotary_dim": _rotary_dim,
}

INDEXER = {
    "q": "query",
    "k": "key",
    "w0": "query_norm_weight",
    "w1": "key_norm_weight",
    "cos": "cos_cache",
    "sin": "sin_cache",
    "gate": "gate",
    "bias": "position_bias",
    "factor": "head_weights",
    "position": "position_ids",
}


SPARSE_ATTENTION_SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "LongformerAttention",
        "input weight bias mask global_weight global_bias global",
        required=7,
        attributes="num_heads window",
        infer=longformer,
        rows=[row("longformer_attention", LONGFORMER, WINDOW)],
    ),
    OperatorSpec(
        "QOrderedLongformerAttention",
        "input scale_input weight scale_weight bias scale_bias scale_qkv_gemm mask global_weight "
        "scale_global_weight global_bias scale_global_gemm global scale_output",
        required=14,
        attributes="num_heads window",
        infer=longformer,
        rows=[
            row(
                "quantized_longformer_attention",
                {**LONGFORMER, "w0_scale": "scale_weight", "w1_scale": "scale_global_weight"},
                WINDOW,
            )
        ],
    ),
    *(
        OperatorSpec(
            op,
            inputs,
            attributes="num_heads kv_num_heads do_rotary local_window_size",
            infer=selected,
            rows=[
                row(
                    "selected_attention",
                    {
                        **OPERANDS,
                        "mask": lambda a: None,
                        "more_k": "auxiliary_key",
                        "more_v": "auxiliary_value",  # omitted if keys and values are shared
                        "indices": "selected_indices",
                        "counts": "selected_counts",
                    },
                    {
                        **ATTRIBUTES,
                        "keys": lambda a: None,
                        "selected": fact(SelectedKeys, lambda f: f.selected),
                        "local": fact(SelectedKeys, lambda f: f.local),
                    },
                )
            ],
        )
        for op, inputs in (
            (
                "DynamicSparseAttention",
                "query key value past_key past_value auxiliary_key auxiliary_value selected_indices "
                "selected_counts seqlens_k total_sequence_length cos_cache sin_cache position_ids "
                "q_norm_weight k_norm_weight head_sink",
            ),
            (
                "SparsePagedAttention",
                "query key value key_cache value_cache cumulative_sequence_length past_seqlens block_table "
                "slot_mapping selected_indices selected_counts auxiliary_key auxiliary_value "
                "auxiliary_lengths cos_cache sin_cache head_sink q_norm_weight k_norm_weight k_scale "
                "v_scale attention_metadata",
            ),
        )
    ),
    OperatorSpec(
        "SparseAttentionIndexer",
        "query key query_norm_weight key_norm_weight cos_cache sin_cache mask past_key gate "
        "position_bias head_weights position_ids past_sequence_length past_proj_buffer",
        attributes="token_budget compress_ratio index_topk",
        infer=indexer,
        rows=[
            row(
                "attention_indexer",
                {**INDEXER, "mask": "mask", "past": "past_key", "buffer": "past_proj_buffer"},
                INDEXED,
            )
        ],
    ),
    OperatorSpec(
        "PackedSparseAttentionIndexer",
        "query key query_norm_weight key_norm_weight cos_cache sin_cache "
        "cumulative_sequence_lengths past_sequence_lengths gate position_bias head_weights "
        "position_ids past_key_state past_kv_buffer past_gate_buffer past_state_lengths "
        "state_update_capture_count state_update_active",
        attributes="token_budget compress_ratio index_topk state_update_capacity",
        infer=indexer,
        rows=[
            row(
                "attention_indexer",
                {**INDEXER, "past": "past_key_state", "buffer": "past_kv_buffer", "gates": "past_gate_buffer"},
                INDEXED,
            )
        ],
    ),
)


SPECS: tuple[OperatorSpec, ...] = (*SEQUENCES_SPECS, *SPARSE_ATTENTION_SPECS)
