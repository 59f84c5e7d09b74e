"""Fourier transforms of real signals, of which half the spectrum tells all."""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, ceil_log2

from .fourier import fast_fourier


def _half(points: Dim, length: Dim) -> Operations:
    """Real transforms of ``length``, ``points`` real elements in all: half the butterflies of complex ones."""
    stages = points * ceil_log2(length)
    return Operations(mul=stages, add=3 * stages // 2)


def _others(layer: Layer, points: Dim, shape: tuple[Dim, ...]) -> Operations:
    """Complex transforms along all axes but the last one named, of ``points`` elements."""
    return sum((fast_fourier(points, shape[axis]) for axis in layer.attrs["axes"][:-1]), Operations())


def calc_real_fft(layer: Layer) -> Cost:
    """Discrete Fourier transform of real x: real along the last of ``axes``, complex along the others.

    A real transform of length n has half the butterflies of ``fft``: 2.5 n ceil(log2(n)) FLOPs. The others are those of
    ``fft``, on the n / 2 + 1 elements that are kept (or on all of y, where both halves are wanted). With ``scaled`` 2
    mul per element of y.

    Source: Sorensen et al., "Real-valued fast Fourier transform algorithms", IEEE TASSP 35, 1987.

    Shapes: x[B, N] -> y[B, N/2+1]
    Settings: axes=(1,)
    """
    x, y = layer["x"], layer.out
    operations = _half(x.size, x.shape[layer.attrs["axes"][-1]]) + _others(layer, y.size, y.shape)
    operations += Operations(mul=2 * y.size if layer.attrs.get("scaled") else 0)
    return Cost(operations, layer.read, layer.written, layer.attrs)


def calc_inverse_real_fft(layer: Layer) -> Cost:
    """Real signal of half a spectrum x: complex along all but the last of ``axes``, then real along it.

    As ``real_fft``, the other way round. With ``scaled`` 1 mul per element of y.

    Source: Sorensen et al., "Real-valued fast Fourier transform algorithms", IEEE TASSP 35, 1987.

    Shapes: x[B, N/2+1] -> y[B, N]
    Settings: axes=(1,)
    """
    x, y = layer["x"], layer.out
    operations = _half(y.size, y.shape[layer.attrs["axes"][-1]]) + _others(layer, x.size, x.shape)
    operations += Operations(mul=y.size if layer.attrs.get("scaled") else 0)
    return Cost(operations, layer.read, layer.written, layer.attrs)
