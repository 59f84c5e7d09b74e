"""How many inputs the windows of pools take in, as other tools compute it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from costcore.ir import Layer, prod
from costcore.numbers.dims import Dim, gcd, is_symbolic


def pooled_axes(x: tuple[Dim, ...], y: tuple[Dim, ...]) -> list[tuple[Dim, Dim]]:
    """Return input and output size of every axis behind batch and channels."""
    return [*zip(x[2:], y[2:], strict=False)]


def taps_of_average_pool(layer: Layer) -> Dim:
    """Return the inputs in all windows of an average pool: padding counts where it is averaged, never what lies beyond.

    The windows of an adaptive pool from ``n`` inputs to ``m`` outputs overlap by one input where ``m`` does not divide
    ``n``: ``n + m - gcd(n, m)`` in all.
    """
    x, y = layer["x"], layer.out
    kernel, stride, padding = (layer.attrs.get(name) for name in ("kernel", "stride", "padding"))
    if kernel is None or padding is None:
        return prod(x.shape[:2]) * prod(i + o - gcd(i, o) for i, o in pooled_axes(x.shape, y.shape))
    dims = len(kernel)
    counted = padding if layer.attrs.get("count_include_pad", True) else (0,) * dims
    taps = [*map(_taps, x.shape[-dims:], y.shape[-dims:], kernel, stride or kernel, padding, counted)]
    return prod(x.shape[:-dims]) * prod(taps)


def _taps(size: Dim, outputs: Dim, kernel: int, stride: int, padding: int, counted: int) -> Dim:
    if is_symbolic(size) or is_symbolic(outputs):
        return outputs * kernel
    return sum(_window_lengths(size, outputs, kernel, stride, padding, counted))


def _window_lengths(size: int, outputs: int, kernel: int, stride: int, padding: int, counted: int) -> Iterator[int]:
    for i in range(outputs):
        start = i * stride - padding
        yield max(min(start + kernel, size + counted) - max(start, -counted), 0)


def quotient_in_floats(x: tuple[Dim, ...], y: tuple[Dim, ...]) -> Any:
    """Return the product of input by output sizes in floating point, as thop rounds it."""
    result: Any = 1
    for i, o in pooled_axes(x, y):
        result = result * (i / o)
    return result


def positions_of_convolution(layer: Layer) -> Dim:
    """Return the output positions that a convolution with the settings of this layer has."""
    settings = (layer.attrs[name] for name in ("kernel", "stride", "padding", "dilation"))
    axes = zip(layer["x"].shape[2:], *settings, strict=False)
    return prod(
        (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
        for size, kernel, stride, padding, dilation in axes
    )
