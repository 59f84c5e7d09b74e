"""Attention operators of ONNX Runtime: on separate or packed heads, on caches, and with projections.

The first sections have removal and restoration of padding, and position biases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from costcore.numbers import Dim, as_dim, maximum, minimum
from costcore.translate import Arguments

from ..node import Inferred, Node, OperatorSpec, row
from ..operators import check_ranks, common_shape, fact, flag, like, node_of, nonzero, positive
from ..operators.sequences import rotary_input
from ..schema import Constraints
from ..values import Shape, Undetermined, Value

# Removal and restoration of padding.


def unpadded(node: Node) -> Sequence[Value]:
    """Infer the tokens without padding, their positions, the starts of the sequences, and the longest length."""
    x = node.value("input")
    batch, steps, width = x.known_shape
    counts = ((batch, steps), (batch + 1,), (1,))
    return [node.result((None, width), x.dtype), *(node.result(shape, "int32") for shape in counts)]


def repadded(node: Node) -> Sequence[Value]:
    """Infer padded sequences from joined ones."""
    x, offsets = node.value("input"), node.value("token_offset")
    return [node.result((*offsets.known_shape, x.known_shape[-1]), x.dtype)]


PADDING_SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "RemovePadding",
        "input sequence_token_count",
        required=2,
        infer=unpadded,
        rows=[row("unpad", {"x": "input", "lengths": "sequence_token_count"})],
    ),
    OperatorSpec(
        "RestorePadding",
        "input token_offset",
        required=2,
        infer=repadded,
        rows=[row("repad", {"x": "input", "indices": "token_offset"})],
    ),
)


# Position embeddings and position biases.


def position_bias(node: Node) -> Sequence[Value]:
    """Infer a bias for each head and pair of positions; inputs give the numbers of positions."""
    table = node.value("bias_table")
    inputs = [node.value("query_length"), node.value("key_length")]
    lengths = [value.data.ravel()[0] if value.data is not None else None for value in inputs]
    return [node.result((1, table.known_shape[1], *lengths), table.dtype)]


def gated_position_bias(node: Node) -> Sequence[Value]:
    """Infer a bias for each sample, head and pair of positions."""
    check_ranks(node, query_bias=1, rel_pos=4, weight=2)
    query, offsets = node.value("query_layer"), node.get("token_offset")
    batch, steps = (offsets or query).known_shape[:2]
    return [node.result((batch, positive(node, "num_heads"), steps, steps), query.dtype)]


POSITION_SPECS: tuple[OperatorSpec, ...] = (
    *(
        OperatorSpec(
            op,
            "input position_ids cos_cache sin_cache",
            required=4,
            attributes="num_heads rotary_embedding_dim interleaved",
            constraints=Constraints(
                minimums={"num_heads": 0, "rotary_embedding_dim": 0}, ranks={"input": (3, 4), "cos_cache": (2, 2)}
            ),
            infer=like("input"),
            rows=[
                row(
                    "rotary_embedding",
                    {"x": rotary_input, "cos": "cos_cache", "sin": "sin_cache", "position": "position_ids"},
                    {"rotary_dim": nonzero("rotary_embedding_dim"), "interleaved": flag("interleaved")},
                )
            ],
        )
        for op in ("RotaryEmbedding", "MRotaryEmbedding")
    ),
    OperatorSpec(
        "GemmaRotaryEmbedding",
        "emb q q_rot k k_rot",
        required=5,
        infer=like("q", "k"),
        rows=[row("rotated_pair", {"x0": "q", "x1": "q_rot", "x2": "k", "x3": "k_rot", "angle": "emb"})],
    ),
    OperatorSpec(
        "RelativePositionBias",
        "bias_table query_length key_length",
        required=3,
        infer=position_bias,
        rows=[row("relative_position_bias", {"w": "bias_table"})],
    ),
    OperatorSpec(
        "GatedRelativePositionBias",
        "query_layer query_bias rel_pos weight bias eco_a token_offset",
        required=6,
        attributes="num_heads",
        infer=gated_position_bias,
        rows=[
            row(
                "gated_position_bias",
                {
                    "q": "query_layer",
                    "b0": "query_bias",
                    "bias": "rel_pos",
                    "w": "weight",
                    "b1": "bias",
                    "factor": "eco_a",
                    "indices": "token_offset",
                },
            )
        ],
    ),
)


# Attention of decoders on cached keys and values.


@dataclass(frozen=True, slots=True)
class Operands:
    """Queries, keys and values as ``[N, H, T, D]``, and the number of keys including the past."""

    q: Value
    k: Value
    v: Value
    keys: Dim


def _by_head(value: Value, count: int, shape: Shape | None = None) -> Value:
    # Packed heads ``[N, T, H * D]`` become separate heads ``[N, H, T, D]``.
    shape = value.known_shape if shape is None else shape
    if len(shape) == 4:
        return value.viewed(shape)
    if len(shape) != 3:
        raise Undetermined
    batch, steps, width = shape
    return value.viewed((batch, count, steps, width // count))


def joined_shape(value: Value) -> Shape:
    """Return the shape of joined sequences ``[T, H * D]`` as one sequence ``[1, T, H * D]``."""
    return (1, *value.known_shape) if len(value.known_shape) == 2 else value.known_shape


def multi_head(node: Node) -> Inferred:
    """Infer attention; keys and values are separate, packed with the queries, or packed with each other."""
    query, key, value = node.value("query"), node.get("key"), node.get("value")
    count, past = positive(node, "num_heads"), node.get("past_key")
    if len(query.known_shape) == 5:  # [N, T, H, 3, D]
        batch, steps, _, _, width = query.known_shape
        q = k = v = query.viewed((batch, count, steps, width))
    elif key is not None and len(key.known_shape) == 5:  # [N, T, H, 2, D]
        batch, steps, _, _, width = key.known_shape
        q, k = _by_head(query, count), key.viewed((batch, count, steps, width))
        v = k
    elif key is None or value is None:
        raise node.error("needs the inputs 'key' and 'value', unless the query or the key is packed (5 dimensions)")
    else:
        q, k, v = _by_head(query, count), _by_head(key, count), _by_head(value, count)
    steps = k.known_shape[2]
    is_cross = key is not None and len(key.known_shape) == 4  # a complete cache, which includes the past
    total = steps if past is None or is_cross else steps + past.known_shape[2]
    length = total
    if past is not None and not is_cross and node.args.get("past_present_share_buffer"):
        length, used = past.known_shape[2], node.get("past_sequence_length")
        total = length if used is None or used.data is None else used.data.ravel()[0] + steps
        if total is length:
            node.assumed.append("KV length is dynamic; assuming the full cache")
    facts = Operands(q, k, v, total)
    batch, _, steps_q, _ = q.known_shape
    present = (batch, count, length, k.known_shape[3])
    return Inferred(
        [
            node.result((batch, steps_q, count * v.known_shape[3]), query.dtype),
            node.result(present, query.dtype),
            node.result((*present[:3], v.known_shape[3]), query.dtype),
            node.result((batch, count, steps_q, total), query.dtype),
        ],
        facts,
    )


def unpacked_operands(node: Node, rows: Shape, count: int, shared: int) -> tuple[Value, Value, Value]:
    """Return queries, keys and values; all are packed in the query if there is no key."""
    query, key, value = node.value("query"), node.get("key"), node.get("value")
    if key is not None and value is not None:
        k = _by_head(key, shared, joined_shape(key))
        return _by_head(query, count, rows), k, _by_head(value, shared, joined_shape(value))
    width = rows[-1] // (count + 2 * shared)
    batch, steps = rows[:2]
    k = query.viewed((batch, shared, steps, width))
    return query.viewed((batch, count, steps, width)), k, k


def grouped(node: Node) -> Inferred:
    """Infer attention with fewer key heads; an input gives the number of keys in use."""
    query, past = node.value("query"), node.get("past_key")
    count, shared = positive(node, "num_heads"), positive(node, "kv_num_heads")
    q, k, v = unpacked_operands(node, query.known_shape, count, shared)
    steps, number = k.known_shape[2], node.get("total_sequence_length")
    total = number.data.ravel()[0] if number is not None and number.data is not None else None
    if total is None:
        total = steps if past is None else steps + past.known_shape[2]
        if past is not None:
            node.assumed.append("the number of keys depends on data: assumed to be the whole cache and the new keys")
    facts = Operands(q, k, v, total)
    length = total if past is None else maximum(total, past.known_shape[2])
    dtype = past.dtype if past is not None else query.dtype
    width = past.known_shape[3] if past is not None else k.known_shape[3]
    batch, _, steps_q, features = q.known_shape
    present = (batch, shared, length, width)
    return Inferred(
        [
            node.result((batch, steps_q, count * features), query.dtype),
            node.result(present, dtype),
            node.result(present, dtype),
            node.result((batch, count, steps_q, total), query.dtype),
        ],
        facts,
    )


def sparse(node: Node) -> Inferred:
    """Infer block-sparse attention as :func:`grouped`; all keys of the cache are counted."""
    found = grouped(node)
    node.assumed.append("which blocks of keys are used depends on data: assumed to be all")
    return Inferred(found.outputs[:3], found.facts)


def paged(node: Node) -> Inferred:
    """Infer attention of joined sequences on a paged cache, each with as many keys as the page table allows."""
    query, cache, table = node.value("query"), node.value("key_cache"), node.value("block_table")
    count, shared = positive(node, "num_heads"), positive(node, "kv_num_heads")
    q, k, v = unpacked_operands(node, joined_shape(query), count, shared)
    keys = table.known_shape[1] * cache.known_shape[1]
    facts = Operands(q, k, v, keys)
    node.assumed.append("the sequence lengths depend on data: assumed to be the capacity of the page table")
    features = q.known_shape[3]
    value = node.value("value_cache")
    return Inferred(
        [
            node.result((query.known_shape[0], count * features), query.dtype),
            node.result(cache.known_shape, cache.dtype),
            node.result(value.known_shape, value.dtype),
        ],
        facts,
    )


def packed_multi_head(node: Node) -> Inferred:
    """Infer attention of joined sequences, each of the maximum length."""
    query, key, offsets = node.value("query"), node.get("key"), node.value("token_offset")
    count = positive(node, "num_heads")
    if key is None:  # [T, H, 3, D]
        tokens, _, _, width = query.known_shape
        q = k = v = query.viewed((1, count, tokens, width))
    else:
        q, k = (_by_head(value, count, joined_shape(value)) for value in (query, key))
        v = _by_head(node.value("value"), count, joined_shape(node.value("value")))
    facts = Operands(q, k, v, offsets.known_shape[1])
    node.assumed.append("the sequence lengths depend on data: all are assumed to have the maximum length")
    return Inferred([node.result((q.known_shape[2], count * v.known_shape[3]), query.dtype)], facts)


@dataclass(frozen=True, slots=True)
class CachedKeys:
    """Keys of a decoder layer: their number, rows projected in this run, and whether key and cache are read."""

    keys: Dim
    made: Dim
    from_key: bool
    from_cache: bool


def flag_input(node: Node, name: str, otherwise: bool) -> bool:
    """Return a flag that is an input; the default, as an assumption, if it depends on data."""
    value = node.get(name)
    if value is None or value.data is None:
        if value is not None:
            node.assumed.append(f"{name} depends on data: assumed to be {str(otherwise).lower()}")
        return otherwise
    return bool(value.data.ravel()[0])


def decoder_layer(node: Node) -> Inferred:
    """Infer the output like the query ``[T, N, E]``, and the cache with the new keys and values."""
    query, key, cache = node.value("query"), node.value("key"), node.get("key_cache")
    count = positive(node, "num_heads")
    if len(query.known_shape) != 3 or len(key.known_shape) != 3:
        raise node.error(
            f"needs a query and a key of 3 dimensions (got the shapes {query.known_shape} and {key.known_shape})"
        )
    steps, batch, width = query.known_shape
    is_cross = flag_input(node, "static_kv", True)
    has_past = cache is not None and flag_input(node, "has_layer_state", True) and flag_input(node, "use_past", True)
    past = cache.known_shape[2] if cache is not None and has_past else 0
    new = key.known_shape[0] if is_cross else steps
    if is_cross and has_past:
        new = 0
    facts = CachedKeys(past + new, as_dim(batch * new), is_cross and not has_past, has_past)
    present = (batch, count, past + new, width // count)
    return Inferred(
        [node.result(query.known_shape, query.dtype), *(node.result(present, query.dtype) for _ in range(2))], facts
    )


def mask_of(*names: str) -> Any:
    """Return a source for the first mask among these inputs; inputs of one dimension are lengths, not masks."""

    def read(a: Arguments) -> Any:
        return next((a[n] for n in names if isinstance(a.get(n), Value) and len(a[n].known_shape) > 1), None)

    return read


def _shares_buffer(a: Arguments) -> Any:
    # Past and present differ only in length. If symbolic sizes decide whether the cache keeps its length, the result is
    # an expression that is 1 if it does, and 0 if it grows.
    past = a.get("past_key") or a.get("key_cache")
    present = node_of(a).outputs[1] if len(node_of(a).outputs) > 1 else None
    if not isinstance(past, Value) or present is None:
        return None
    before, after = past.known_shape, present.known_shape
    if common_shape((*before[:2], *before[3:]), (*after[:2], *after[3:])) is None:
        return None
    growth = as_dim(after[2] - before[2])
    stays = growth == 0 if isinstance(growth, int) else as_dim(1 - minimum(1, growth))
    return None if stays == 0 else True if stays == 1 else stays


def _rotary_dim_of_tables(a: Arguments) -> Any:
    cos = a.get("cos_cache")
    return 2 * cos.known_shape[-1] if isinstance(cos, Value) and a.get("do_rotary", 1) else None


def _window(a: Arguments) -> Any:
    size = a.get("local_window_size", -1)
    return size if size > 0 else None


def _rotary_table(name: str) -> Any:
    return lambda a: a.get(name) if a.get("do_rotary", 1) else None


def nonempty_past(*names: str) -> Any:
    """Return a source for the first past state among these inputs; None if it is empty, as before the first step."""

    def read(a: Arguments) -> Any:
        value = next((a[name] for name in names if isinstance(a.get(name), Value)), None)
        return None if value is None or 0 in value.known_shape else value

    return read


OPERANDS = {
    "q": fact(Operands, lambda f: f.q),
    "k": fact(Operands, lambda f: f.k),
    "v": fact(Operands, lambda f: f.v),
    "past_k": nonempty_past("past_key", "key_cache"),
    "past_v": nonempty_past("past_value", "value_cache"),
    "mask": mask_of("attention_bias", "key_padding_mask", "mask_index"),
    "b": "bias",
    "cos": _rotary_table("cos_cache"),
    "sin": _rotary_table("sin_cache"),
    "w0": "q_norm_weight",
    "w1": "k_norm_weight",
    "k_scale": "k_scale",
    "v_scale": "v_scale",
    "sink": "head_sink",
}

ATTRIBUTES = {
    "keys": fact(Operands, lambda f: f.keys),
    "shared": _shares_buffer,
    "rotary_dim": _rotary_dim_of_tables,
    "causal": lambda a: bool(a.get("unidirectional", a.get("causal", 0))) or None,
    "softcap": nonzero("softcap"),
    "window": _window,
}


def _page_capacity(a: Arguments) -> Any:
    return a["block_table"].known_shape[0] * node_of(a).facts(Operands).keys


def _from_key(a: Arguments) -> Any:
    return a.get("key") if node_of(a).facts(CachedKeys).from_key else None


def _from_cache(name: str) -> Any:
    return lambda a: a.get(name) if node_of(a).facts(CachedKeys).from_cache else None


def _kv_weight(a: Arguments) -> Any:
    return None if node_of(a).facts(CachedKeys).made == 0 else a["kv_weight"]


def _padding_mask(a: Arguments) -> Any:
    flag = a.get("has_key_padding_mask")
    is_off = isinstance(flag, Value) and flag.data is not None and not flag.data.ravel()[0]
    return None if is_off else a.get("key_padding_mask")


DECODER = row("decoder_attention", OPERANDS, ATTRIBUTES)

HEADS = Constraints(
    required=("num_heads",), minimums={"num_heads": 1}, ranks={"query": (3, 5), "key": (3, 5), "value": (3, 5)}
)

KV_CACHE_SPECS: tuple[OperatorSpec, ...] = (
    *(
        OperatorSpec(name, f"query key value {inputs}", 1, attributes, constraints, infer, [DECODER])
        for name, inputs, attributes, constraints, infer in (
            (
                "MultiHeadAttention",
                "bias key_padding_mask attention_bias past_key past_value past_sequence_length cache_indirection",
                *("num_heads unidirectional", HEADS, multi_head),
            ),
            (
                "DecoderMaskedMultiHeadAttention",
                "mask_index attention_bias past_key past_value past_sequence_length beam_width cache_indirection bias",
                *("num_heads past_present_share_buffer", HEADS, multi_head),
            ),
            (
                "GroupQueryAttention",
                "past_key past_value seqlens_k total_sequence_length cos_cache sin_cache position_ids attention_bias "
                "head_sink k_scale v_scale q_norm_weight k_norm_weight",
                *("num_heads kv_num_heads do_rotary causal local_window_size", None, grouped),
            ),
            (
                "SparseAttention",
                "past_key past_value block_row_indices block_col_indices total_sequence_length "
                "key_total_sequence_lengths cos_cache sin_cache",
                *("num_heads kv_num_heads do_rotary", None, sparse),
            ),
            (
                "PackedMultiHeadAttention",
                "bias token_offset cumulative_sequence_length attention_bias",
                *("num_heads", None, packed_multi_head),
            ),
        )
    ),
    OperatorSpec(
        "PagedAttention",
        "query key value key_cache value_cache cumulative_sequence_length past_seqlens block_table "
        "cos_cache sin_cache slot_mapping head_sink q_norm_weight k_norm_weight k_scale v_scale "
        "attention_metadata",
        attributes="num_heads kv_num_heads v_head_size do_rotary local_window_size",
        infer=paged,
        rows=[row("paged_attention", OPERANDS, {**ATTRIBUTES, "positions": _page_capacity})],
    ),
    OperatorSpec(
        "DecoderAttention",
        "query key q_weight kv_weight bias key_padding_mask key_cache value_cache static_kv "
        "use_past has_layer_state has_key_padding_mask",
        required=5,
        attributes="num_heads",
        infer=decoder_layer,
        rows=[
            row(
                "cached_attention",
                {
                    "q": "query",
                    "k": _from_key,
                    "w0": "q_weight",
                    "w1": _kv_weight,
                    "b": "bias",
                    "mask": _padding_mask,
                    "past_k": _from_cache("key_cache"),
                    "past_v": _from_cache("value_cache"),
                },
                {
                    "heads": "num_heads",
                    "keys": fact(CachedKeys, lambda f: f.keys),
                    "made": fact(CachedKeys, lambda f: f.made),
                },
            )
        ],
    ),
)


# Attention with its projections in one operator.


def _feature_sizes(node: Node, width: Dim) -> tuple[Dim, ...]:
    given = node.args.get("qkv_hidden_sizes")
    return tuple(given) if given else (width // 3,) * 3


@dataclass(frozen=True, slots=True)
class Projections:
    """Feature sizes of queries, keys and values."""

    features: tuple[Dim, ...]


def projected(node: Node) -> Inferred:
    """Infer attention with its projections (weight ``[E, Fq + Fk + Fv]``), and the present keys and values."""
    x = node.value("input")
    if node.op == "QOrderedAttention":
        features: tuple[Dim, ...] = tuple(node.value(f"{name}_weight").known_shape[-1] for name in "QKV")
    else:
        features = _feature_sizes(node, node.value("weights", "weight").known_shape[-1])
    facts = Projections(features)
    count, past = positive(node, "num_heads"), node.get("past")
    dtype = node.value("input_scale").dtype if node.op == "QAttention" else x.dtype
    if len(x.known_shape) == 2:
        node.assumed.append("the sequence lengths depend on data: all are assumed to have the maximum length")
        return Inferred([node.result((x.known_shape[0], features[2]), dtype)], facts)
    batch, steps, _ = x.known_shape
    total = steps if past is None else steps + past.known_shape[3]
    if past is not None and node.args.get("past_present_share_buffer"):
        total = past.known_shape[3]
    present = (2, batch, count, total, features[1] // count)
    return Inferred([node.result((batch, steps, features[2]), dtype), node.result(present, dtype)], facts)


def _as_batch(a: Arguments) -> Value:
    # Joined sequences ``[T, E]`` are one sequence.
    x: Value = a["input"]
    return x.viewed((1, *x.known_shape)) if len(x.known_shape) == 2 else x


def _rotary_dim_of_attributes(a: Arguments) -> Any:
    if not a.get("do_rotary"):
        return None
    return a.get("rotary_embedding_dim") or node_of(a).facts(Projections).features[0] // a["num_heads"]


PROJECTED: Mapping[str, Any] = {
    "heads": "num_heads",
    "features": fact(Projections, lambda f: f.features),
    "causal": lambda a: bool(a.get("unidirectional")) or None,
    "rotary_dim": _rotary_dim_of_attributes,
    "keys": lambda a: a["token_offset"].known_shape[1] if isinstance(a.get("token_offset"), Value) else None,
}

PROJECTED_SPECS: tuple[OperatorSpec, ...] = (
    *(
        OperatorSpec(
            op,
            inputs,
            required=required,
            attributes=attributes,
            infer=projected,
            rows=[
                row(
                    "multi_head_attention",
                    {
                        "q": _as_batch,
                        "w0": "weights",
                        "b0": "bias",
                        "past": nonempty_past("past"),
                        "mask": mask_of("attention_bias", "mask_index"),
                    },
                    PROJECTED,
                )
            ],
        )
        for op, inputs, required, attributes in (
            (
                "Attention",
                "input weights bias mask_index past attention_bias past_sequence_length",
                2,
                "num_heads rotary_embedding_dim do_rotary unidirectional past_present_share_buffer",
            ),
            (
                "DecoderMaskedSelfAttention",
                "input weights bias mask_index past attention_bias past_sequence_length beam_width cache_indirection",
                3,
                "num_heads do_rotary past_present_share_buffer",
            ),
            (
                "PackedAttention",
                "input weights bias token_offset cumulative_sequence_length attention_bias",
                5,
                "num_heads",
            ),
        )
    ),
    OperatorSpec(
        "QAttention",
        "input weight bias input_scale weight_scale mask_index input_zero_point weight_zero_point past",
        required=5,
        attributes="num_heads do_rotary unidirectional past_present_share_buffer",
        infer=projected,
        rows=[
            row(
                "quantized_multi_head_attention",
                {
                    "q": _as_batch,
                    "w0": "weight",
                    "b0": "bias",
                    "past": nonempty_past("past"),
                    "mask": mask_of("mask_index"),
                    "q_scale": "input_scale",
                    "w0_scale": "weight_scale",
                    "q_zero_point": "input_zero_point",
                    "w0_zero_point": "weight_zero_point",
                },
                PROJECTED,
            )
        ],
    ),
    OperatorSpec(
        "QOrderedAttention",
        "input scale_input scale_Q_gemm scale_K_gemm scale_V_gemm Q_weight K_weight V_weight "
        "scale_Q_weight scale_K_weight scale_V_weight Q_bias K_bias V_bias scale_QKT_gemm "
        "scale_QKT_softmax scale_values_gemm mask_index past attention_bias",
        required=14,
        attributes="num_heads unidirectional",
        infer=projected,
        rows=[
            row(
                "quantized_multi_head_attention",
                {
                    "q": "input",
                    "w0": "Q_weight",
                    "w2": "K_weight",
                    "w3": "V_weight",
                    "b0": "Q_bias",
                    "b2": "K_bias",
                    "b3": "V_bias",
                    "mask": mask_of("attention_bias", "mask_index"),
                    "w0_scale": "scale_Q_weight",
                    "w2_scale": "scale_K_weight",
                    "w3_scale": "scale_V_weight",
                },
                PROJECTED,
            )
        ],
    ),
)


SPECS: tuple[OperatorSpec, ...] = (*PADDING_SPECS, *POSITION_SPECS, *KV_CACHE_SPECS, *PROJECTED_SPECS)
