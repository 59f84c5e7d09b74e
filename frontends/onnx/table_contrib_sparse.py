"""Rows of attention with some of the keys, of gated delta networks, and of what gates and mixes streams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costcore.dims import Dim
from costcore.translate import Arguments, Row

from .contrib import with_own_inputs
from .rows.arguments import node, nonzero
from .rows.recurrent import causal_activation
from .shapes.contrib_attention import DELTA
from .shapes.contrib_sparse import FACTS, streams
from .table_contrib_attention import OPERAND, SETTINGS
from .values.value import Value


def _fact(name: str) -> Any:
    """What the rule of shapes found out."""
    return lambda a: getattr(node(a).cache[FACTS], name)


def _where(fact: str, name: str) -> Any:
    """An operand that is read only where the rule of shapes found so."""
    return lambda a: a.get(name) if getattr(node(a).cache[FACTS], fact) else None


def _made(a: Arguments) -> Any:
    """The weight of keys and values, where any are made."""
    made = node(a).cache[FACTS].made
    return None if isinstance(made, int) and made == 0 else a["kv_weight"]


def _masked(a: Arguments) -> Any:
    """The mask of padding, unless a flag says that there is none."""
    flag = a.get("has_key_padding_mask")
    is_off = isinstance(flag, Value) and flag.data is not None and not flag.data.ravel()[0]
    return None if is_off else a.get("key_padding_mask")


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


def _rotary(a: Arguments) -> Dim:
    """How many features an indexer turns: with channels of pairs the tables hold half as many."""
    width: Dim = a["cos_cache"].known[-1]
    return 2 * width if a.get("policy_mode") == "csa" else width


INDEXED: Mapping[str, Any] = {
    "heads": _fact("heads"),
    "entries": _fact("entries"),
    "made": _fact("made"),
    "gated": lambda a: node(a).cache[FACTS].gated or None,
    "ratio": "compress_ratio",
    "rotary_dim": _rotary,
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


def _held(a: Arguments) -> Any:
    """Keys and values of their own that are selected from; shared ones are read once."""
    return a.get("auxiliary_value")


def _count(a: Arguments) -> Any:
    return streams(node(a))[1]


def _grouped(name: str) -> Any:
    """Streams as ``[..., C, H]``."""
    return lambda a: a[name].viewed(streams(node(a))[0])


def _steps(a: Arguments) -> Value:
    """Joined sequences ``[T, C]`` as ``[1, C, T]``."""
    x: Value = a["input"]
    return x.viewed((1, *x.known[::-1]))


def _delta(name: str) -> Any:
    return lambda a: getattr(node(a).cache[DELTA], name)


def _prompt(a: Arguments) -> Any:
    """The tokens that a search goes on from; with an encoder those that are forced, if any."""
    return a.get("input_ids") if a.get("encoder") is None else a.get("decoder_input_ids")


SPARSE: tuple[Row, ...] = (
    *(
        Row(
            f"com.microsoft::{op}",
            "token_search",
            {"x": _prompt, "logits": _fact("logits"), "allowed": "vocab_mask", "allowed_first": "prefix_vocab_mask"},
            {"search": _fact("search"), "steps": _fact("steps"), "beams": _fact("beams")},
        )
        for op in ("BeamSearch", "WhisperBeamSearch", "GreedySearch", "Sampling")
    ),
    Row(
        "com.microsoft::DecoderAttention",
        "cached_attention",
        {
            "q": "query",
            "k": _where("from_key", "key"),
            "w0": "q_weight",
            "w1": _made,
            "b": "bias",
            "mask": _masked,
            "past_k": _where("from_cache", "key_cache"),
            "past_v": _where("from_cache", "value_cache"),
        },
        {"heads": "num_heads", "keys": _fact("keys"), "made": _fact("made")},
    ),
    Row("com.microsoft::LongformerAttention", "longformer_attention", LONGFORMER, WINDOW),
    Row(
        "com.microsoft::QOrderedLongformerAttention",
        "quantized_longformer_attention",
        {**LONGFORMER, "w0_scale": "scale_weight", "w1_scale": "scale_global_weight"},
        WINDOW,
    ),
    *(
        Row(
            f"com.microsoft::{op}",
            "selected_attention",
            {
                **OPERAND,
                "mask": lambda a: None,
                "more_k": "auxiliary_key",
                "more_v": _held,
                "indices": "selected_indices",
                "counts": "selected_counts",
            },
            {**SETTINGS, "keys": lambda a: None, "selected": _fact("selected"), "local": _fact("local")},
        )
        for op in ("DynamicSparseAttention", "SparsePagedAttention")
    ),
    Row(
        "com.microsoft::SparseAttentionIndexer",
        "attention_indexer",
        {**INDEXER, "mask": "mask", "past": "past_key", "buffer": "past_proj_buffer"},
        INDEXED,
    ),
    Row(
        "com.microsoft::PackedSparseAttentionIndexer",
        "attention_indexer",
        {**INDEXER, "past": "past_key_state", "buffer": "past_kv_buffer", "gates": "past_gate_buffer"},
        INDEXED,
    ),
    Row(
        "com.microsoft::GatedDeltaNet",
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
            "heads": _delta("heads"),
            "features": _delta("features"),
            "rule": lambda a: a.get("update_rule", "gated_delta"),
            "normalize": nonzero("qk_l2_norm"),
            "squash": lambda a: True if a.get("beta_activation") == "sigmoid" and a.get("beta") is not None else None,
        },
    ),
    Row(
        "com.microsoft::LinearAttentionGate",
        "decay_gate",
        {"x": "a", "b": "dt_bias", "rate": "decay_scale", "beta": "b"},
    ),
    Row(
        "com.microsoft::VarlenCausalConvWithState",
        "causal_conv",
        {"x": _steps, "w": "weight", "b": "bias", "state": "initial_state"},
        {"activation": causal_activation},
        when=lambda a: causal_activation(a) in (None, "silu"),
    ),
    Row(
        "com.microsoft::EngramGate",
        "similarity_gate",
        {
            "q": "query",
            "k": "key",
            "v": "value",
            "w0": "key_norm_scale",
            "w1": "query_norm_scale",
            "w2": lambda a: a.get("conv_norm_scale") if len(node(a).outputs) > 1 else None,
        },
    ),
    Row(
        "com.microsoft::BranchwiseRMSNorm",
        "rms_norm",
        {"x": _grouped("X"), "w": "scale"},
        {"axis": lambda a: (len(streams(node(a))[0]) - 1,), "eps": "epsilon"},
    ),
    Row(
        "com.microsoft::HyperConnectionPreMix",
        "reduce_streams",
        {"x": _grouped("streams"), "gate": "pre_mix"},
        {"streams": _count, "scale": lambda a: None if a.get("reduction_scale", 1.0) == 1 else a["reduction_scale"]},
    ),
    Row(
        "com.microsoft::HyperConnectionPostMix",
        "mix_streams",
        {"x": _grouped("streams"), "z": "block_output", "gate": "post_mix", "m": "stream_mix"},
        {"streams": _count},
    ),
    Row("com.microsoft::GatedAdd", "gated_add", {"x0": "X", "x1": "Y", "gate": "gate"}),
    Row("com.microsoft::RelativePositionBias", "relative_position_bias", {"w": "bias_table"}),
    Row(
        "com.microsoft::GatedRelativePositionBias",
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
    ),
    Row("com.microsoft::RemovePadding", "unpad", {"x": "input", "lengths": "sequence_token_count"}),
    Row("com.microsoft::RestorePadding", "repad", {"x": "input", "indices": "token_offset"}),
)

ROWS: tuple[Row, ...] = tuple(map(with_own_inputs, SPARSE))
"""The rows of this family."""
