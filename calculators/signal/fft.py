"""Fourier transforms."""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, ceil_log2


def fft_operations(points: Dim, length: Dim) -> Operations:
    """Complex transforms of ``length``, ``points`` elements in all, by halving: log2(length) stages of butterflies.

    A butterfly makes two elements of two: a complex product (4 mul, 2 add) and two complex sums (4 add).
    """
    return Operations(mul=2, add=3) * points * ceil_log2(length)


def calc_fft(layer: Layer) -> Cost:
    """Discrete Fourier transform along ``axes`` (the last one where not given), forward or inverse.

    Each axis of n elements takes n / 2 * ceil(log2(n)) butterflies of radix 2, 4 mul and 6 add each: 5 n log2(n) FLOPs
    for a power of two, the customary figure; other lengths are held to the next power's number of stages. Roots of
    unity are constants. Real and imaginary parts may be operands and outputs of their own. The setting ``inverse``
    multiplies every element by 1 / n, 2 mul; ``scaled``, where given, says whether it does in place of that. ``length``
    is that of the transform where x is padded or cut to it.

    Source: Cooley and Tukey, Mathematics of Computation 19, 1965.

    Shapes: x[B, N] -> y[B, N]
    """
    x = next(iter(layer.inputs.values()))
    axes = layer.attrs.get("axes") or (x.ndim - 1,)
    length = layer.attrs.get("length")
    points = x.size if length is None else x.size // x.shape[axes[0]] * length
    operations = sum((fft_operations(points, length or x.shape[axis]) for axis in axes), Operations())
    operations += Operations(mul=2 * points if layer.attrs.get("scaled", layer.attrs.get("inverse")) else 0)
    return Cost(operations, layer.read, layer.written, layer.attrs)


def _real_fft_operations(points: Dim, length: Dim) -> Operations:
    """Real transforms of ``length``, ``points`` real elements in all: half the butterflies of complex ones."""
    stages = points * ceil_log2(length)
    return Operations(mul=stages, add=3 * stages // 2)


def _other_axes_operations(layer: Layer, points: Dim, shape: tuple[Dim, ...]) -> Operations:
    """Complex transforms along all axes but the last one named, of ``points`` elements."""
    return sum((fft_operations(points, shape[axis]) for axis in layer.attrs["axes"][:-1]), Operations())


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
    operations = _real_fft_operations(x.size, x.shape[layer.attrs["axes"][-1]]) + _other_axes_operations(
        layer, y.size, y.shape
    )
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
    operations = _real_fft_operations(y.size, y.shape[layer.attrs["axes"][-1]]) + _other_axes_operations(
        layer, x.size, x.shape
    )
    operations += Operations(mul=y.size if layer.attrs.get("scaled") else 0)
    return Cost(operations, layer.read, layer.written, layer.attrs)
