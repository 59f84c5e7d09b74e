"""How many channels are in one block, in files that ONNX Runtime wrote for its NCHWc layout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .spec import NCHWC

BLOCKS = (8, 16)
"""Channels in one block, by the width of the processor's vectors. Source: onnxruntime, MlasNchwcGetBlockSize."""


def block_arguments(graph: Any) -> dict[str, Mapping[str, Any]]:
    """Return the arguments that a graph (``GraphProto``) gives to the nodes of a domain: the size of its blocks.

    ONNX Runtime pads the weights of every convolution to whole blocks: if one has 24 channels, they are blocks
    of 8. Nothing is returned for a graph without such convolutions.
    """
    padded = set(_padded_channels(graph))
    if not padded:
        return {}
    return {NCHWC: {"block": max((size for size in BLOCKS if all(d % size == 0 for d in padded)), default=BLOCKS[0])}}


def _padded_channels(graph: Any) -> Iterator[int]:
    """Yield the output channels of convolutions in blocks, and the input channels of those that read blocks."""
    convs = [node for node in graph.node if node.domain == NCHWC and node.op_type == "Conv" and len(node.input) > 1]
    if not convs:
        return
    stored = {tensor.name: tensor.dims for tensor in graph.initializer}
    for node in convs:
        dims = stored.get(node.input[1], ())
        if len(dims) < 3:
            continue
        yield dims[0]
        if dims[1] >= BLOCKS[0] and not any(a.name == "group" and a.i != 1 for a in node.attribute):
            yield dims[1]  # fewer channels, such as those of an image, are read as they are
