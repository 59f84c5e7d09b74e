"""Custom operators: audio features of tflite-micro, detection, MediaPipe, and TensorFlow's own (``Flex…``).

Sources: the kernels in ``signal/src`` of tflite-micro, which compute in integers: shifts count as ``cmp``; the kernels
of TensorFlow Lite and of ``mediapipe/util/tflite/operations``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from costcore.errors import CostError
from costcore.graphs.graph import XS, X, operand
from costcore.ir import Calculator, Cost, Layer, Operations, Tensor, covers, element_wise, pattern
from costcore.registry import calculators
from costcore.translate import Arguments, Row, Source

from .rows.arguments import image, images, row

PER_ELEMENT: Mapping[str, Operations] = {
    "signal_window": Operations(mul=1, cmp=3),  # (x w) >> shift, and two limits
    "signal_square_root": Operations(cmp=1, special=1),  # sqrt(x) >> scale
    "signal_log": Operations(mul=1, cmp=3, special=1),  # x << bits, whether it exceeds 1, log times scale, a limit
    # noise = (up smoothing + noise (1 - smoothing)) >> bits, up to up = x << bits;
    # y = max((up - noise) >> bits, (x least) >> bits)
    "signal_spectral_subtraction": Operations(fma=1, mul=2, add=1, cmp=6),
    # gain: a piece of a quadratic polynomial, found by the highest bit, with six shifts and masks and one rounding;
    # s = (x gain) >> bits; y = s < limit ? (s s) >> bits : (s >> bits) - 1
    "signal_pcan": Operations(fma=2, mul=2, add=2, cmp=10),
}
"""The operations for one element."""


@covers(PER_ELEMENT)
@element_wise
def calc_signal_channels(layer: Layer) -> Cost:
    """One function of each element, by the table."""
    return Cost(PER_ELEMENT[layer.op] * layer["x"].size, layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_signal_auto_scale(layer: Layer) -> Cost:
    """Elements shifted so that the largest has no zero bit before it: |x| (add), a maximum and a shift (cmp)."""
    return Cost(Operations(add=1, cmp=2) * layer["x"].size, layer.read, layer.written, layer.attrs)


@covers("signal_rfft", "signal_irfft")
@pattern("opaque")
def calc_signal_fft(layer: Layer) -> Cost:
    """Real transform of each frame, padded to ``length``, or its inverse: ``real_fft``, ``inverse_real_fft``.

    A spectrum has real and imaginary parts in turn: ``length + 2`` numbers.
    """
    length, is_inverse = layer.attrs["length"], layer.op == "signal_irfft"
    frames = (layer.out if not is_inverse else layer["x"]).size // (length + 2)
    time, bins = Tensor((frames, length), layer.out.dtype), Tensor((frames, length // 2 + 1), "complex64")
    op, x, y = ("inverse_real_fft", bins, time) if is_inverse else ("real_fft", time, bins)
    operations = Cost(*calculators()[op](Layer(op, {"x": x}, [y], {"axes": (1,)}))).flops
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_signal_energy(layer: Layer) -> Cost:
    """Energies re re + im im (mul, fma) of the bins from ``start`` up to ``stop``; no others are read."""
    x, y = layer["x"], layer.out
    bins = layer.attrs["stop"] - layer.attrs["start"]
    read, written = (Tensor((n * bins,), tensor.dtype).nbytes for n, tensor in ((2, x), (1, y)))
    return Cost(Operations(fma=bins, mul=bins), read, written, layer.attrs)


@pattern("product")
def calc_signal_filter_bank(layer: Layer) -> Cost:
    """Each energy in two neighboring triangles: two products for every stored pair of a weight and its complement.

    The weights of a channel are stored up to a multiple of four bytes; those that fill it up are included.
    """
    macs = layer["weights"].size + layer["complements"].size
    return Cost(Operations(fma=macs), layer.read, layer.written, layer.attrs, macs)


@pattern("opaque")
def calc_signal_overlap_add(layer: Layer) -> Cost:
    """Frames added up where they overlap: every element of x to a sum."""
    return Cost(Operations(add=layer["x"].size), layer.read, layer.written, layer.attrs)


CALCULATORS: Mapping[str, Calculator] = {
    **dict.fromkeys(PER_ELEMENT, calc_signal_channels),
    "signal_auto_scale": calc_signal_auto_scale,
    "signal_energy": calc_signal_energy,
    "signal_filter_bank": calc_signal_filter_bank,
    "signal_irfft": calc_signal_fft,
    "signal_overlap_add": calc_signal_overlap_add,
    "signal_rfft": calc_signal_fft,
}


def _length(position: str) -> Source:
    """Return a source for the length of a transform, by the size of the last axis of its spectrum."""

    def read(a: Arguments) -> int:
        spectrum = a[position][0].shape[-1:]
        return max(int(spectrum[0]) - 2, 1) if spectrum and isinstance(spectrum[0], int) else 1

    return read


def _bin(name: str, default: int | None) -> Source:
    """Return a source for the first bin whose energy is computed, or the one after the last."""

    def read(a: Arguments) -> Any:
        bins = a["outputs"][0].size
        found = a.get(name, default)
        return bins if found is None or not isinstance(bins, int) else min(max(found, 0), bins)

    return read


BANK: Mapping[str, Source] = {
    name: operand(i) for i, name in enumerate(("x", "weights", "complements", "bins", "starts", "widths"))
}

FLEX: Mapping[str, str] = {
    **{
        name: name.lower()
        for name in (
            *("Abs", "Acos", "Asin", "Atan", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Expm1", "Floor", "Log", "Log1p"),
            *("Neg", "Reciprocal", "Relu", "Relu6", "Rsqrt", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign"),
            *("Sqrt", "Square", "Tan", "Tanh"),
        )
    },
    "Cast": "cast",
    "Cumsum": "cumsum",
    "ExpandDims": "reshape",
    "Reshape": "reshape",
    "Shape": "shape",
    "Squeeze": "reshape",
    "StridedSlice": "slice",
    "Transpose": "transpose",
}
"""Operators of TensorFlow with one operand, as files that need the Flex delegate name them after ``Flex``."""

FLEX_OF_TWO: Mapping[str, str] = {
    **{name: name.lower() for name in ("Add", "Equal", "Greater", "Less", "Maximum", "Minimum", "Mul", "Pow", "Sub")},
    "AddV2": "add",
    "Div": "div",
    "FloorDiv": "floor_div",
    "RealDiv": "div",
    "SquaredDifference": "squared_difference",
}
"""Operators of TensorFlow with two operands."""


def _weight(a: Arguments) -> Any:
    """Return the weights of MediaPipe's transposed convolution, ``[O, h, w, I]``, as ``[I, O, h, w]``."""
    return a["inputs"][1].permuted(3, 0, 1, 2)


