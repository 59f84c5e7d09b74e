"""Removal and restoration of the padding of batched sequences."""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations, pattern

from .._shared import input_bytes


@pattern("move")
def calc_unpad(layer: Layer) -> Cost:
    """Concatenated sequences without their padding.

    Only the elements that are kept are read, and the lengths.

    Shapes: x[N, T, E], lengths[N] -> y[M, E]
    """
    x = layer["x"]
    read = x.bytes_of_part(layer.out.size) + input_bytes(layer, "lengths")
    return Cost(Operations(), read, layer.written, layer.attrs)


@pattern("move")
def calc_repad(layer: Layer) -> Cost:
    """Concatenated sequences separated again and padded with zeros: x and indices are read, y is written.

    Shapes: x[M, E], indices[N, T] -> y[N, T, E]
    """
    return Cost(Operations(), layer.read, layer.written, layer.attrs)
