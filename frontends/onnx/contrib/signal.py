"""Fourier transforms that ONNX Runtime adds."""

from __future__ import annotations

from collections.abc import Sequence

from costcore.translate import Arguments

from ..graph.node import Node
from ..rows.arguments import determined, node_of, number
from ..schema.constraints import ANY, Constraints
from ..values.value import Value
from .spec import EXTENSIONS, OperatorSpec, row


def half_spectrum(node: Node) -> Sequence[Value]:
    """Infer half of the bins of a real signal, real and imaginary parts last, or that signal from its bins."""
    x, axes = node.value("X").known_shape, node.args.get("signal_ndim", 1)
    if not 1 <= axes <= len(x) - (0 if node.op == "Rfft" else 1):
        raise node.error(f"has signal_ndim {axes} for an input of shape {x}")
    if node.op == "Rfft":
        return [node.result((*x[:-1], x[-1] // 2 + 1, 2), node.value("X").dtype)]
    return [node.result((*x[:-2], 2 * (x[-2] - 1)), node.value("X").dtype)]


def _spectrum(a: Arguments) -> Value:
    """Return bins with real and imaginary parts as complex numbers."""
    x: Value = a["X"]
    view = x.viewed(x.known_shape[:-1])
    view.dtype = {"float64": "complex128", "float16": "complex32"}.get(x.dtype, "complex64")
    return view


def _signal_axes(a: Arguments) -> tuple[int, ...]:
    """Return the axes of the signal, which are the last ones."""
    rank = len(a["X"].known_shape) - (1 if node_of(a).op == "Irfft" else 0)
    return tuple(range(rank - (a.get("signal_ndim") or 1), rank))


def spectrogram(node: Node) -> Sequence[Value]:
    """Infer the squared magnitudes of centered frames, one every ``hop_length`` samples."""
    x, length, hop = node.value("pcm_wave"), node.number("n_fft"), node.number("hop_length")
    if len(x.known_shape) != 2:
        raise node.error(f"needs a signal [N, L] (got the shape {x.known_shape})")
    return [node.result((x.known_shape[0], length // 2 + 1, x.known_shape[1] // hop + 1), x.dtype)]


SPECS: tuple[OperatorSpec, ...] = (
    *(
        OperatorSpec(
            "StftNorm",
            "pcm_wave n_fft hop_length window frame_size",
            required=5,
            infer=spectrogram,
            rows=[
                row(
                    "stft_power",
                    {"x": "pcm_wave", "window": "window"},
                    {
                        "length": number("n_fft"),
                        "frames": determined(lambda n: n.outputs[0] and n.outputs[0].known_shape[-1]),
                    },
                    when=lambda a: number("n_fft")(a) is not None,
                )
            ],
            domain=domain,
        )
        for domain in EXTENSIONS
    ),
    *(
        OperatorSpec(
            name,
            "X",
            attributes="signal_ndim normalized onesided",
            constraints=Constraints(ranks={"X": (2, ANY)}),
            infer=half_spectrum,
            rows=[transform],
        )
        for name, transform in (
            ("Rfft", row("real_fft", {"x": "X"}, {"axes": _signal_axes}, when=lambda a: a.get("signal_ndim", 1) == 1)),
            ("Irfft", row("inverse_real_fft", {"x": _spectrum}, {"axes": _signal_axes, "scaled": lambda a: True})),
        )
    ),
)
