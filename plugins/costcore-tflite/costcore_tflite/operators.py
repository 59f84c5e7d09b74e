"""Formulas that only TensorFlow Lite needs, custom operators, and the table of all mapping rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from costcore.errors import CostError
from costcore.graphs.graph import XS, X, operand
from costcore.ir import (
    Calculator,
    Cost,
    Layer,
    Operations,
    Tensor,
    ceil_log2,
    covers,
    element_wise,
    layout_operator,
    pattern,
)
from costcore.numbers import minimum
from costcore.registry import calculators
from costcore.translate import Arguments, Row, Source

from .rows import ELEMENT_ROWS, MOVEMENT_ROWS, PRODUCT_ROWS, WINDOW_ROWS, image, images, row

ACTIVATION: Mapping[str, Operations] = {
    "relu": Operations(cmp=1),
    "relu6": Operations(cmp=2),
    "hard_tanh": Operations(cmp=2),
    "tanh": Operations(special=1),
    "signbit": Operations(cmp=1),
}
"""Operations per element of fused activations."""

ACTIVATED = ("add", "avg_pool", "concat", "conv_transpose", "div", "lp_pool", "max_pool", "mul", "sub")
"""Operators that may have a fused activation, besides convolutions and linear layers."""


@pattern("opaque")
def calc_activated(layer: Layer) -> Cost:
    """An operator with a fused activation: its own formula, plus the activation of every output element."""
    op = layer.op.removeprefix("activated_")
    cost = Cost(*calculators()[op](Layer(op, layer.inputs, layer.outputs, layer.attrs)))
    plain = cost.flops if isinstance(cost.flops, Operations) else Operations(add=cost.flops)
    operations = plain + layer.out.size * ACTIVATION[layer.attrs["activation"]]
    return cost._replace(flops=operations, params=layer.attrs)


@pattern("move")
@layout_operator
def calc_space_to_batch(layer: Layer) -> Cost:
    """Blocks of space moved to samples, or back: every element is copied, also padded or cropped ones."""
    return Cost(Operations(), layer["x"].nbytes, layer.written, layer.attrs)


@pattern("product")
def calc_gated_lstm(layer: Layer) -> Cost:
    """LSTM with separate weights for each gate: i, f, g, o from input and state, as in ``lstm``.

    * Each of G gates is a dot product of length I + P per step and unit, starting at the bias; G is 3 if the input gate
      is tied to the forget gate, which takes 1 add.
    * Three sigmoids and two tanh, f c (mul), + i g (fma), o tanh(c') (mul), as ``lstm`` counts them.
    * ``directions``: 2 if it runs forward and backward, with weights of each.
    * ``w_projection`` [P, H]: a dot product of length H for each of P outputs.
    * Peepholes: 1 fma per unit, for each gate with a peephole. Norms: a ``layer_norm`` of each normalized gate.

    Source: the reference kernel of TensorFlow Lite, ``lstm_eval.cc``.
    """
    weights = [tensor for name, tensor in layer.inputs.items() if name[0] == "w" and name[1:].isdigit()]
    directions = layer.attrs.get("directions", 1)
    gates, units = len(weights) // 2 // directions, weights[0].shape[0] * directions
    steps = layer.attrs["steps"]
    macs = steps * sum(weight.size for weight in weights)
    operations = Operations(fma=macs)
    sigmoid, tanh = Operations(add=1, div=1, special=1), Operations(special=1)
    operations += steps * units * ((gates - 1) * sigmoid + 2 * tanh + Operations(fma=1, mul=2))
    if gates == 3:
        operations += Operations(add=steps * units)
    peepholes = sum(tensor.size for name, tensor in layer.inputs.items() if name.startswith("w_peephole"))
    operations += Operations(fma=steps * peepholes)
    norms = sum(tensor.size for name, tensor in layer.inputs.items() if name.startswith("w_norm"))
    operations += steps * norms * Operations(fma=2, add=2, mul=1, div=1)
    if "w_projection" in layer:
        projected = steps * layer["w_projection"].size
        operations, macs = operations + Operations(fma=projected), macs + projected
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


@pattern("product")
def calc_svdf(layer: Layer) -> Cost:
    """Singular value decomposition filter: a feature vector, a filter over the last T features, and a sum over ranks.

    Per sample, with F filters of rank R over I inputs and T steps of memory: F I products for the features, F T for the
    filters over time, F - F / R add for the sum over ranks, and F / R add of the bias.

    Source: Nakkiran et al., "Compressing Deep Neural Networks using a Rank-Constrained Topology", 2015.
    """
    batch, (filters, steps) = layer["x"].shape[0], layer["w1"].shape
    macs = batch * (layer["w0"].size + filters * steps)
    sums = batch * (filters - filters // layer.attrs["rank"]) + (layer.out.size if "b" in layer else 0)
    return Cost(Operations(fma=macs, add=sums), layer.read, layer.written, layer.attrs, macs)


@pattern("opaque")
def calc_ssd_postprocess(layer: Layer) -> Cost:
    """Boxes of anchors, and a suppression over the best class of each, or (``regular``) over each class.

    * A box: its center (``v / scale * h + c``: 1 div and 1 fma each), half its size (``exp(v / scale) * h / 2``: 1 div,
      2 mul, 1 special each), its corners (4 add).
    * The best of C classes of each anchor: C - 1 cmp. A sort of N scores.
    * The overlap of each of ``kept`` boxes with those after it, at most: 3 mul, 8 add, 1 div, 7 cmp.

    Source: the kernel of TensorFlow Lite, ``detection_postprocess.cc``.

    Shapes: x[1, N, 4], scores[1, N, C], anchors[N, 4] -> y[1, K, 4]
    Settings: kept=10
    """
    scores = layer["scores"]
    n, classes = scores.shape[-2:]
    box = Operations(div=4, fma=2, mul=4, special=2, add=4)
    lists = classes if layer.attrs.get("regular") else 1
    kept = minimum(n, layer.attrs["kept"])
    pairs = kept * (2 * n - kept - 1) // 2
    operations = n * box + (0 if layer.attrs.get("regular") else n * (classes - 1)) * Operations(cmp=1)
    operations += lists * (Operations(cmp=n * ceil_log2(n)) + pairs * Operations(mul=3, add=8, div=1, cmp=7))
    return Cost(operations, layer.read, layer.written, layer.attrs)


OWN_CALCULATORS: Mapping[str, Calculator] = {
    **{f"activated_{op}": calc_activated for op in ACTIVATED},
    "gated_lstm": calc_gated_lstm,
    "space_to_batch": calc_space_to_batch,
    "ssd_postprocess": calc_ssd_postprocess,
    "svdf": calc_svdf,
}


# Custom operators for audio features and detection, of MediaPipe, and of TensorFlow (``Flex…``).
#
# Sources: the kernels in ``signal/src`` of tflite-micro, which compute in integers: shifts count as ``cmp``; the
# kernels of TensorFlow Lite and of ``mediapipe/util/tflite/operations``.

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
    """Elementwise functions of :data:`PER_ELEMENT`."""
    return Cost(PER_ELEMENT[layer.op] * layer["x"].size, layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_signal_auto_scale(layer: Layer) -> Cost:
    """Elements shifted so that the largest uses all bits: |x| (add), a maximum and a shift (cmp)."""
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

    The weights of a channel are padded to a multiple of four bytes; the padding is counted.
    """
    macs = layer["weights"].size + layer["complements"].size
    return Cost(Operations(fma=macs), layer.read, layer.written, layer.attrs, macs)


@pattern("opaque")
def calc_signal_overlap_add(layer: Layer) -> Cost:
    """Sum of overlapping frames: 1 add per element of x."""
    return Cost(Operations(add=layer["x"].size), layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_audio_spectrogram(layer: Layer) -> Cost:
    """Windows of samples (mul), the real transform of each, padded to a power of 2, and magnitudes.

    A magnitude is re re + im im (mul, fma) of each bin, or its square root (special).

    Source: the kernels of TensorFlow Lite, ``audio_spectrogram.cc`` and ``spectrogram.cc``.
    """
    windows, bins = layer.out.size // layer.out.shape[-1], layer.out.shape[-1]
    time, spectrum = Tensor((windows, 2 * (bins - 1)), "float32"), Tensor((windows, bins), "complex64")
    operations = Cost(*calculators()["real_fft"](Layer("real_fft", {"x": time}, [spectrum], {"axes": (1,)}))).flops
    magnitude = Operations(mul=1, fma=1, special=0 if layer.attrs["is_squared"] else 1)
    operations += windows * layer.attrs["window"] * Operations(mul=1) + layer.out.size * magnitude
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_mfcc(layer: Layer) -> Cost:
    """Mel-frequency cepstral coefficients of each spectrum: a bank of triangles, logarithms, and a cosine transform.

    * A bin: its square root (special), its share of two neighboring triangles (1 mul, 3 add). All bins are counted;
      the kernel skips those outside of the frequencies that its options give.
    * A channel: a lower limit (cmp) and the logarithm (special); a dot product over channels for each coefficient.

    Source: the kernels of TensorFlow Lite, ``mfcc.cc``, ``mfcc_mel_filterbank.cc`` and ``mfcc_dct.cc``.
    """
    x, channels = layer["x"], layer.attrs["channels"]
    macs = layer.out.size * channels
    operations = x.size * Operations(special=1, mul=1, add=3) + Operations(fma=macs)
    operations += x.size // x.shape[-1] * channels * Operations(cmp=1, special=1)
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


CUSTOM_CALCULATORS: Mapping[str, Calculator] = {
    "audio_spectrogram": calc_audio_spectrogram,
    "mfcc": calc_mfcc,
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
"""TensorFlow operators with one operand. Files for the Flex delegate prefix their names with ``Flex``."""

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
    """Return a source for a positive integer of options in the form of a C structure.

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
    row(
        "AudioSpectrogram",
        "audio_spectrogram",
        X,
        window=lambda a: a.get("window_size", 0),
        is_squared=lambda a: bool(a.get("magnitude_squared")),
    ),
    row("Mfcc", "mfcc", {**X, "rate": operand(1)}, channels=lambda a: a.get("filterbank_channel_count", 40)),
    *(row(f"Flex{name}", op, X) for name, op in FLEX.items()),
    *(row(f"Flex{name}", op, XS) for name, op in FLEX_OF_TWO.items()),
)

CUSTOM_ROWS: tuple[Row, ...] = (
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

CUSTOM_SIGNATURES: Mapping[str, tuple[int | None, ...]] = {
    **{entry.native.removeprefix("tflite::"): (None,) for entry in CUSTOM_ROWS},
    "AudioSpectrogram": (2,),
    "Mfcc": (3, None),
    "SignalWindow": (None, None),
    "TFLite_Detection_PostProcess": (None, 3, 2),
    "Convolution2DTransposeBias": (4, 4),
    "MaxPoolingWithArgmax2D": (4,),
    **dict.fromkeys(("LiteRtMaxUnpooling2D", "MaxUnpooling2D"), (None, None)),
    "SignalFilterBank": (None, None, None),
}
"""The operands that an operator needs."""


# All mapping rules of this frontend.

ROWS: tuple[Row, ...] = (*WINDOW_ROWS, *PRODUCT_ROWS, *ELEMENT_ROWS, *MOVEMENT_ROWS, *CUSTOM_ROWS)

SIGNATURES: Mapping[str, tuple[int | None, ...]] = {
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D"), (4, 4)),
    "CONV_3D": (5, 5),
    "CONV_3D_TRANSPOSE": (None, 5, 5),
    "TRANSPOSE_CONV": (None, 4, 4),
    **dict.fromkeys(("AVERAGE_POOL_2D", "L2_POOL_2D", "LOCAL_RESPONSE_NORMALIZATION", "MAX_POOL_2D"), (4,)),
    **dict.fromkeys(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), (4,)),
    "FULLY_CONNECTED": (None, 2),
    "SVDF": (2, 2, 2),
    **dict.fromkeys(("RNN", "UNIDIRECTIONAL_SEQUENCE_RNN"), (None, 2, 2)),
    **dict.fromkeys(("BATCH_MATMUL", "DYNAMIC_UPDATE_SLICE", "EMBEDDING_LOOKUP", "GATHER", "GATHER_ND"), (None, None)),
    **dict.fromkeys(("SPLIT", "PRELU"), (None, None)),
    **dict.fromkeys(("DILATE", "STABLEHLO_DOT_GENERAL", "STABLEHLO_GATHER"), (None, None)),
    "BIDIRECTIONAL_SEQUENCE_LSTM": (3,),
    "BIDIRECTIONAL_SEQUENCE_RNN": (3, 2, 2, 1, None, 2, 2, 1),
    "REDUCE_WINDOW": (None, None, None),
    **dict.fromkeys(("STABLEHLO_COMPARE", "STABLEHLO_CONVOLUTION"), (None, None)),
    **dict.fromkeys(("ASSIGN_VARIABLE", "MATRIX_SET_DIAG", "REVERSE_SEQUENCE", "SCATTER_ND"), (None, None)),
    **dict.fromkeys(("STABLEHLO_DYNAMIC_SLICE", "STABLEHLO_DYNAMIC_UPDATE_SLICE"), (None, None)),
    **dict.fromkeys(("SELECT", "SELECT_V2", "SPARSE_TO_DENSE", "STABLEHLO_CLAMP", "STABLEHLO_SCATTER"), (None,) * 3),
    **dict.fromkeys(("FILL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM", "RANGE", "STABLEHLO_IOTA", "VAR_HANDLE"), ()),
    "STABLEHLO_RNG_BIT_GENERATOR": (),
    **CUSTOM_SIGNATURES,
}
"""The rank of each required operand, None for any rank. Other operators need one operand."""

LEARNED_BY = frozenset(
    (
        *("ADD", "SUB", "MUL", "DIV", "GATHER", "BATCH_MATMUL", "EMBEDDING_LOOKUP"),
        *("BIDIRECTIONAL_SEQUENCE_LSTM", "LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM"),  # peepholes, norms and projections
    )
)
"""Operators whose constants of several real numbers are learned. Rows of layers name their learned operands."""

WITHOUT_RESULT = frozenset(("ASSIGN_VARIABLE", "CALL_ONCE", "HASHTABLE_IMPORT"))
"""Operators that need not have a result."""

WALKED = frozenset(("CALL", "CALL_ONCE", "DENSIFY", "IF", "STABLEHLO_COMPOSITE", "STABLEHLO_WHILE", "WHILE"))
"""Operators without a row: the walker records the graphs that they run; DENSIFY runs before the first pass."""

NOT_PRICED = {
    "CONCAT_EMBEDDINGS": "no kernel in the runtime",
    "CUSTOM": "each custom operator has a name of its own",
    "DELEGATE": "what a delegate runs is not in the file",
    "EMBEDDING_LOOKUP_SPARSE": "the work depends on data",
    "HASHTABLE": "tables of strings",
    "HASHTABLE_FIND": "tables of strings",
    "HASHTABLE_IMPORT": "tables of strings",
    "HASHTABLE_LOOKUP": "the work depends on data",
    "HASHTABLE_SIZE": "tables of strings",
    "LSH_PROJECTION": "the work depends on data",
    "PLACEHOLDER_FOR_GREATER_OP_CODES": "no operator",
    "SKIP_GRAM": "text",
    "STABLEHLO_CUSTOM_CALL": "each custom operator has a name of its own",
}
"""Builtin operators without a formula, and why. Their calls are listed as not counted, with their shapes."""
