"""Rows of Fourier transforms and window functions."""

from __future__ import annotations

from costcore.translate import Arguments, Row, Source

from .arguments import X


def _axes(args: Arguments) -> tuple[int, ...]:
    rank = args["self"].dim()
    return tuple(int(axis) % rank for axis in args["dim"])


def _is_scaled(args: Arguments) -> bool:
    return bool(args["normalization"])


_FFT: dict[str, Source] = {"axes": _axes, "scaled": _is_scaled}

ROWS = (
    Row("aten::_fft_c2c", "fft", X, {**_FFT, "inverse": lambda args: not args["forward"]}),
    Row("aten::_fft_r2c", "real_fft", X, {**_FFT, "onesided": "onesided"}),
    Row("aten::_fft_c2r", "inverse_real_fft", X, _FFT),
    *(Row(f"aten::{name}", name, {}) for name in ("hann_window", "hamming_window", "blackman_window")),
)