def _raw(position: int) -> Callable[[Arguments], int]:
    """Return a source for a positive integer of options that are a structure in C.

    The source raises CostError if the options are shorter.
    """

    def read(a: Arguments) -> int:
        given = a.get("raw", ())
        if len(given) <= position or given[position] < 1:
            raise CostError(f"option {position} of a custom operator is missing, or not positive (options {given})")
        return int(given[position])

    return read


_OTHERS: tuple[Row, ...] = (
    row(
        "TFLite_Detection_PostProcess",
        "ssd_postprocess",
        {"x": operand(0), "scores": operand(1), "anchors": operand(2)},
        kept=lambda a: max(a.get("detections_per_class" if a.get("use_regular_nms") else "max_detections", 100), 1),
        regular=lambda a: bool(a.get("use_regular_nms")) or None,
    ),
    Row(
        "tflite::Convolution2DTransposeBias",
        "conv_transpose",
        {"x": image(0), "w": _weight, "b": operand(2)},
        {"kernel": lambda a: a["inputs"][1].shape[1:3], "stride": lambda a: (_raw(2)(a), _raw(1)(a))},
        outputs=images,
    ),
    Row(
        "tflite::MaxPoolingWithArgmax2D",
        "max_pool",
        {"x": image(0)},
        {"kernel": lambda a: (_raw(4)(a), _raw(3)(a)), "stride": lambda a: (_raw(2)(a), _raw(1)(a))},
        outputs=lambda a, values: images(a, values[:1]),
    ),
    *(
        row(native, "unpool", {"x": operand(0), "indices": operand(1)})
        for native in ("LiteRtMaxUnpooling2D", "MaxUnpooling2D")
    ),
    *(row(f"Flex{name}", op, X) for name, op in FLEX.items()),
    *(row(f"Flex{name}", op, XS) for name, op in FLEX_OF_TWO.items()),
)

ROWS: tuple[Row, ...] = (
    *_OTHERS,
    row("SignalWindow", "signal_window", {**X, "window": operand(1)}),
    row("SignalFftAutoScale", "signal_auto_scale", X),
    row("SignalRfft", "signal_rfft", X, length=_length("outputs")),
    row("SignalIrfft", "signal_irfft", X, length=_length("inputs")),
    row("SignalEnergy", "signal_energy", X, start=_bin("start_index", 0), stop=_bin("end_index", None)),
    row("SignalFilterBank", "signal_filter_bank", BANK),
    row("SignalFilterBankSquareRoot", "signal_square_root", {**X, "scale_bits": operand(1)}),
    row("SignalFilterBankSpectralSubtraction", "signal_spectral_subtraction", X),
    row("SignalPCAN", "signal_pcan", {**X, "noise": operand(1), "table": operand(2)}),
    row("SignalFilterBankLog", "signal_log", X),
    row("SignalOverlapAdd", "signal_overlap_add", X),
    *(row(f"Signal{name}", "copy", X) for name in ("Delay", "Framer", "Stacker")),
)

SIGNATURES: Mapping[str, tuple[int | None, ...]] = {
    **{entry.native.removeprefix("tflite::"): (None,) for entry in ROWS},
    "SignalWindow": (None, None),
    "TFLite_Detection_PostProcess": (None, 3, 2),
    "Convolution2DTransposeBias": (4, 4),
    "MaxPoolingWithArgmax2D": (4,),
    **dict.fromkeys(("LiteRtMaxUnpooling2D", "MaxUnpooling2D"), (None, None)),
    "SignalFilterBank": (None, None, None),
}
"""The operands that an operator needs."""
