"""Rows of the norms and fused activations that ONNX Runtime adds, and of operators that the standard has as well."""

from __future__ import annotations

from typing import Any

from costcore.translate import Arguments, Row

from .contrib import with_own_inputs
from .rows.arguments import axis, outputs, told
from .values.value import Value


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


NORMS: tuple[Row, ...] = (
    Row(
        "com.microsoft::SkipLayerNormalization",
        "fused_layer_norm",
        {"x": "input", "skip": "skip", "bias": "bias", "w": "gamma", "b": "beta"},
        {"axis": _last("input"), **NORM},
    ),
    Row(
        "com.microsoft::SkipSimplifiedLayerNormalization",
        "fused_rms_norm",
        {"x": "input", "skip": "skip", "bias": "bias", "w": "gamma"},
        {"axis": _last("input"), **NORM},
    ),
    Row(
        "ai.onnx::SimplifiedLayerNormalization",
        "rms_norm",
        {"x": "X", "w": "scale", "b": "B"},
        {"axis": lambda a: tuple(range(axis("X", default=len(a["X"].known) - 1)(a), len(a["X"].known))), **NORM},
        outputs=outputs(1),
    ),
    Row(
        "com.microsoft::EmbedLayerNormalization",
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
    ),
    *(
        Row(
            f"com.microsoft::{op}",
            "fused_group_norm",
            {"x": "X", "skip": "skip", "bias": "bias", "w": "gamma", "b": "beta"},
            {**GROUPED, "activation": lambda a: "silu" if a.get("activation") else None},
        )
        for op in ("GroupNorm", "SkipGroupNorm")
    ),
    Row(
        "com.microsoft::GatedRMSNorm",
        "fused_rms_norm",
        {"x": _rows_of, "w": "scale", "gate": "gate"},
        {"axis": lambda a: (len(a["X"].known),), "activation": _gate, **NORM},
    ),
)


def _fused_activation(native: str, name: str, x: str, b: str) -> Row:
    return Row(f"com.microsoft::{native}", "biased_activation", {"x": x, "b": b}, {"activation": lambda a: name})


ACTIVATIONS: tuple[Row, ...] = (
    _fused_activation("BiasGelu", "gelu", "A", "B"),
    _fused_activation("FastGelu", "fast_gelu", "X", "bias"),
    Row("com.microsoft::QuickGelu", "quick_gelu", {"x": "X"}, {"alpha": lambda a: a.get("alpha", 1.702)}),
    Row("com.microsoft::Gelu", "gelu", {"x": "X"}, {"approximate": lambda a: "none"}),
    Row(
        "com.microsoft::BiasSplitGelu",
        "biased_gated_activation",
        {"x": "X", "b": "bias"},
        {"activation": lambda a: "gelu"},
    ),
    Row("com.microsoft::BiasAdd", "add", {"x0": "X", "x1": "bias", "x2": "skip"}),
    Row(
        "com.microsoft::BiasSoftmax",
        "biased_softmax",
        {"x": "data", "b": "bias"},
        {"axis": lambda a: tuple(range(axis("data", default=1)(a), len(a["data"].known)))},
    ),
    Row(
        "com.microsoft::BiasDropout",
        "biased_dropout",
        {"x": "data", "b": "bias", "z": "residual"},
        {"training": told(lambda n: bool(n.number("training_mode")) or None)},
    ),
    Row("com.microsoft::Inverse", "inverse", {"x": "X"}),
    Row("com.microsoft::GatherND", "gather_nd", {"x": "data", "indices": "indices"}),
    Row(
        "com.microsoft::GridSample",
        "grid_sample",
        {"x": "X", "grid": "Grid"},
        {"mode": lambda a: {"bilinear": "linear", "bicubic": "cubic"}.get(a.get("mode", "bilinear"), a.get("mode"))},
    ),
    Row("com.microsoft::Pad", "pad", {"x": "data"}, {"mode": "mode"}),
    Row("com.microsoft::Range", "arange"),
    Row(
        "com.microsoft::Trilu",
        lambda a: "triu" if a.get("upper", 1) else "tril",
        {"x": "X"},
        ops=("triu", "tril"),
    ),
    Row("com.microsoft::TorchEmbedding", "embedding", {"x": "indices", "w": "weight"}),
)

ROWS: tuple[Row, ...] = tuple(map(with_own_inputs, (*NORMS, *ACTIVATIONS)))
"""The rows of this family."""
