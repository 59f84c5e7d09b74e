"""The mapping rules of the operators of TensorFlow Lite, by family."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tflite

from costcore.graphs import GraphValue
from costcore.graphs.graph import XS, X, given, operand
from costcore.ir import is_symbolic, prod
from costcore.translate import Arguments, Row, Source

ACTIVATIONS: Mapping[int, str] = {
    tflite.ActivationFunctionType.RELU: "relu",
    tflite.ActivationFunctionType.RELU_N1_TO_1: "hard_tanh",
    tflite.ActivationFunctionType.RELU6: "relu6",
    tflite.ActivationFunctionType.TANH: "tanh",
    tflite.ActivationFunctionType.SIGN_BIT: "signbit",
}
"""Canonical names of fused activations."""

LIMITS = ("relu", "relu6", "hard_tanh")
"""Activations that cost nothing in a quantized operator, because its result is clamped anyway."""

TO_CHANNELS_FIRST = {3: (0, 2, 1), 4: (0, 3, 1, 2), 5: (0, 4, 1, 2, 3)}


COMBINATIONS: Mapping[tuple[str, ...], str] = {
    (): "none",
    **dict.fromkeys((("ADD",), ("STABLEHLO_ADD",)), "add"),
    **dict.fromkeys((("MUL",), ("STABLEHLO_MULTIPLY",)), "mul"),
    **dict.fromkeys((("MAXIMUM",), ("STABLEHLO_MAXIMUM",)), "max"),
    **dict.fromkeys((("MINIMUM",), ("STABLEHLO_MINIMUM",)), "min"),
}
"""The combination of two elements in a scatter or reduction, by the operators of its graph; () replaces."""


def numbers(a: Arguments, position: int) -> tuple[int, ...] | None:
    """Return the elements of a small constant operand; None if they are not known."""
    value = given(a, position)
    return None if value is None else value.data


def channels_first(value: GraphValue) -> GraphValue:
    """Return images ``[N, H, W, C]`` with the axes of formulas, ``[N, C, H, W]``; other values unchanged."""
    axes = TO_CHANNELS_FIRST.get(value.ndim)
    return value.permuted(*axes) if axes else value


def image(position: int) -> Source:
    """Return a source for images by their position among the operands."""
    return lambda a: channels_first(a["inputs"][position])


def images(a: Arguments, outputs: Sequence[Any]) -> Sequence[Any]:
    """Return the results with the axes of formulas."""
    return [channels_first(value) for value in outputs]


def axis_of(a: Arguments, axis: int, position: int = 0) -> int:
    """Return an axis of an operand, counted from the front."""
    rank: int = given(a, position).ndim
    return axis % max(rank, 1)


def axes_of(a: Arguments, position: int) -> tuple[int, ...] | None:
    """Return the axes that a constant operand lists; None if they are not known."""
    found = numbers(a, position)
    return None if found is None else tuple(sorted({axis_of(a, axis) for axis in found}))


def is_quantized(a: Arguments, position: int = 0) -> bool:
    """Return whether an operand is quantized."""
    value = given(a, position)
    return value is not None and getattr(value, "scale", None) is not None and value.dtype.startswith(("int", "uint"))


def is_hybrid(a: Arguments) -> bool:
    """Return whether weights are quantized and the input is not, as after dynamic-range quantization."""
    return is_quantized(a, 1) and not is_quantized(a)


def quantization(operands: Mapping[str, int]) -> dict[str, Source]:
    """Return sources for scales and zero points of operands by position, and of the result ``y``."""

    def read(position: int, attribute: str) -> Source:
        def source(a: Arguments) -> Any:
            value = a["outputs"][0] if position < 0 else given(a, position)
            return getattr(value, attribute, None)

        return source

    return {
        f"{name}_{attribute}": read(position, attribute)
        for name, position in {**operands, "y": -1}.items()
        for attribute in ("scale", "zero_point")
    }


def activation(a: Arguments) -> str | None:
    """Return the fused activation of an operator; None if it has none, or if it costs nothing."""
    found = ACTIVATIONS.get(a.get("FusedActivationFunction", 0))
    return None if found in LIMITS and is_quantized(a) else found


def has_activation(a: Arguments) -> bool:
    """Return whether an operator has a fused activation that costs something."""
    return activation(a) is not None


def row(native: str, op: str | Callable[[Arguments], str], inputs: Mapping[str, Source], **attrs: Source) -> Row:
    """Return the row of a builtin operator."""
    return Row(f"tflite::{native}", op, inputs, attrs)


def constant(value: Any) -> Source:
    """Return a source for a fixed attribute."""
    return lambda a: value


# Rows of operators on images ``[N, H, W, C]``, such as convolutions and pooling.

WEIGHTS: Mapping[str, tuple[int, ...]] = {
    "CONV_2D": (0, 3, 1, 2),
    "DEPTHWISE_CONV_2D": (3, 0, 1, 2),
    "TRANSPOSE_CONV": (3, 0, 1, 2),
    "CONV_3D": (4, 3, 0, 1, 2),
    "CONV_3D_TRANSPOSE": (4, 3, 0, 1, 2),
}
"""The axes of weights in the order of the formulas: ``[O, I, k…]``, of transposed convolutions ``[I, O, k…]``."""


def _spatial(a: Arguments, name: str, rank: int) -> tuple[int, ...]:
    """Return an option that has one number per axis: ``StrideH``, ``StrideW``; at least 1."""
    ends = ("D", "H", "W")[3 - rank :]
    return tuple(max(a.get(f"{name}{end}", 1), 1) for end in ends)


def _padding(kernel: Callable[[Arguments], tuple[Any, ...]], is_transposed: bool = False) -> Source:
    """Return a source for the padding: SAME gives ``ceil(size / stride)`` outputs, with more padding at the end."""

    def read(a: Arguments) -> Any:
        if a.get("Padding", tflite.Padding.VALID) != tflite.Padding.SAME:
            return None
        sizes = kernel(a)
        x, y = a["inputs"][2 if is_transposed else 0], a["outputs"][0]
        small, large = (x, y) if is_transposed else (y, x)
        stride, dilation = _spatial(a, "Stride", len(sizes)), _dilation(a, len(sizes))
        places = zip(sizes, stride, dilation, small.shape[1:-1], large.shape[1:-1], strict=True)
        totals = [(count - 1) * step + (k - 1) * d + 1 - size for k, step, d, count, size in places]
        if any(map(is_symbolic, totals)):
            return None
        pairs = [(max(total, 0) // 2, max(total, 0) - max(total, 0) // 2) for total in totals]
        return tuple(a for a, _ in pairs) if all(a == b for a, b in pairs) else tuple(pairs)

    return read


def _dilation(a: Arguments, rank: int) -> tuple[int, ...]:
    ends = ("D", "H", "W")[3 - rank :]
    return tuple(max(a.get(f"Dilation{end}Factor", 1), 1) for end in ends)


def _convolution(native: str, formula: str, x: int, w: int, b: int) -> tuple[Row, ...]:
    """Return the rows of a convolution: with quantized weights, quantized, with an activation, and plain."""
    order = WEIGHTS[native]
    rank, is_transposed = len(order) - 2, formula == "conv_transpose"

    def weight(a: Arguments) -> Any:
        return a["inputs"][w].permuted(*order)

    def kernel(a: Arguments) -> tuple[Any, ...]:
        found: tuple[Any, ...] = weight(a).shape[2:]
        return found

    def groups(a: Arguments) -> Any:
        channels, inside = a["inputs"][x].shape[-1], weight(a).shape[0 if is_transposed else 1]
        return channels // inside if inside else 1

    attrs: dict[str, Source] = {
        "kernel": kernel,
        "stride": lambda a: _spatial(a, "Stride", rank),
        "padding": _padding(kernel, is_transposed),
        "dilation": lambda a: _dilation(a, rank),
        "groups": groups,
        "activation": activation,
    }
    inputs: dict[str, Source] = {"x": image(x), "w": weight, "b": operand(b)}
    scales = quantization({"x": x, "w": w})
    weight_scales = {name: source for name, source in scales.items() if name.startswith("w_")}
    name = f"tflite::{native}"
    return (
        Row(name, f"dynamic_quantized_{formula}", {**inputs, **weight_scales}, attrs, is_hybrid, images),
        Row(name, f"quantized_{formula}", {**inputs, **scales}, attrs, lambda a: is_quantized(a, x), images),
        Row(name, f"{'activated' if is_transposed else 'fused'}_{formula}", inputs, attrs, has_activation, images),
        Row(name, formula, inputs, attrs, outputs=images),
    )


def _window(a: Arguments) -> tuple[int, ...]:
    return (max(a.get("FilterHeight", 1), 1), max(a.get("FilterWidth", 1), 1))


def _pool(native: str, formula: str, **attrs: Source) -> tuple[Row, ...]:
    """Return the rows of a pooling, with an activation and without."""
    settings: dict[str, Source] = {
        "kernel": _window,
        "stride": lambda a: _spatial(a, "Stride", 2),
        "padding": _padding(_window),
        "activation": activation,
        **attrs,
    }
    name, x = f"tflite::{native}", {"x": image(0)}
    return (
        Row(name, f"activated_{formula}", x, settings, has_activation, images),
        Row(name, formula, x, settings, outputs=images),
    )


def _resize(native: str, mode: str) -> Row:
    return Row(
        f"tflite::{native}",
        "resize",
        {"x": image(0)},
        {
            "mode": lambda a: mode,
            "align_corners": lambda a: True if a.get("AlignCorners") else None,
            "coordinates": lambda a: None if a.get("HalfPixelCenters") or a.get("AlignCorners") else "asymmetric",
        },
        outputs=images,
    )


def _ordered(position: int, *names: str) -> Callable[[Arguments], Any]:
    """Return a source for an operand of a StableHLO convolution with its axes in the order of the formulas."""

    def read(a: Arguments) -> Any:
        value = a["inputs"][position] if position >= 0 else a["outputs"][0]
        first, second = (int(a.get(name, 0)) for name in names[:2])
        axes = [first, second, *map(int, a.get(names[2], ()))]
        return value.permuted(*axes) if sorted(axes) == list(range(value.ndim)) else value

    return read


INPUT = _ordered(0, "InputBatchDimension", "InputFeatureDimension", "InputSpatialDimensions")
KERNEL = _ordered(1, "KernelOutputFeatureDimension", "KernelInputFeatureDimension", "KernelSpatialDimensions")
OUTPUT = _ordered(-1, "OutputBatchDimension", "OutputFeatureDimension", "OutputSpatialDimensions")

FUNCTIONS = {1: "add", 2: "mul", 3: "min", 4: "max", 5: "min", 6: "max"}
"""The function of REDUCE_WINDOW by its number: sum, product, minimum, maximum, all and any."""


def _reduced_window(a: Arguments) -> Sequence[Any]:
    """Return the sizes of a window; an unknown size is the size of x."""
    sizes = a.get("WindowDimensions") or numbers(a, 2)
    return tuple(map(int, sizes)) if sizes else a["inputs"][0].shape


WINDOW_ROWS: tuple[Row, ...] = (
    Row(
        "tflite::STABLEHLO_CONVOLUTION",
        "conv",
        {"x": INPUT, "w": KERNEL},
        {
            "kernel": lambda a: KERNEL(a).shape[2:],
            "stride": "WindowStrides",
            "groups": lambda a: max(int(a.get("FeatureGroupCount", 1)), 1),
        },
        outputs=lambda a, values: [OUTPUT(a)],
    ),
    Row(
        "tflite::STABLEHLO_REDUCE_WINDOW",
        "window_reduction",
        X,
        {"kernel": _reduced_window, "by": lambda a: COMBINATIONS[a["update"]]},
        when=lambda a: COMBINATIONS.get(a.get("update", ("?",)), "none") != "none",
    ),
    Row(
        "tflite::REDUCE_WINDOW",
        "window_reduction",
        X,
        {"kernel": _reduced_window, "by": lambda a: FUNCTIONS[a["ReduceFunction"]]},
        when=lambda a: a.get("ReduceFunction") in FUNCTIONS,
    ),
    *_convolution("CONV_2D", "conv", 0, 1, 2),
    *_convolution("DEPTHWISE_CONV_2D", "conv", 0, 1, 2),
    *_convolution("CONV_3D", "conv", 0, 1, 2),
    *_convolution("TRANSPOSE_CONV", "conv_transpose", 2, 1, 3),
    *_convolution("CONV_3D_TRANSPOSE", "conv_transpose", 2, 1, 3),
    *_pool("AVERAGE_POOL_2D", "avg_pool"),
    *_pool("MAX_POOL_2D", "max_pool"),
    *_pool("L2_POOL_2D", "lp_pool", p=lambda a: 2),
    _resize("RESIZE_BILINEAR", "linear"),
    _resize("RESIZE_NEAREST_NEIGHBOR", "nearest"),
    Row(
        "tflite::LOCAL_RESPONSE_NORMALIZATION",
        "local_response_norm",
        {"x": image(0)},
        {"size": lambda a: 2 * a.get("Radius", 0) + 1},
        outputs=images,
    ),
    row("DEPTH_TO_SPACE", "depth_to_space", {"x": operand(0)}, block="BlockSize"),
    row("SPACE_TO_DEPTH", "space_to_depth", {"x": operand(0)}, block="BlockSize"),
)


# Rows of matrix products and recurrent layers.


def _features(a: Arguments) -> Any:
    """Return the input of a linear layer as rows of features."""
    x, weight = a["inputs"][0], a["inputs"][1]
    width = weight.shape[-1]
    return x if x.ndim and x.shape[-1] == width else x.viewed(x.size // width if width else 0, width)


def _units(a: Arguments, outputs: Sequence[Any]) -> Sequence[Any]:
    """Return the output of a linear layer as rows of units."""
    y, count = outputs[0], a["inputs"][1].shape[0]
    return [y if y.ndim and y.shape[-1] == count else y.viewed(y.size // count if count else 0, count)]


LINEAR = {"x": _features, "w": operand(1), "b": operand(2)}
SCALES = quantization({"x": 0, "w": 1})
WEIGHT_SCALES = {name: source for name, source in SCALES.items() if name.startswith("w_")}
ACTIVATION = {"activation": activation}
FULLY_CONNECTED = "tflite::FULLY_CONNECTED"


def _side(position: int, adjoint: str) -> Any:
    """Return a source for one side of a matrix product, which may be stored transposed."""

    def read(a: Arguments) -> Any:
        value = a["inputs"][position]
        return value.permuted(*range(value.ndim - 2), -1, -2) if a.get(adjoint) else value

    return read


SIDES = {"x0": _side(0, "AdjX"), "x1": _side(1, "AdjY")}


def _lstm_part(first: int, count: int) -> Any:
    """Return a source that lists the weights of all gates. A tied input gate has none."""
    return lambda a: [value for value in a["inputs"][first : first + count] if value is not None]


LSTM = {
    "x": operand(0),
    "w*": _lstm_part(1, 8),
    "w_peephole*": _lstm_part(9, 3),
    "b*": _lstm_part(12, 4),
    "w_projection": operand(16),
    "b_projection": operand(17),
    "h": operand(18),
    "c": operand(19),
    "w_norm*": _lstm_part(20, 4),
}
"""Operands of an LSTM. Each gate has its own weights."""

BIDIRECTIONAL_LSTM = {
    "x": operand(0),
    "w*": lambda a: [*_lstm_part(1, 8)(a), *_lstm_part(18, 8)(a)],
    "w_peephole*": lambda a: [*_lstm_part(9, 3)(a), *_lstm_part(26, 3)(a)],
    "b*": lambda a: [*_lstm_part(12, 4)(a), *_lstm_part(29, 4)(a)],
}
"""Operands of a bidirectional LSTM."""

RNN = {"x": operand(0), "w0": operand(1), "w1": operand(2), "b0": operand(3), "h0": operand(4)}


def _steps(a: Arguments) -> Any:
    """Return the input of a recurrent layer with its steps first."""
    x = a["inputs"][0]
    return x if a.get("TimeMajor") or x.ndim < 3 else x.permuted(1, 0, 2)


def _equation(a: Arguments) -> str:
    """Return the einsum equation of a product: batch axes, the axes of each side, and the summed axes."""
    left, right = (given(a, i) for i in (0, 1))
    names = iter("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" * 3)
    of_left = {i: next(names) for i in range(left.ndim)}
    pairs = zip(
        (*a.get("LhsBatchingDimensions", ()), *a.get("LhsContractingDimensions", ())),
        (*a.get("RhsBatchingDimensions", ()), *a.get("RhsContractingDimensions", ())),
        strict=False,
    )
    shared = {int(second): of_left.get(int(first), "") for first, second in pairs}
    of_right = {i: shared.get(i) or next(names) for i in range(right.ndim)}
    summed = {of_left.get(int(i)) for i in a.get("LhsContractingDimensions", ())}
    batch = [of_left.get(int(i), "") for i in a.get("LhsBatchingDimensions", ())]
    free = [name for name in (*of_left.values(), *of_right.values()) if name not in (*summed, *batch)]
    return f"{''.join(of_left.values())},{''.join(of_right.values())}->{''.join((*batch, *dict.fromkeys(free)))}"


PRODUCT_ROWS: tuple[Row, ...] = (
    Row(FULLY_CONNECTED, "dynamic_quantized_linear", {**LINEAR, **WEIGHT_SCALES}, ACTIVATION, is_hybrid, _units),
    Row(FULLY_CONNECTED, "quantized_linear", {**LINEAR, **SCALES}, ACTIVATION, is_quantized, _units),
    Row(FULLY_CONNECTED, "fused_linear", LINEAR, ACTIVATION, has_activation, _units),
    Row(FULLY_CONNECTED, "linear", LINEAR, outputs=_units),
    Row(
        "tflite::BATCH_MATMUL",
        "quantized_matmul",
        {**SIDES, **quantization({"x0": 0, "x1": 1})},
        when=lambda a: is_quantized(a) and is_quantized(a, 1),
    ),
    Row("tflite::BATCH_MATMUL", "matmul", SIDES),
    *(
        Row(
            f"tflite::{native}",
            "gated_lstm",
            LSTM,
            {"steps": lambda a: prod(a["inputs"][0].shape[:-1])},
            outputs=lambda a, values: values[:1],
        )
        for native in ("UNIDIRECTIONAL_SEQUENCE_LSTM", "LSTM")
    ),
    *(
        Row(
            f"tflite::{native}",
            "rnn",
            {**RNN, "x": _steps},
            {
                "hidden": lambda a: a["inputs"][1].shape[0],
                "activation": lambda a: "relu" if a.get("FusedActivationFunction") == 1 else "tanh",
            },
            outputs=lambda a, values: values[-1:],
        )
        for native in ("UNIDIRECTIONAL_SEQUENCE_RNN", "RNN")
    ),
    row("STABLEHLO_DOT_GENERAL", "einsum", XS, equation=_equation),
    Row(
        "tflite::BIDIRECTIONAL_SEQUENCE_LSTM",
        "gated_lstm",
        BIDIRECTIONAL_LSTM,
        {"steps": lambda a: prod(a["inputs"][0].shape[:-1]), "directions": lambda a: 2},
        when=lambda a: given(a, 16) is None and given(a, 33) is None,
    ),
    Row(
        "tflite::BIDIRECTIONAL_SEQUENCE_RNN",
        "rnn",
        {**RNN, "x": _steps, "w2": operand(5), "w3": operand(6), "b1": operand(7)},
        {
            "hidden": lambda a: a["inputs"][1].shape[0],
            "bidirectional": lambda a: True,
            "activation": lambda a: "relu" if a.get("FusedActivationFunction") == 1 else "tanh",
        },
    ),
    row(
        "SVDF",
        "svdf",
        {"x": operand(0), "w0": operand(1), "w1": operand(2), "b": operand(3), "state": operand(4)},
        rank=lambda a: max(a.get("Rank", 1), 1),
    ),
    row(
        "EMBEDDING_LOOKUP",
        "embedding",
        {"x": operand(0), "w": operand(1)},
    ),
)


def is_learned_table(a: Arguments) -> bool:
    """Return whether a gather looks rows up in a learned matrix."""
    table, indices = given(a, 0), given(a, 1)
    is_matrix = table is not None and table.is_stored and table.ndim == 2
    return bool(is_matrix and indices is not None and not indices.is_stored and a.get("Axis", 0) == 0)


# Rows of elementwise operators, activations, reductions and norms.

UNARY: Mapping[str, str] = {
    **{
        native: native.lower()
        for native in (
            *("ABS", "CEIL", "COS", "EXP", "FLOOR", "LOG", "LOGICAL_NOT", "NEG", "RELU", "RELU6", "ROUND", "RSQRT"),
            *("SIGN", "SIN", "SQRT", "SQUARE", "TANH"),
        )
    },
    "COMPLEX_ABS": "abs",
    "RELU_N1_TO_1": "hard_tanh",
    "RELU_0_TO_1": "hard_tanh",
    "ELU": "elu",
    "STABLEHLO_ABS": "abs",
    "STABLEHLO_CBRT": "cbrt",
    "STABLEHLO_COSINE": "cos",
    "STABLEHLO_EXPONENTIAL": "exp",
    "STABLEHLO_FLOOR": "floor",
    "STABLEHLO_LOG": "log",
    "STABLEHLO_LOGISTIC": "sigmoid",
    "STABLEHLO_NEGATE": "neg",
    "STABLEHLO_RSQRT": "rsqrt",
    "STABLEHLO_TANH": "tanh",
}
"""Functions of one operand."""

BINARY: Mapping[str, str] = {
    **{
        native: native.lower()
        for native in (
            *("ATAN2", "BITWISE_XOR", "EQUAL", "FLOOR_DIV", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"),
            *("LOGICAL_AND", "LOGICAL_OR", "MAXIMUM", "MINIMUM", "NOT_EQUAL", "POW", "SQUARED_DIFFERENCE"),
        )
    },
    "FLOOR_MOD": "mod",
    "RIGHT_SHIFT": "bitwise_right_shift",
    "ADD_N": "add",
    "STABLEHLO_ADD": "add",
    "STABLEHLO_AND": "logical_and",
    "STABLEHLO_DIVIDE": "div",
    "STABLEHLO_MAXIMUM": "maximum",
    "STABLEHLO_MINIMUM": "minimum",
    "STABLEHLO_MULTIPLY": "mul",
    "STABLEHLO_OR": "logical_or",
    "STABLEHLO_POWER": "pow",
    "STABLEHLO_REMAINDER": "fmod",
    "STABLEHLO_SHIFT_LEFT": "bitwise_left_shift",
    "STABLEHLO_SUBTRACT": "sub",
}
"""Functions of two operands, or of several."""

ARITHMETIC: Mapping[str, tuple[str, str]] = {
    "ADD": ("add", "quantized_add"),
    "SUB": ("sub", "quantized_add"),
    "MUL": ("mul", "quantized_mul"),
    "DIV": ("div", ""),
}
"""Functions of two operands with a fused activation: the formula for floats, and for quantized operands."""

QUANTIZED_UNARY: Mapping[str, tuple[str, str, Mapping[str, Source]]] = {
    "LOGISTIC": ("sigmoid", "quantized_sigmoid", {}),
    "HARD_SWISH": ("hard_swish", "quantized_hard_swish", {}),
    "LEAKY_RELU": ("leaky_relu", "quantized_leaky_relu", {"slope": "Alpha"}),
    "GELU": ("gelu", "quantized_gelu", {"approximate": lambda a: "tanh" if a.get("Approximate") else None}),
    "SOFTMAX": ("softmax", "quantized_softmax", {"axis": lambda a: a["inputs"][0].ndim - 1}),
}
"""Functions of one operand whose formula has a quantized variant."""

REDUCTIONS: Mapping[str, str] = {
    "SUM": "sum",
    "REDUCE_ALL": "all",
    "REDUCE_ANY": "any",
    "REDUCE_MAX": "max",
    "REDUCE_MIN": "min",
    "REDUCE_PROD": "prod",
}

REDUCED: Mapping[str, str] = {
    "add": "reduce_sum",
    "mul": "reduce_prod",
    "max": "reduce_max",
    "min": "reduce_min",
}
"""Reductions by the function that combines two elements."""

SEGMENTS: Mapping[str, str] = {
    "SEGMENT_SUM": "sum",
    "UNSORTED_SEGMENT_MAX": "max",
    "UNSORTED_SEGMENT_MIN": "min",
    "UNSORTED_SEGMENT_PROD": "prod",
    "UNSORTED_SEGMENT_SUM": "sum",
}

AXES: Mapping[str, Source] = {"axis": lambda a: axes_of(a, 1), "keepdims": lambda a: bool(a.get("KeepDims"))}
X_SCALES = quantization({"x": 0})
PAIR_SCALES = quantization({"x0": 0, "x1": 1})


def _arithmetic(native: str, formula: str, quantized: str) -> tuple[Row, ...]:
    """Return the rows of an operator with two operands: quantized, with an activation, and plain."""
    name, settings = f"tflite::{native}", {"activation": activation}
    rows = (
        Row(name, f"activated_{formula}", XS, settings, has_activation),
        Row(name, formula, XS),
    )
    return (Row(name, quantized, {**XS, **PAIR_SCALES}, settings, is_quantized), *rows) if quantized else rows


def _arg_axis(a: Arguments) -> Any:
    """Return the axis of ARG_MAX and ARG_MIN, a constant operand."""
    axis = numbers(a, 1)
    return None if axis is None or len(axis) != 1 else (axis_of(a, axis[0]),)


def _boundaries(a: Arguments) -> GraphValue:
    return GraphValue((len(a.get("Boundaries", ())),), "float32", is_stored=True)


ELEMENT_ROWS: tuple[Row, ...] = (
    *(row(native, op, X) for native, op in UNARY.items()),
    *(row(native, op, XS) for native, op in BINARY.items()),
    *(rule for native, (op, quantized) in ARITHMETIC.items() for rule in _arithmetic(native, op, quantized)),
    *(
        rule
        for native, (op, quantized, attrs) in QUANTIZED_UNARY.items()
        for rule in (
            Row(f"tflite::{native}", quantized, {**X, **X_SCALES}, attrs, is_quantized),
            Row(f"tflite::{native}", op, X, attrs),
        )
    ),
    Row("tflite::MEAN", "quantized_reduce_mean", {**X, **X_SCALES}, AXES, is_quantized),
    Row("tflite::MEAN", "reduce_mean", X, AXES),
    *(Row(f"tflite::{native}", f"reduce_{op}", X, AXES) for native, op in REDUCTIONS.items()),
    row("ARG_MAX", "argmax", X, axis=_arg_axis),
    row("ARG_MIN", "argmin", X, axis=_arg_axis),
    row("LOG_SOFTMAX", "log_softmax", X, axis=lambda a: a["inputs"][0].ndim - 1),
    row("L2_NORMALIZATION", "l2_normalize", X, axis=lambda a: (a["inputs"][0].ndim - 1,)),
    row("PRELU", "prelu", {"x": operand(0), "w": operand(1)}),
    row("CUMSUM", "cumsum", X, axis=lambda a: axis_of(a, (numbers(a, 1) or (0,))[0])),
    Row("tflite::WHERE", "nonzero", {"x": operand(0)}, when=lambda a: len(a["inputs"]) == 1),
    *(
        row(native, "where", {"condition": operand(0), "x0": operand(1), "x1": operand(2)})
        for native in ("WHERE", "SELECT", "SELECT_V2", "STABLEHLO_SELECT")
    ),
    row("STABLEHLO_CLAMP", "clip", {"x": operand(1), "lower": operand(0), "upper": operand(2)}),
    row("FAKE_QUANT", "fake_quantize", X),
    row("QUANTIZE", "quantize", {"x": operand(0), "scale": lambda a: a["outputs"][0].scale}),
    row(
        "DEQUANTIZE",
        lambda a: "dequantize" if is_quantized(a) else "cast",
        {"x": operand(0), "scale": lambda a: a["inputs"][0].scale, "zero_point": lambda a: a["inputs"][0].zero_point},
    ),
    row("TOPK_V2", "topk", X, axis=lambda a: a["inputs"][0].ndim - 1, k=lambda a: a["outputs"][0].shape[-1]),
    row("UNIQUE", "unique", X),
    row("RFFT2D", "real_fft", X, axes=lambda a: (a["inputs"][0].ndim - 2, a["inputs"][0].ndim - 1)),
    *(
        row(native, "segment_reduce", {"x": operand(0), "lengths": operand(1)}, reduction=constant(kind))
        for native, kind in SEGMENTS.items()
    ),
    row("NON_MAX_SUPPRESSION_V4", "non_max_suppression", {"x0": operand(0), "x1": operand(1)}),
    row("NON_MAX_SUPPRESSION_V5", "non_max_suppression", {"x0": operand(0), "x1": operand(1)}),
    row("STABLEHLO_COMPARE", "less", XS),
    Row(
        "tflite::STABLEHLO_REDUCE",
        lambda a: REDUCED[COMBINATIONS[a["update"]]],
        X,
        {"axis": lambda a: tuple(map(int, a.get("Dimensions", ()))), "keepdims": lambda a: False},
        when=lambda a: COMBINATIONS.get(a.get("update", ("?",)), "none") in REDUCED,
        ops=tuple(REDUCED.values()),
    ),
    row("STABLEHLO_RNG_BIT_GENERATOR", "random", {}),
    row("RANDOM_UNIFORM", "random", {}),
    row("RANDOM_STANDARD_NORMAL", "normal", {}),
    row("MULTINOMIAL", "multinomial", X),
    row("BUCKETIZE", "search_sorted", {**X, "sorted": _boundaries}),
)


# Rows of operators that view, order, copy, look up or create elements.


def _pad_widths(a: Arguments) -> Any:
    """Return the pad widths before every axis, then those after every axis; None if they are unknown."""
    found = numbers(a, 1)
    return None if found is None or len(found) % 2 else (*found[::2], *found[1::2])


def _pad_before(a: Arguments) -> Any:
    found = numbers(a, 1)
    return None if found is None or len(found) % 2 else found[::2]


def _item_axis(a: Arguments) -> int:
    """Return the axis of PACK or UNPACK, counted from the front."""
    rank: int = max(a["inputs"][0].ndim, a["outputs"][0].ndim if a["outputs"] else 0)
    return int(a.get("Axis", 0)) % max(rank, 1)


def _joined_axis(a: Arguments) -> int:
    return axis_of(a, int(a.get("Axis", 0)))


def _split_axis(position: int, of: int) -> Any:
    """Return a source for the axis of a split, a constant operand; ``of`` is the position of the split operand."""

    def read(a: Arguments) -> Any:
        found = numbers(a, position)
        return axis_of(a, found[0], of) if found and len(found) == 1 else None

    return read


def _permutation(a: Arguments) -> Any:
    found = numbers(a, 1)
    return None if found is None else tuple(axis_of(a, axis) for axis in found)


def _slice(a: Arguments) -> dict[str, Any]:
    """Return starts, stops and steps of every axis of a slice, if they are known and no axis is added."""
    starts, ends, steps = (numbers(a, i) for i in (1, 2, 3))
    if "BeginMask" in a:
        if starts is None or ends is None or steps is None or a.get("EllipsisMask") or a.get("NewAxisMask"):
            return {}
        starts = tuple(0 if a["BeginMask"] >> i & 1 else start for i, start in enumerate(starts))
        stops = tuple(None if a["EndMask"] >> i & 1 else end for i, end in enumerate(ends))
        return {"start": starts, "stop": stops, "axis": tuple(range(len(starts))), "step": steps}
    if starts is None or ends is None:
        return {}
    stops = tuple(None if size == -1 else start + size for start, size in zip(starts, ends, strict=False))
    return {"start": starts, "stop": stops, "axis": tuple(range(len(starts)))}


SLICE = {name: lambda a, name=name: _slice(a).get(name) for name in ("start", "stop", "axis", "step")}

PADDED = {"padding": _pad_widths, "before": _pad_before}

MOVEMENT_ROWS: tuple[Row, ...] = (
    *(row(native, "reshape", X) for native in ("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "STABLEHLO_RESHAPE")),
    row("BITCAST", "bitcast", X),
    row("SHAPE", "shape", X),
    row("RANK", "shape", X),
    row("CAST", "cast", X, dtype=lambda a: a["outputs"][0].dtype),
    row("STABLEHLO_CONVERT", "cast", X, dtype=lambda a: a["outputs"][0].dtype),
    row("TRANSPOSE", "transpose", X, axes=_permutation),
    row("STABLEHLO_TRANSPOSE", "transpose", X, axes="Permutation"),
    row("BROADCAST_TO", "broadcast_to", X),
    row("STABLEHLO_BROADCAST_IN_DIM", "broadcast_to", X),
    row("TILE", "tile", X, repeats=lambda a: numbers(a, 1)),
    Row("tflite::PAD", "pad", X, {"mode": lambda a: "constant", **PADDED}),
    Row("tflite::PADV2", "pad", X, {"mode": lambda a: "constant", **PADDED}),
    Row("tflite::MIRROR_PAD", "pad", X, {"mode": lambda a: "reflect", **PADDED}),
    row("STABLEHLO_PAD", "pad", X, mode=lambda a: "constant"),
    row("DILATE", "pad", X, mode=lambda a: "constant"),
    row("BROADCAST_ARGS", "maximum", XS),
    row("STABLEHLO_GATHER", "gather", {"x": operand(0), "indices": operand(1)}),
    Row("tflite::SLICE", "slice", X, SLICE),
    Row("tflite::STRIDED_SLICE", "slice", X, SLICE),
    row("STABLEHLO_SLICE", "slice", X),
    row("STABLEHLO_DYNAMIC_SLICE", "slice", X),
    *(
        row(native, "slice_scatter", {"x": operand(0), "updates": operand(1)})
        for native in ("DYNAMIC_UPDATE_SLICE", "STABLEHLO_DYNAMIC_UPDATE_SLICE")
    ),
    Row(
        "tflite::CONCATENATION",
        "activated_concat",
        XS,
        {"axis": _joined_axis, "activation": activation},
        has_activation,
    ),
    row("CONCATENATION", "concat", XS, axis=_joined_axis),
    row("STABLEHLO_CONCATENATE", "concat", XS, axis="Dimension"),
    row("PACK", "stack", XS, axis=_item_axis),
    row("UNPACK", "unbind", X, axis=_item_axis),
    row("SPLIT", "split", {"x": operand(1)}, axis=_split_axis(0, 1)),
    row("SPLIT_V", "split", X, axis=_split_axis(2, 0)),
    row("REVERSE_V2", "flip", X, axis=_permutation),
    row("REVERSE_SEQUENCE", "reverse_sequence", {"x": operand(0), "lengths": operand(1)}),
    row("SPACE_TO_BATCH_ND", "space_to_batch", X),
    row("BATCH_TO_SPACE_ND", "space_to_batch", X),
    Row("tflite::GATHER", "embedding", {"x": operand(1), "w": operand(0)}, when=is_learned_table),
    row(
        "GATHER",
        "gather",
        {"x": operand(0), "indices": operand(1)},
        axis=_joined_axis,
        index=lambda a: (numbers(a, 1) or (None,))[0] if given(a, 1).shape == () else None,
    ),
    row("GATHER_ND", "gather_nd", {"x": operand(0), "indices": operand(1)}),
    row(
        "SCATTER_ND",
        "scatter_nd",
        {"x": lambda a: None, "indices": operand(0), "updates": operand(1)},
        reduction=lambda a: "add",
    ),
    Row(
        "tflite::STABLEHLO_SCATTER",
        "scatter_nd",
        {"x": operand(0), "indices": operand(1), "updates": operand(2)},
        {"reduction": lambda a: COMBINATIONS[a["update"]]},
        when=lambda a: a.get("update") in COMBINATIONS,
    ),
    row("STABLEHLO_SORT", "sort", {"x": operand(0), "x*": lambda a: a["inputs"][1:]}, axis="Dimension"),
    row("SPARSE_TO_DENSE", "to_dense", {"x": operand(2)}),
    row("MATRIX_DIAG", "diag_embed", X),
    row("MATRIX_SET_DIAG", "diagonal_scatter", {"x": operand(0), "updates": operand(1)}),
    row("ONE_HOT", "one_hot", {"x": operand(0)}),
    row("FILL", "full", {}),
    row("ZEROS_LIKE", "full", {}),
    row("RANGE", "arange", {}),
    row("STABLEHLO_IOTA", "arange", {}),
    row("REAL", "copy", X),
    row("IMAG", "copy", X),
    row("VAR_HANDLE", "empty", {}),
    row("READ_VARIABLE", "copy", X),
    row("ASSIGN_VARIABLE", "copy", {"x": operand(1)}),
)
