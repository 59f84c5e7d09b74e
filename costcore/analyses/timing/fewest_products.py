"""The fewest products that a fast algorithm needs, as a part of those of the definition.

A formula counts the straightforward algorithm. A kernel may skip the taps of a convolution that fall on padding, and
the pairs that a causal mask or a window excludes. It may also compute a convolution by Winograd's minimal filtering or
by a Fourier transform. A bound for every kernel allows for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple

from costcore.ir import Layer

WINOGRAD_TILE = 8
"""The largest tile of Winograd's algorithm in libraries: F(6, 3) computes 6 outputs of a kernel of 3 from a tile of 8
(Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", arXiv:1509.09308, has F(4, 3); NNPACK and ncnn use
F(6, 3))."""

FOURIER_TILE = 256
"""The largest tile of Fourier transforms (cuDNN's is 32); smaller ones need more products. Every point costs two real
products: half of the points of a real signal are independent, and a complex product has four."""

CONVOLUTIONS = frozenset(
    {"conv", "conv_transpose", "fused_conv", "causal_conv", "conv_backward", "conv_transpose_backward"}
    | {f"{kind}_{op}" for kind in ("quantized", "dynamic_quantized") for op in ("conv", "conv_transpose")}
)
"""Operators that slide one kernel over the positions of an axis."""


class Axis(NamedTuple):
    """One axis of a convolution: sizes of the longer side, of the kernel and of the side that its stride thins out."""

    size: int
    kernel: int
    positions: int
    stride: int
    padding: int
    dilation: int


MOST_TAPS = 1 << 18
"""The longest kernel whose taps are looked at one by one; of a longer one, all products count."""


def fewest_products(layer: Layer, fast_convolution: bool) -> float:
    """Return the part of the products of a layer that no algorithm can do without, at most 1.

    Args:
        layer: the layer.
        fast_convolution: whether a convolution may run by Winograd's algorithm or a Fourier transform.
    """
    if layer.op in CONVOLUTIONS:
        axes = _axes(layer)
        part = prod(map(_inside, axes))
        return part / _reduction(axes) if fast_convolution else part
    if layer.attrs.get("causal") or layer.attrs.get("window"):
        return _allowed_pairs(layer)
    return 1.0


def _axes(layer: Layer) -> list[Axis]:
    """Return the spatial axes of a convolution; of a transposed one or a gradient, those of the same products."""
    x, w, y = (layer.get(name) for name in ("x", "w", "dy"))
    w = w or layer.outputs[-1]
    x, y = x or layer.out, y or layer.out
    kernel = _attribute(layer.attrs, "kernel", w.shape[2:])
    rank = len(kernel)
    long, short = (y, x) if "transpose" in layer.op else (x, y)
    stride, dilation = (_attribute(layer.attrs, name, (1,) * rank) for name in ("stride", "dilation"))
    padding = _attribute(layer.attrs, "padding", (0,) * rank)
    if not x.ndim == y.ndim >= rank == len(stride) == len(dilation) == len(padding):
        return []
    before = [each[0] if isinstance(each, tuple) and each else each for each in padding]
    if not all(isinstance(each, int) for each in (*kernel, *stride, *dilation, *before)):
        return []  # of a saved report that was edited
    if any(each < 1 for each in stride) or any(each > MOST_TAPS for each in kernel):
        return []
    sizes, positions = long.shape[x.ndim - rank :], short.shape[x.ndim - rank :]
    return [Axis(*axis) for axis in zip(sizes, kernel, positions, stride, before, dilation, strict=True)]


def _attribute(attrs: Mapping[str, Any], name: str, default: tuple[Any, ...]) -> tuple[Any, ...]:
    value = attrs.get(name, default)
    return value if isinstance(value, tuple) else default


def _inside(axis: Axis) -> float:
    """Return the part of the taps along one axis that do not fall on padding."""
    taps = 0
    for tap in range(axis.kernel):
        offset = tap * axis.dilation - axis.padding  # tap reads position * stride + offset
        first = max(0, -(offset // axis.stride))
        last = min(axis.positions - 1, (axis.size - 1 - offset) // axis.stride)
        taps += max(0, last - first + 1)
    return taps / (axis.kernel * axis.positions) if taps else 1.0


def _reduction(axes: list[Axis]) -> float:
    """Return how many times fewer products a fast algorithm needs; 1 for a convolution with a stride."""
    if any(axis.stride != 1 for axis in axes):
        return 1.0
    winograd = prod(_outputs_per_point(axis.kernel, WINOGRAD_TILE) for axis in axes)
    fourier = prod(_outputs_per_point(axis.kernel, FOURIER_TILE) for axis in axes) / 2
    return max(1.0, winograd, fourier)


def _outputs_per_point(kernel: int, tile: int) -> float:
    """Return the products of the definition for each point of a tile: k (n - k + 1) / n."""
    return kernel * max(tile - kernel + 1, 0) / tile


def _allowed_pairs(layer: Layer) -> float:
    """Return the part of the pairs of queries and keys that a causal mask and a window allow, aligned at either end.

    Only of ``attention`` and its gradient are the axes known; a causal mask of another operator allows half at least.
    """
    window = layer.attrs.get("window")
    if not layer.op.startswith("attention") or "q" not in layer or "k" not in layer:
        return 0.0 if isinstance(window, tuple) else 0.5
    queries, keys = layer["q"].shape[-2], layer["k"].shape[-2]
    far = keys + queries
    left, right = window if isinstance(window, tuple) and len(window) == 2 else (far, far)
    left = far if left < 0 else left
    right = 0 if layer.attrs.get("causal") else far if right < 0 else right
    pairs = min(_pairs(queries, keys, left, right, shift) for shift in (0, keys - queries))
    return pairs / (queries * keys) if queries and keys else 1.0


def _pairs(queries: int, keys: int, left: int, right: int, shift: int) -> int:
    """Return the number of pairs whose key lies at most ``left`` before and ``right`` after its query."""
    ends = _sum_of_clipped(queries, shift + right + 1, keys)
    starts = _sum_of_clipped(queries, shift - left, keys)
    return ends - starts


def _sum_of_clipped(n: int, first: int, most: int) -> int:
    """Return the sum of min(max(first + i, 0), most) for i below n.

    Each of them is max(first + i, 0) - max(first + i - most, 0).
    """

    def positive(start: int) -> int:
        return _sum_to(start + n - 1) - _sum_to(start - 1)

    return positive(first) - positive(first - most)


def _sum_to(last: int) -> int:
    """Return the sum of all positive numbers up to the last."""
    last = max(last, 0)
    return last * (last + 1) // 2
