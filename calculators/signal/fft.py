"""Discrete Fourier transforms."""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, ceil_log2, pattern


def fft_operations(points: Dim, length: Dim) -> Operations:
    """Return the operations of complex transforms of ``length``, with ``points`` elements in all.

    log2(length) stages of butterflies. A butterfly computes two elements from two: a complex product (4 mul, 2 add) and
    two complex sums (4 add).
    """
    return Operations(mul=2, add=3) * points * ceil_log2(length)


@pattern("opaque")
def calc_fft(layer: Layer) -> Cost:
    """Discrete Fourier transform along ``axes`` (default: the last), forward or inverse.

    Each axis of n elements takes n / 2 * ceil(log2(n)) butterflies of radix 2, 4 mul and 6 add each: 5 n log2(n) FLOPs
    for a power of two, the usual figure. Other lengths are bounded by the number of stages of the next power. Roots of
    unity are constants.

    * ``inverse``: every element times 1 / n, 2 mul. ``scaled``, if given, decides this instead.
    * ``length``: the length of the transform if x is padded or cut to it.

    Real and imaginary parts may be operands and outputs of their own.

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
    """Return the operations of real transforms of ``length``, with ``points`` real elements in all.

    They have half the butterflies of complex transforms.
    """
    stages = points * ceil_log2(length)
    return Operations(mul=stages, add=3 * stages // 2)


def _other_axes_operations(layer: Layer, points: Dim, shape: tuple[Dim, ...]) -> Operations:
    """Return the operations of complex transforms along all axes but the last one, of ``points`` elements."""
    return sum((fft_operations(points, shape[axis]) for axis in layer.attrs["axes"][:-1]), Operations())


@pattern("opaque")
def calc_real_fft(layer: Layer) -> Cost:
    """Discrete Fourier transform of real x: real along the last of ``axes``, complex along the others.

    * A real transform of length n has half the butterflies of ``fft``: 2.5 n ceil(log2(n)) FLOPs.
    * The other axes are those of ``fft``, on the n / 2 + 1 elements that are kept (on all of y if both halves are
      needed).
    * ``scaled``: 2 mul per element of y.

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


@pattern("opaque")
def calc_inverse_real_fft(layer: Layer) -> Cost:
    """Real signal of half a spectrum x: complex along ``axes`` except the last, real along the last.

    The operations are those of ``real_fft``. With ``scaled`` 1 mul per element of y.

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
