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


def skipped(node: Node) -> Sequence[Value]:
    """The norm, mean and 1/deviation of every row, and the sum that was normalised."""
    x = node.value("input", "X")
    same = node.result(x.known, x.dtype)
    if node.op == "SkipGroupNorm":
        return [same, node.result(x.known, x.dtype)]
    rows = (*x.known[:-1], 1)
    return [same, node.result(rows, "float32"), node.result(rows, "float32"), node.result(x.known, x.dtype)]


def embedded(node: Node) -> Sequence[Value]:
    """The norm of the embeddings, the place of the first masked word, and the sum of the embeddings."""
    ids, table = node.value("input_ids"), node.value("word_embedding")
    shape = (*ids.known, table.known[-1])
    return [
        node.result(shape, table.dtype),
        node.result((ids.known[0],), "int32"),
        node.result(shape, table.dtype),
    ]


def _gate(a: Arguments) -> str:
    name = str(a.get("activation") or "silu")
    return "silu" if name == "swish" else name


def _last(name: str) -> Any:
    return lambda a: (len(a[name].known) - 1,)


NORM = {"eps": "epsilon"}


GROUPED = {"groups": "groups", **NORM}


def _rows_of(a: Arguments) -> Value:
    """The input in rows as long as the scale."""
    x, width = a["X"], a["scale"].known[-1]
    view: Value = x.viewed((*x.known[:-1], x.known[-1] // width, width))
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
        infer=skipped,
        rows=[
            row(
                "fused_layer_norm",
                {"x": "input", "skip": "skip", "bias": "bias", "w": "gamma", "b": "beta"},
                {"axis": _last("input"), **NORM},
            )
        ],
    ),
    OperatorSpec(
        "SkipSimplifiedLayerNormalization",
        "input skip gamma bias",
        required=3,
        infer=skipped,
        rows=[
            row(
                "fused_rms_norm",
                {"x": "input", "skip": "skip", "bias": "bias", "w": "gamma"},
                {"axis": _last("input"), **NORM},
            )
        ],
    ),
    OperatorSpec(
        "EmbedLayerNormalization",
        "input_ids segment_ids word_embedding position_embedding segment_embedding gamma beta mask position_ids",
        infer=embedded,
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
        infer=skipped,
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
                {"x": _rows_of, "w": "scale", "gate": "gate"},
                {"axis": lambda a: (len(a["X"].known),), "activation": _gate, **NORM},
            )
        ],
    ),
)
