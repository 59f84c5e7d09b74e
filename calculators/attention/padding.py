"""Removal and restoration of the padding of batched sequences."""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations

from .._shared import input_bytes


def calc_unpad(layer: Layer) -> Cost:
    """Sequences without their padding, joined: as many elements are read as are written, and the lengths.

    Shapes: x[N, T, E], lengths[N] -> y[M, E]
    """
    x = layer["x"]
    read = x.bytes_of(layer.out.size) + input_bytes(layer, "lengths")
    return Cost(Operations(), read, layer.written, layer.attrs)


def calc_repad(layer: Layer) -> Cost:
    """Joined sequences set apart again, zeros behind each: all of x and the places are read, all of y is written.

    Shapes: x[M, E], indices[N, T] -> y[N, T, E]
    """
    return Cost(Operations(), layer.read, layer.written, layer.attrs)
