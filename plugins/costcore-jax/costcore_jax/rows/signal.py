"""Rows of Fourier transforms."""

from __future__ import annotations

from typing import Any

from costcore.translate import Arguments, Row

from .arguments import X

KINDS = ("fft", "real_fft", "inverse_real_fft")


def _kind(a: Arguments) -> str:
    name = str(a["fft_type"]).rpartition(".")[2].lower()
    return {"rfft": "real_fft", "irfft": "inverse_real_fft", "2": "real_fft", "3": "inverse_real_fft"}.get(name, "fft")


def _axes(a: Arguments) -> Any:
    rank = a["inputs"][0].ndim
    return tuple(range(rank - len(a["fft_lengths"]), rank))


ROWS: tuple[Row, ...] = (Row("jax::fft", _kind, X, {"axes": _axes}, ops=KINDS),)
