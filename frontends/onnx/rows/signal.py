"""Rows of Fourier transforms, window functions and mel weights."""

from __future__ import annotations

from typing import Any

from costcore.numbers.dims import is_symbolic
from costcore.translate import Arguments, Row

from ..graph.node import Node
from ..values.value import Value
from .arguments import determined, flag, node_of

WINDOWS = {"HannWindow": "hann_window", "HammingWindow": "hamming_window", "BlackmanWindow": "blackman_window"}


def _signal(a: Arguments) -> Value:
    """Return a signal as real or complex numbers, whose last axis may be real and imaginary parts.

    With three or more axes the last one always is; if its size is unknown, the signal is assumed to be real.
    """
    x: Value = a.get("input") or a["signal"]
    rank = len(x.known_shape)
    if not ((rank > 1 and x.known_shape[-1] in (1, 2)) or (rank > 2 and is_symbolic(x.known_shape[-1]))):
        return x
    view = x.viewed(x.known_shape[:-1])
    if x.known_shape[-1] == 2:
        view.dtype = {"float64": "complex128", "float16": "complex32"}.get(x.dtype, "complex64")
    return view


def _transformed_axis(a: Arguments) -> Any:
    """Return the transformed axis, as a tuple."""
    n = node_of(a)
    rank = len(n.value("input").known_shape)
    found = n.axis(rank, "axis") if n.get("axis") is not None else rank - 2 if n.version >= 20 else 1
    return None if found is None else (found,)


def _transformed_length(n: Node) -> Any:
    """Return the length of a transform, if it is not that of its input."""
    length = n.number("dft_length")
    if length is None and n.args.get("inverse") and n.args.get("onesided"):
        (axis,) = _transformed_axis(n.args)
        return n.outputs[0].known_shape[axis] if n.outputs[0] is not None else None
    return length


def _frame(a: Arguments) -> Any:
    """Return the length of a frame."""
    n = node_of(a)
    window = n.get("window")
    if window is not None:
        return window.known_shape[0]
    return n.number("frame_length") if n.get("frame_length") is not None else n.value("signal").known_shape[1]


_FRAME = determined(lambda n: _frame(n.args))


ROWS: tuple[Row, ...] = (
    *(Row(f"ai.onnx::{native}", op) for native, op in WINDOWS.items()),
    Row("ai.onnx::MelWeightMatrix", "mel_weights"),
    Row(
        "ai.onnx::DFT",
        "fft",
        {"x": _signal},
        {
            "axes": determined(lambda n: _transformed_axis(n.args)),
            "length": determined(_transformed_length),
            "inverse": flag("inverse"),
        },
    ),
    Row(
        "ai.onnx::STFT",
        "stft",
        {"x": _signal, "window": "window"},
        {"length": _FRAME, "frames": determined(lambda n: n.outputs[0] and n.outputs[0].known_shape[1])},
        when=lambda a: _FRAME(a) is not None,
    ),
)
