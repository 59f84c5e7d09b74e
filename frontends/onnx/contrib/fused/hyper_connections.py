"""Residual streams that ONNX Runtime mixes and gates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from costcore.numbers.dims import Dim
from costcore.translate import Arguments

from ...graph.node import Node
from ...rows.arguments import node_of
from ...shapes.rules import common_shape
from ...values.value import Shape, Value
from ..spec import OperatorSpec, row


def streams(node: Node) -> tuple[Shape, Dim]:
    """Return the shape of streams as ``[..., C, H]``, and their number C."""
    shape, count = node.value("streams", "X").known_shape, node.args.get("num_branches") or 0
    if count < 0 or not shape:
        raise node.error(f"has num_branches {count} for streams of shape {shape}")
    if count:
        return (*shape[:-1], count, shape[-1] // count), count
    if len(shape) < 2:
        raise node.error(f"needs num_branches or an axis of streams (got the shape {shape})")
    return shape, shape[-2]


def reduced_streams(node: Node) -> Sequence[Value]:
    """Infer one feature vector from all streams."""
    shape, _ = streams(node)
    node.value("pre_mix")
    return [node.result((*shape[:-2], shape[-1]), node.value("streams").dtype)]


def _gate(a: Arguments) -> Value:
    """Return gates as ``[..., C]``, one per stream, or as ``[..., C, H]``, one per feature.

    Streams with an axis of their own have gates per feature if the ranks are the same. The gates of joined streams are
    as many as ``num_branches``, or one per feature; a size with a name is that of features.
    """
    gate: Value = a["pre_mix"]
    shape, count = gate.known_shape, a.get("num_branches")
    if not count or not shape or shape[-1] == count:
        return gate
    return gate.viewed((*shape[:-1], count, shape[-1] // count))


def mixed_streams(node: Node) -> Sequence[Value]:
    """Infer streams like those that are mixed."""
    streams(node)
    for name in ("block_output", "post_mix"):
        node.value(name)
    x = node.value("streams")
    return [node.result(x.known_shape, x.dtype)]


def gated_value(node: Node) -> Sequence[Value]:
    """Infer a gated value for each stream, and its norm."""
    key, query, value = node.value("key"), node.value("query"), node.value("value")
    shape = common_shape(key.known_shape, query.known_shape)
    if shape is None or len(shape) != 4 or len(value.known_shape) != 3:
        raise node.error(
            "needs keys and queries [N, T, C, H] and values [N, T, H] "
            f"(got the shapes {key.known_shape}, {query.known_shape} and {value.known_shape})"
        )
    return [node.result(shape, key.dtype) for _ in range(2)]


def _count(a: Arguments) -> Any:
    """Return the number of streams."""
    return streams(node_of(a))[1]


def grouped_streams(name: str) -> Any:
    """Return a source for streams as ``[..., C, H]``."""
    return lambda a: a[name].viewed(streams(node_of(a))[0])


SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "HyperConnectionPreMix",
        "streams pre_mix",
        required=2,
        attributes="num_branches",
        infer=reduced_streams,
        rows=[
            row(
                "reduce_streams",
                {"x": grouped_streams("streams"), "gate": _gate},
                {
                    "streams": _count,
                    "scale": lambda a: None if a.get("reduction_scale", 1.0) == 1 else a["reduction_scale"],
                },
            )
        ],
    ),
    OperatorSpec(
        "HyperConnectionPostMix",
        "streams block_output post_mix stream_mix",
        required=3,
        attributes="num_branches",
        infer=mixed_streams,
        rows=[
            row(
                "mix_streams",
                {"x": grouped_streams("streams"), "z": "block_output", "gate": "post_mix", "m": "stream_mix"},
                {"streams": _count},
            )
        ],
    ),
    OperatorSpec(
        "EngramGate",
        "key query value key_norm_scale query_norm_scale conv_norm_scale",
        required=5,
        infer=gated_value,
        rows=[
            row(
                "similarity_gate",
                {
                    "q": "query",
                    "k": "key",
                    "v": "value",
                    "w0": "key_norm_scale",
                    "w1": "query_norm_scale",
                    "w2": lambda a: a.get("conv_norm_scale") if len(node_of(a).outputs) > 1 else None,
                },
            )
        ],
    ),
)
