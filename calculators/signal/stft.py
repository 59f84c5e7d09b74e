"""Short-time Fourier transform, windows and mel filters."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Layer, Operations, PerElement, covers, pattern

from .fft import fft_operations

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
    """Short-time Fourier transform: the ``fft`` of every frame of a signal, after its window.

    Frames overlap; x is read once. A window is 1 mul per element of a frame (2 for a complex signal).

    Shapes: x[B, L], window[N]? -> y[B, F, N]
    Settings: frames=F, length=N
    """
    x, n = layer["x"], layer.attrs["length"]
    points = x.size // x.shape[-1] * layer.attrs["frames"] * n
    per_point = 2 if x.dtype.startswith("complex") else 1
    operations = fft_operations(points, n) + Operations(mul=per_point * points if "window" in layer else 0)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_stft_power(layer: Layer) -> Cost:
    """Squared magnitudes of a short-time Fourier transform, ``stft`` and ``re * re + im * im`` of every bin.

    1 mul and 1 fma per bin, one half of which are written. Transforms stay inside.

    Source: onnxruntime-extensions operator StftNorm.

    Shapes: x[B, L], window[N] -> y[B, K, F]
    Settings: frames=F, length=N
    """
    x, n = layer["x"], layer.attrs["length"]
    points = x.size // x.shape[-1] * layer.attrs["frames"] * n
    operations = fft_operations(points, n) + Operations(mul=points) + layer.out.size * Operations(mul=1, fma=1)
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
