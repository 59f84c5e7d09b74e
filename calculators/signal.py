"""Fourier transforms, windows and mel filters."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Dim, Layer, Operations, PerElement, ceil_log2, covers, pattern

# Discrete Fourier transforms.


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
    # Half the butterflies of complex transforms.
    stages = points * ceil_log2(length)
    return Operations(mul=stages, add=3 * stages // 2)


def _other_axes_operations(layer: Layer, points: Dim, shape: tuple[Dim, ...]) -> Operations:
    return sum((fft_operations(points, shape[axis]) for axis in layer.attrs["axes"][:-1]), Operations())


@pattern("opaque")
def calc_real_fft(layer: Layer) -> Cost:
    """Discrete Fourier transform of real x: real along the last of ``axes``, complex along the others.

    * A real transform of length n has half the butterflies of ``fft``: 2.5 n ceil(log2(n)) FLOPs.
    * The other axes are transformed as in ``fft``, for the n / 2 + 1 elements that are kept (for all of y if both
      halves are needed).
    * ``scaled``: 2 mul per element of y.
    * ``length``: the length of the real transform if x is padded or cut to it.

    Source: Sorensen et al., "Real-valued fast Fourier transform algorithms", IEEE TASSP 35, 1987.

    Shapes: x[B, N] -> y[B, N/2+1]
    Settings: axes=(1,)
    """
    x, y, length = layer["x"], layer.out, layer.attrs.get("length")
    own = x.shape[layer.attrs["axes"][-1]]
    points = x.size if length is None else x.size // own * length
    operations = _real_fft_operations(points, own if length is None else length)
    operations += _other_axes_operations(layer, y.size, y.shape)
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


# Short-time Fourier transform, windows and mel filters.


WINDOWS: Mapping[str, PerElement] = {
    "hann_window": PerElement(Operations(mul=2, add=1, special=1), "0.5 - 0.5 * cos(n * step)"),
    "hamming_window": PerElement(Operations(mul=2, add=1, special=1), "a - b * cos(n * step)"),
    "blackman_window": PerElement(
        Operations(mul=4, add=2, special=2), "0.42 - 0.5 * cos(n * step) + 0.08 * cos(n * double)"
    ),
}


@pattern("make")
@covers(WINDOWS)
def calc_window(layer: Layer) -> Cost:
    """Window functions: the operations of the definition, once per element; only the output is written.

    ``n`` is the position and ``step`` the constant angle 2 pi / N.

    Shapes: -> y[N]
    """
    return Cost(layer.out.size * WINDOWS[layer.op].operations, 0, layer.written, layer.attrs)


@pattern("opaque")
def calc_stft(layer: Layer) -> Cost:
    """Short-time Fourier transform: the transform of every frame of a signal, after its window.

    A real signal takes ``real_fft``, a complex one ``fft``. Frames overlap; x is read once. A window is 1 mul per
    element of a frame (2 for a complex signal).

    Shapes: x[B, L], window[N]? -> y[B, F, N]
    Settings: frames=F, length=N
    """
    x, n = layer["x"], layer.attrs["length"]
    points = x.size // x.shape[-1] * layer.attrs["frames"] * n
    is_complex = x.dtype.startswith("complex")
    operations = fft_operations(points, n) if is_complex else _real_fft_operations(points, n)
    operations += Operations(mul=(1 + is_complex) * points if "window" in layer else 0)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_istft(layer: Layer) -> Cost:
    """Real signal of half the spectra of its frames, which overlap: the inverse of ``stft``.

    * Each frame: ``inverse_real_fft``, 1 / N (1 mul), and a product with the window that is added to y (1 fma).
    * The sum of the squared windows, 1 mul per element and 1 add for each frame; 1 div per element of y by it.

    Shapes: x[B, K, F], window[N] -> y[B, L]
    Settings: frames=F, length=N
    """
    y, frames, n = layer.out, layer.attrs["frames"], layer.attrs["length"]
    points = y.size // y.shape[-1] * frames * n
    operations = _real_fft_operations(points, n) + Operations(mul=points, fma=points)
    operations += Operations(mul=n, add=frames * n, div=y.size)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_stft_power(layer: Layer) -> Cost:
    """Squared magnitudes of ``stft`` of a real signal: ``re * re + im * im`` of every bin.

    1 mul and 1 fma per bin of y. The transforms are intermediate results and not written.

    Source: onnxruntime-extensions operator StftNorm.

    Shapes: x[B, L], window[N] -> y[B, K, F]
    Settings: frames=F, length=N
    """
    x, n = layer["x"], layer.attrs["length"]
    points = x.size // x.shape[-1] * layer.attrs["frames"] * n
    operations = _real_fft_operations(points, n) + Operations(mul=points) + layer.out.size * Operations(mul=1, fma=1)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("make")
def calc_mel_weights(layer: Layer) -> Cost:
    """Triangular filters from frequency bins to mel bins.

    * Each of M + 2 edges, ``floor((700 * (10^(mel / 2595) - 1)) * (n + 1) / rate)`` with mel = low + i * step: 3 mul, 2
      add, 2 div, 1 cmp, 1 special.
    * Each element of the output: a difference and a quotient at most.

    Source: ONNX operator MelWeightMatrix.

    Shapes: -> y[K, M]
    """
    edges, size = layer.out.shape[-1] + 2, layer.out.size
    operations = edges * Operations(mul=3, add=2, div=2, cmp=1, special=1) + size * Operations(add=1, div=1)
    return Cost(operations, 0, layer.written, layer.attrs)
