"""Shapes of Fourier transforms, window functions and mel weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnx import TensorProto

from costcore.numbers.dims import Dim, is_symbolic

from ..graph.node import Node, Rule
from ..values.value import DTYPES, Undetermined, Value


def window(node: Node) -> Sequence[Value]:
    """Infer the window of the given size."""
    return [node.result((node.number("size"),), DTYPES[node.args.get("output_datatype", TensorProto.FLOAT)])]


def mel(node: Node) -> Sequence[Value]:
    """Infer weights from DFT bins to mel bins."""
    dtype = DTYPES[node.args.get("output_datatype", TensorProto.FLOAT)]
    return [node.result((node.number("dft_length") // 2 + 1, node.number("num_mel_bins")), dtype)]


def fourier(node: Node) -> Sequence[Value]:
    """Infer a discrete Fourier transform: real and imaginary parts last, half of the bins if it is one-sided."""
    x, length = node.value("input"), node.number("dft_length")
    axis = node.axis(len(x.known_shape), "axis") if node.get("axis") is not None else len(x.known_shape) - 2
    if axis is None:
        raise Undetermined
    if axis == len(x.known_shape) - 1:
        raise node.error(f"transforms axis {axis}, which holds the real and imaginary parts of {x.known_shape}")
    _assume_real(node, x)
    one_sided, inverse = node.args.get("onesided"), node.args.get("inverse")
    if length is None:
        length = 2 * (x.known_shape[axis] - 1) if one_sided and inverse else x.known_shape[axis]
    shape = [*x.known_shape[:-1], 1 if one_sided and inverse else 2]
    shape[axis] = length // 2 + 1 if one_sided and not inverse else length
    return [node.result(shape, x.dtype)]


def short_fourier(node: Node) -> Sequence[Value]:
    """Infer the transforms of frames of a signal; one-sided unless the attribute says otherwise."""
    x, window = node.value("signal"), node.get("window")
    _assume_real(node, x)
    frames: Dim | None = None
    bins: Dim | None = None
    try:
        length = window.known_shape[0] if window is not None else node.number("frame_length")
        if length is None:
            length = x.known_shape[1]  # by default a frame is the whole signal
        bins = length // 2 + 1 if node.args.get("onesided", 1) else length
        frames = (x.known_shape[1] - length) // node.number("frame_step") + 1
    except Undetermined:
        pass  # their number depends on data
    return [node.result((x.known_shape[0], frames, bins, 2), x.dtype)]


def _assume_real(node: Node, x: Value) -> None:
    """Add the assumption that the last axis of a signal, 1 real part or 2 parts, has one."""
    parts = x.known_shape[-1] if len(x.known_shape) > 2 else 1
    if is_symbolic(parts):
        node.assumed.append(f"the last axis of the signal, of size {parts}, is assumed to be 1: real numbers")


RULES: Mapping[str, Rule] = {
    "ai.onnx::DFT": fourier,
    "ai.onnx::STFT": short_fourier,
    **{f"ai.onnx::{op}": window for op in ("BlackmanWindow", "HammingWindow", "HannWindow")},
    "ai.onnx::MelWeightMatrix": mel,
}
"""Rules by full operator name."""
