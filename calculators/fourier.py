"""Fourier transforms."""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, ceil_log2


def fast_fourier(points: Dim, length: Dim) -> Operations:
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
    operations = sum((fast_fourier(points, length or x.shape[axis]) for axis in axes), Operations())
    operations += Operations(mul=2 * points if layer.attrs.get("scaled", layer.attrs.get("inverse")) else 0)
    return Cost(operations, layer.read, layer.written, layer.attrs)
