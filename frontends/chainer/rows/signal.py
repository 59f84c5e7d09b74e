"""Rows of Fourier transforms."""

from __future__ import annotations

from costcore.translate import Arguments, Row

from .arguments import operands, row


def is_inverse(args: Arguments) -> bool | None:
    """Return True for an inverse Fourier transform, None for a forward one, which is the default."""
    return True if args["function"]._method == "ifft" else None


ROWS: tuple[Row, ...] = (row("FFT", "fft", operands("real", "imaginary"), inverse=is_inverse),)
