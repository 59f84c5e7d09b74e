"""Attention with its projections in one operator, as ONNX Runtime adds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from costcore.numbers.dims import Dim
from costcore.translate import Arguments

from ...graph.node import Inferred, Node
from ...rows.arguments import fact, node_of
from ...shapes.rules import positive
from ...values.value import Value
from ..spec import OperatorSpec, row
from .kv_cache import mask_of, nonempty_past


def _features(node: Node, width: Dim) -> tuple[Dim, ...]:
    """Return the feature sizes of the three projections."""
    given = node.args.get("qkv_hidden_sizes")
    return tuple(given) if given else (width // 3,) * 3


@dataclass(frozen=True, slots=True)
class Projections:
    """Feature sizes of queries, keys and values."""

    features: tuple[Dim, ...]


def projected(node: Node) -> Inferred:
    """Infer attention with its projections, whose weight is ``[E, Fq + Fk + Fv]``, and the present keys and values."""
    x = node.value("input")
    if node.op == "QOrderedAttention":
        features: tuple[Dim, ...] = tuple(node.value(f"{name}_weight").known_shape[-1] for name in "QKV")
    else:
        features = _features(node, node.value("weights", "weight").known_shape[-1])
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


def _batched(a: Arguments) -> Value:
    """Return the input as ``[N, T, E]``; joined sequences are one."""
    x: Value = a["input"]
    return x.viewed((1, *x.known_shape)) if len(x.known_shape) == 2 else x


def _rotary_features(a: Arguments) -> Any:
    """Return the number of rotated features per head; None without rotation."""
    if not a.get("do_rotary"):
        return None
    return a.get("rotary_embedding_dim") or node_of(a).facts(Projections).features[0] // a["num_heads"]


PROJECTED: Mapping[str, Any] = {
    "heads": "num_heads",
    "features": fact(Projections, lambda f: f.features),
    "causal": lambda a: bool(a.get("unidirectional")) or None,
    "rotary_dim": _rotary_features,
    "keys": lambda a: a["token_offset"].known_shape[1] if isinstance(a.get("token_offset"), Value) else None,
}


SPECS: tuple[OperatorSpec, ...] = (
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
                        "q": _batched,
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
                    "q": _batched,
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
