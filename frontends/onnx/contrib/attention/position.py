"""Position embeddings and position biases that ONNX Runtime adds."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph.node import Node
from ...rows.arguments import flag, nonzero
from ...rows.attention import rotary_input
from ...schema.constraints import Constraints
from ...shapes.rules import check_ranks, like, positive
from ...values.value import Value
from ..spec import OperatorSpec, row


def position_bias(node: Node) -> Sequence[Value]:
    """Infer a bias for each head and pair of positions, whose number is a value."""
    table = node.value("bias_table")
    lengths = [value.data.ravel()[0] if value.data is not None else None for value in _lengths(node)]
    return [node.result((1, table.known_shape[1], *lengths), table.dtype)]


def _lengths(node: Node) -> list[Value]:
    """Return the inputs that give the lengths of queries and keys."""
    return [node.value("query_length"), node.value("key_length")]


def gated_position_bias(node: Node) -> Sequence[Value]:
    """Infer a bias for each sample, head and pair of positions."""
    check_ranks(node, query_bias=1, rel_pos=4, weight=2)
    query, offsets = node.value("query_layer"), node.get("token_offset")
    batch, steps = (offsets or query).known_shape[:2]
    return [node.result((batch, positive(node, "num_heads"), steps, steps), query.dtype)]


SPECS: tuple[OperatorSpec, ...] = (
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
