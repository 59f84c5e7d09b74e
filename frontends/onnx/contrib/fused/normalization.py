"""Normalizations that ONNX Runtime fuses with sums, embeddings, gates and activations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from costcore.translate import Arguments

from ...graph.node import Node
from ...schema.constraints import ANY, Constraints
from ...shapes.rules import like
from ...values.value import Value
from ..spec import OperatorSpec, row


def norm_of_sum(node: Node) -> Sequence[Value]:
    """Infer the norm, the mean and inverse standard deviation of each row, and the normalized sum."""
    x = node.value("input", "X")
    same = node.result(x.known_shape, x.dtype)
    if node.op == "SkipGroupNorm":
        return [same, node.result(x.known_shape, x.dtype)]
    rows = (*x.known_shape[:-1], 1)
    return [same, node.result(rows, "float32"), node.result(rows, "float32"), node.result(x.known_shape, x.dtype)]


def norm_of_embeddings(node: Node) -> Sequence[Value]:
    """Infer the norm of the embeddings, the position of the first masked word, and the sum of the embeddings."""
    ids, table = node.value("input_ids"), node.value("word_embedding")
    shape = (*ids.known_shape, table.known_shape[-1])
    return [
        node.result(shape, table.dtype),
        node.result((ids.known_shape[0],), "int32"),
        node.result(shape, table.dtype),
    ]


def _gate(a: Arguments) -> str:
    """Return the canonical name of the gate's activation."""
    name = str(a.get("activation") or "silu")
    return "silu" if name == "swish" else name


def _last_axis(name: str) -> Any:
    """Return a source for the last axis of an input, as a tuple."""
    return lambda a: (len(a[name].known_shape) - 1,)


NORM = {"eps": "epsilon"}


GROUPED = {"groups": "groups", **NORM}


def _in_rows(a: Arguments) -> Value:
    """Return the input in rows as long as the scale."""
    x, width = a["X"], a["scale"].known_shape[-1]
    view: Value = x.viewed((*x.known_shape[:-1], x.known_shape[-1] // width, width))
    return view


GROUPS = Constraints(
    required=("groups",), minimums={"groups": 1}, ranks={"X": (3, ANY), "gamma": (1, 1), "beta": (1, 1)}
)

GROUP_NORM = row(
    "fused_group_norm",
    {"x": "X", "skip": "skip", "bias": "bias", "w": "gamma", "b": "beta"},
    {**GROUPED, "activation": lambda a: "silu" if a.get("activation") else None},
)


SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "SkipLayerNormalization",
        "input skip gamma beta bias",
        required=3,
        infer=norm_of_sum,
        rows=[
            row(
                "fused_layer_norm",
                {"x": "input", "skip": "skip", "bias": "bias", "w": "gamma", "b": "beta"},
                {"axis": _last_axis("input"), **NORM},
            )
        ],
    ),
    OperatorSpec(
        "SkipSimplifiedLayerNormalization",
        "input skip gamma bias",
        required=3,
        infer=norm_of_sum,
        rows=[
            row(
                "fused_rms_norm",
                {"x": "input", "skip": "skip", "bias": "bias", "w": "gamma"},
                {"axis": _last_axis("input"), **NORM},
            )
        ],
    ),
    OperatorSpec(
        "EmbedLayerNormalization",
        "input_ids segment_ids word_embedding position_embedding segment_embedding gamma beta mask position_ids",
        infer=norm_of_embeddings,
        rows=[
            row(
                "embed_norm",
                {
                    "x": "input_ids",
                    "segments": "segment_ids",
                    "w0": "word_embedding",
                    "w1": "position_embedding",
                    "w2": "segment_embedding",
                    "w": "gamma",
                    "b": "beta",
                    "mask": "mask",
                    "position": "position_ids",
                },
                NORM,
            )
        ],
    ),
    OperatorSpec(
        "GroupNorm",
        "X gamma beta",
        required=3,
        attributes="groups channels_last",
        constraints=GROUPS,
        infer=like("X"),
        rows=[GROUP_NORM],
    ),
    OperatorSpec(
        "SkipGroupNorm",
        "X gamma beta skip bias",
        required=4,
        attributes="groups channels_last",
        constraints=GROUPS,
        infer=norm_of_sum,
        rows=[GROUP_NORM],
    ),
    OperatorSpec(
        "GatedRMSNorm",
        "X scale gate",
        required=3,
        infer=like("X"),
        rows=[
            row(
                "fused_rms_norm",
                {"x": _in_rows, "w": "scale", "gate": "gate"},
                {"axis": lambda a: (len(a["X"].known_shape),), "activation": _gate, **NORM},
            )
        ],
    ),
)
