"""The mapping rules of OpenVINO operators. One rule serves all operator sets: their changes do not affect costs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from costcore.graphs import GraphValue
from costcore.graphs.graph import XS, X, given, operand
from costcore.translate import Arguments, Row, Source

from .model import numbers
from .quantized import WIDTHS

LEARNED_BY = frozenset(("Add", "Divide", "Einsum", "Gather", "MatMul", "Multiply", "Subtract"))
"""Elementary operators whose constants of several floats are learned. Rows of layers name their learned operands."""


def _named(names: str, **others: str) -> Mapping[str, str]:
    """Map OpenVINO names to canonical ones, ``BitwiseAnd`` to ``bitwise_and``; ``others`` are exceptions."""
    return {name: re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower() for name in names.split()} | others


UNARY = _named(
    "Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Cos Cosh Erf Exp FakeQuantize Floor HardSigmoid Log LogicalNot "
    "Mish Round Selu Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan Tanh",
    Ceiling="ceil",
    ErfInv="erfinv",
    HSigmoid="hard_sigmoid",
    HSwish="hard_swish",
    IsFinite="isfinite",
    IsInf="isinf",
    IsNaN="isnan",
    Negative="neg",
    ReLU="relu",
    Relu="relu",
    SoftPlus="softplus",
    SoftSign="softsign",
    Swish="silu",
)
"""Functions of one operand."""

NARY = _named(
    "Add BitwiseAnd BitwiseLeftShift BitwiseOr BitwiseRightShift BitwiseXor Equal Greater GreaterEqual Less LessEqual "
    "LogicalAnd LogicalOr LogicalXor Maximum Minimum NotEqual SquaredDifference",
    Divide="div",
    FloorMod="mod",
    Mod="fmod",
    Multiply="mul",
    Power="pow",
    Subtract="sub",
    Xor="logical_xor",
)
"""Functions of two operands."""

REDUCTIONS = _named(
    "ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum",
    ReduceLogicalAnd="reduce_all",
    ReduceLogicalOr="reduce_any",
)

JOINS = {name: name for name in ("none", "max", "mean", "min")} | {"prod": "mul", "sub": "add", "sum": "add"}
"""Reductions of a scatter and their names in formulas. A subtraction costs as much as an addition."""

OTHERS = _named(
    "DepthToSpace Inverse OneHot Pad ReverseSequence Roll Slice SpaceToDepth Split Tile Transpose Unique",
    Assign="copy",
    BatchToSpace="copy",
    Broadcast="broadcast_to",
    Col2Im="col2im",
    ExtractImagePatches="im2col",
    Identity="copy",
    Multinomial="multinomial",
    NonZero="nonzero",
    ReadValue="copy",
    ReorgYolo="space_to_depth",
    Reshape="reshape",
    Reverse="flip",
    ShapeOf="shape",
    ShuffleChannels="channel_shuffle",
    SpaceToBatch="copy",
    Squeeze="reshape",
    StridedSlice="slice",
    Unsqueeze="reshape",
    VariadicSplit="split",
)
"""Other operators that need only their first operand for their cost."""

NOT_PRICED: Mapping[str, str] = {
    "ConvertPromoteTypes": "the runtime replaces it by Convert when it reads the file",
    "GroupedMatMul": "in an operator set newer than 16",
    "NMSRotated": "intersections of rotated boxes depend on data",
    "SparseFillEmptyRows": "the work depends on data",
    "StringTensorPack": "strings",
    "StringTensorUnpack": "strings",
    "BGRtoNV12": "in an operator set newer than 16",
    "RGBtoNV12": "in an operator set newer than 16",
}
"""Operators without a formula, and why. Their calls are reported as unsupported, not counted as zero."""

WALKED = frozenset(("Const", "Constant", "If", "Loop", "Parameter", "Result", "TensorIterator"))
"""Operators without a row: inputs, constants, results and containers of subgraphs, which the walker handles."""

SIGNATURES: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(("AdaptiveAvgPool", "AdaptiveMaxPool", "AvgPool", "MaxPool"), (3,)),
    **dict.fromkeys(("BinaryConvolution", "Convolution", "ConvolutionBackpropData"), (3, 3)),
    **dict.fromkeys(("GroupConvolution", "GroupConvolutionBackpropData"), (3, 4)),
    **dict.fromkeys(("GRUCell", "RNNCell"), (2, 2, 2, 2)),
    **dict.fromkeys(("GRUSequence", "RNNSequence"), (3, 3, 1, 3, 3)),
    **dict.fromkeys(("Eye", "RandomUniform", "Range"), ()),
    **dict.fromkeys(("CTCGreedyDecoder", "CTCGreedyDecoderSeqLen"), (3,)),
    **dict.fromkeys(("DFT", "IDFT", "IRDFT"), (2, 1)),
    **dict.fromkeys(("EmbeddingBagOffsets", "EmbeddingBagOffsetsSum"), (2, 1, 1)),
    **dict.fromkeys(("EmbeddingBagPacked", "EmbeddingBagPackedSum"), (2, 2)),
    **dict.fromkeys(("MatrixNms", "MulticlassNms"), (2, 2)),
    **dict.fromkeys(("DeformablePSROIPooling", "PSROIPooling", "ROIAlignRotated", "ROIPooling"), (4, 2)),
    **dict.fromkeys(("I420toBGR", "I420toRGB", "NV12toBGR", "NV12toRGB"), (4,)),
    **dict.fromkeys(("GatherTree", "SegmentMax", "SliceScatter"), (1, 1)),
    **dict.fromkeys(("PriorBox", "PriorBoxClustered"), (1, 1)),
    "Bucketize": (0, 1),
    "CTCLoss": (3, 1, 2),
    "DetectionOutput": (2, 2, 3),
    "EmbeddingSegmentsSum": (2, 1, 1),
    "ExperimentalDetectronDetectionOutput": (2, 2, 2),
    "ExperimentalDetectronGenerateProposalsSingleImage": (1, 2, 3, 3),
    "ExperimentalDetectronPriorGridGenerator": (2, 4),
    "ExperimentalDetectronROIFeatureExtractor": (2, 4),
    "ExperimentalDetectronTopKROIs": (2, 1),
    "GenerateProposals": (2, 4, 4, 4),
    "GRN": (2,),
    "Proposal": (4, 4),
    "RDFT": (1, 1),
    "RegionYolo": (3,),
    "ISTFT": (3, 1),
    "STFT": (1, 1),
    "DeformableConvolution": (3, 3, 3),
    "Gather": (0, 0),
    "Inverse": (2,),
    "LSTMCell": (2, 2, 2, 2, 2),
    "LSTMSequence": (3, 3, 3, 1, 3, 3),
    "MatMul": (1, 1),
    "ROIAlign": (4, 2, 1),
    "ScaledDotProductAttention": (2, 2, 2),
    "SearchSorted": (1, 0),
    "Select": (0, 0, 0),
}
"""The minimum number of axes of each required operand. Other operators need one operand."""


def attribute(name: str) -> Source:
    """Return a source that reads the integers of an attribute."""
    return lambda a: numbers(a["data"].get(name)) or None


def _axis(a: Arguments, default: int = 0) -> int:
    found = numbers(a["data"].get("axis"))
    rank: int = max(a["inputs"][0].ndim, 1)
    return (found[0] if found else default) % rank


PAIR: Mapping[str, Source] = {"x*": lambda a: [value for value in a["inputs"][:2] if value is not None]}


def _number(a: Arguments, name: str, default: int = 1) -> int:
    """Return the first integer of an attribute."""
    return (numbers(a["data"].get(name)) or (default,))[0]


def _padding(a: Arguments) -> Any:
    """Return the padding, one number for each axis if both ends are equal."""
    before, after = (numbers(a["data"].get(f"pads_{end}")) for end in ("begin", "end"))
    return before if before == after else tuple(zip(before, after, strict=False))


def _windows(kernel: Source) -> dict[str, Source]:
    return {
        "kernel": kernel,
        "stride": attribute("strides"),
        "padding": _padding,
        "dilation": attribute("dilations"),
    }


def _grouped(a: Arguments) -> Any:
    """Merge the group axis of weights ``[G, O/G, I/G, k…]``; transposed convolutions have ``[G, I/G, O/G, k…]``."""
    w = a["inputs"][1]
    first, second, *kernel = w.shape[1:]
    return w.viewed(w.shape[0] * first, second, *kernel)


def _convolutions() -> tuple[Row, ...]:
    plain = {**_windows(lambda a: a["inputs"][1].shape[2:]), "groups": lambda a: 1}
    grouped = {**_windows(lambda a: a["inputs"][1].shape[3:]), "groups": lambda a: a["inputs"][1].shape[0]}
    deformed = {**_windows(lambda a: a["inputs"][2].shape[2:]), "groups": lambda a: _number(a, "group")}
    deformable = {"w": operand(2), "offset": operand(1), "mask": operand(3)}
    return (
        Row("openvino::Convolution", "conv", {**X, "w": operand(1)}, plain),
        Row("openvino::BinaryConvolution", "conv", {**X, "w": operand(1)}, plain),
        Row("openvino::GroupConvolution", "conv", {**X, "w": _grouped}, grouped),
        Row("openvino::ConvolutionBackpropData", "conv_transpose", {**X, "w": operand(1)}, plain),
        Row("openvino::GroupConvolutionBackpropData", "conv_transpose", {**X, "w": _grouped}, grouped),
        Row("openvino::DeformableConvolution", "deform_conv", {**X, **deformable}, deformed),
    )


def _is_true(a: Arguments, name: str, default: str = "") -> bool:
    return str(a["data"].get(name, default)).lower() in ("1", "true")


def _side(position: int) -> Callable[[Arguments], Any]:
    """Return a source that reads one side of a product, transposed if the attributes say so."""
    name = "ab"[position]

    def read(a: Arguments) -> Any:
        value = a["inputs"][position]
        turned = _is_true(a, f"transpose_{name}") and value.ndim > 1
        return value.permuted(*range(value.ndim - 2), -1, -2) if turned else value

    return read


def _is_linear(a: Arguments) -> bool:
    """Return whether a product is a linear layer: data times a stored matrix."""
    x, w = a["inputs"][:2]
    return bool(w.is_stored and not x.is_stored and w.ndim == 2)


def _weight(a: Arguments) -> Any:
    """Return the matrix of a linear layer as ``[F_out, F_in]``."""
    w = a["inputs"][1]
    return w if _is_true(a, "transpose_b") else w.permuted(1, 0)


def _pool(native: str, formula: str) -> Row:
    return Row(
        f"openvino::{native}",
        formula,
        X,
        {**_windows(attribute("kernel")), "ceil_mode": lambda a: "ceil" in a["data"].get("rounding_type", "")},
        outputs=_first_output,
    )


def _first_output(a: Arguments, outputs: Sequence[Any]) -> Sequence[Any]:
    return outputs[:1]


def _reduced_axes(a: Arguments) -> Any:
    """Return the axes of a reduction; if they are unknown, infer them from the shapes; None if that fails."""
    if stated := _stated_axes(a):
        return stated
    x, y = a["inputs"][0].shape, a["outputs"][0].shape
    if len(x) == len(y):
        return tuple(i for i, (before, after) in enumerate(zip(x, y, strict=True)) if before != after) or None
    remaining, axes = list(y), []
    for i, size in enumerate(x):
        if remaining and remaining[0] == size:
            del remaining[0]
        else:
            axes.append(i)
    return None if remaining else tuple(axes)


def _clamp(a: Arguments) -> str:
    bounds = tuple(str(a["data"].get(end)) for end in ("min", "max"))
    return "relu6" if bounds in (("0", "6"), ("0.0", "6.0")) else "clip"


def _stated_axes(a: Arguments) -> tuple[int, ...]:
    """Return the axes in the second operand; empty if they are unknown."""
    x, axes = a["inputs"][0], given(a, 1)
    known = () if axes is None or axes.data is None else axes.data
    return tuple(sorted({axis % max(x.ndim, 1) for axis in known}))


def _normalized_axes(a: Arguments) -> Any:
    """Return the axes of MVN: its operand; the last axes if their values are unknown; MVN-1 has an attribute."""
    x, axes = a["inputs"][0], given(a, 1)
    if stated := _stated_axes(a):
        return stated
    first = x.ndim - axes.size if axes is not None else 1 if _is_true(a, "across_channels") else 2
    return tuple(range(max(first, 0), x.ndim))


def _neighbors(a: Arguments) -> Any:
    """Return the number of elements in an LRN window: ``size`` along each axis."""
    axes = given(a, 1)
    return _number(a, "size") ** (1 if axes is None else axes.size)


def _bound(name: str) -> Source:
    def read(a: Arguments) -> Any:
        try:
            return float(a["data"].get(name, ""))
        except ValueError:
            return None

    return read


def _is_table(a: Arguments) -> bool:
    table, indices = given(a, 0), given(a, 1)
    return bool(table.is_stored and table.ndim == 2 and not indices.is_stored)


def _recurrent(native: str, formula: str, states: int, *, is_cell: bool = False) -> Row:
    """Return the row of a recurrent layer. Operands: X, states, lengths (not for a cell), W, R and B."""
    first = 1 + states + (not is_cell)
    inputs: dict[str, Source] = {
        "x": operand(0) if is_cell else lambda a: a["inputs"][0].permuted(1, 0, 2),
        "h0": operand(1),
        "w0": operand(first),
        "w1": operand(first + 1),
        "b0": operand(first + 2),
    }
    if states == 2:
        inputs["c0"] = operand(2)
    return Row(
        f"openvino::{native}",
        formula,
        inputs,
        {
            "hidden": lambda a: a["inputs"][first + 1].shape[-1],
            "bidirectional": lambda a: a["data"].get("direction") == "bidirectional",
            "reset_after": lambda a: _is_true(a, "linear_before_reset") if formula == "gru" else None,
            "activation": lambda a: _activation(a) if formula == "rnn" else None,
        },
    )


def _activation(a: Arguments) -> str:
    """Return the activation of a plain RNN in its first direction."""
    name = str(a["data"].get("activations", "")).split(",")[0].strip().lower()
    return name if name in ("relu", "sigmoid") else "tanh"


def _interpolation(a: Arguments) -> str:
    mode = str(a["data"].get("mode", "nearest"))
    return {"linear_onnx": "linear", "bilinear_pillow": "linear", "bicubic_pillow": "cubic"}.get(mode, mode)


def _resized_axes(a: Arguments) -> tuple[int, ...] | None:
    """Return the axes of an interpolation; None if they are unknown, or include batch or channels."""
    axes, stated = numbers(a["data"].get("axes")), given(a, 3 if len(a["inputs"]) > 3 else 2)
    if stated is not None and stated.data is not None and not stated.is_real:
        axes = stated.data
    return tuple(axes) if 0 < len(axes) <= a["inputs"][0].ndim - 2 else None


def _sampled(a: Arguments) -> str:
    return {"nearest": "nearest", "bicubic": "cubic"}.get(str(a["data"].get("mode")).lower(), "linear")


def row(native: str, op: str, inputs: Mapping[str, Source], **attrs: Source) -> Row:
    """Return the row of an operator."""
    return Row(f"openvino::{native}", op, inputs, attrs)


def _steps_first(a: Arguments) -> Any:
    return a["inputs"][0].permuted(1, 0, 2)


def _scatter(native: str, op: str) -> Row:
    inputs = {**X, "indices": operand(1), "updates": operand(2)}
    attrs: Mapping[str, Source] = {"reduction": lambda a: JOINS[a["data"].get("reduction", "none")]}
    return Row(f"openvino::{native}", op, inputs, attrs, when=lambda a: a["data"].get("reduction", "none") in JOINS)


def _complex(a: Arguments) -> Any:
    """Return the complex view of a tensor with real and imaginary parts in its last axis."""
    x = a["inputs"][0]
    return GraphValue(x.shape[:-1], "complex64", x.name, x.is_stored, base=x.base or x)


def _fourier_axes(a: Arguments) -> tuple[int, ...]:
    """Return the non-negative axes of a Fourier transform; the last one if they are unknown."""
    x, axes = a["inputs"][0], given(a, 1)
    rank = max(x.ndim - (0 if a["is_real"] else 1), 1)
    known = () if axes is None or axes.data is None else axes.data
    return tuple(axis % rank for axis in known) or (rank - 1,)


def _frame(a: Arguments) -> Any:
    """Return the frame length of a signal; the window length if it is unknown."""
    return (getattr(given(a, 2), "data", None) or a["inputs"][1].shape)[0]


def _fourier(native: str, op: str, **attrs: Source) -> Row:
    is_real = op == "real_fft"
    axes: Source = lambda a: _fourier_axes({**a, "is_real": is_real})  # noqa: E731
    return Row(f"openvino::{native}", op, {"x": operand(0) if is_real else _complex}, {"axes": axes, **attrs})


def _bag(native: str, weights: int, mode: Source = lambda a: a["data"].get("reduction", "sum").lower()) -> Row:
    """Return the row of an embedding bag; ``weights`` is the position of the per-sample weights."""
    inputs = {"x": operand(1), "w": operand(0), "per_sample_weights": operand(weights)}
    return Row(f"openvino::{native}", "embedding_bag", inputs, {"mode": mode})


def _regions(native: str, op: str | Source = "roi_align", **attrs: Source) -> Row:
    """Return the row of a pooling over regions of interest."""
    ops = () if isinstance(op, str) else ("ps_roi_align", "ps_roi_avg_pool", "roi_align", "roi_max_pool")
    return Row(f"openvino::{native}", op, {**X, "rois": operand(1), "offset": operand(2)}, attrs, ops=ops)


def _bins(a: Arguments) -> tuple[int, int]:
    return _number(a, "spatial_bins_y"), _number(a, "spatial_bins_x")


def _sampling(a: Arguments) -> tuple[int, int]:
    return (_number(a, "sampling_ratio", 0),) * 2


def _code(a: Arguments) -> str:
    return "center_size" if "center_size" in str(a["data"].get("code_type", "")).lower() else "corner"


_DETECTION: tuple[Row, ...] = (
    _regions(
        "ROIPooling",
        lambda a: "roi_align" if a["data"].get("method") == "bilinear" else "roi_max_pool",
        sampling=lambda a: (1, 1) if a["data"].get("method") == "bilinear" else None,
    ),
    _regions(
        "PSROIPooling",
        lambda a: "ps_roi_align" if a["data"].get("mode") == "bilinear" else "ps_roi_avg_pool",
        sampling=lambda a: _bins(a) if a["data"].get("mode") == "bilinear" else None,
    ),
    _regions("DeformablePSROIPooling", "ps_roi_align", sampling=_bins),
    _regions("ROIAlignRotated", mode=lambda a: "avg", sampling=_sampling),
    Row(
        "openvino::ExperimentalDetectronROIFeatureExtractor",
        "roi_align",
        {"x": operand(1), "rois": operand(0), "x*": lambda a: a["inputs"][2:]},
        {"mode": lambda a: "avg", "sampling": _sampling},
        outputs=_first_output,
    ),
    row(
        "ExperimentalDetectronTopKROIs", "topk", {"x": operand(1)}, axis=lambda a: 0, k=lambda a: _number(a, "max_rois")
    ),
    row(
        "ExperimentalDetectronDetectionOutput",
        "class_detections",
        {"rois": operand(0), "x": operand(1), "scores": operand(2)},
    ),
    *(
        row(
            native,
            "region_proposals",
            {"x": operand(2), "scores": operand(3), "anchors": operand(1)},
            top=lambda a: _number(a, "pre_nms_count", -1),
        )
        for native in ("ExperimentalDetectronGenerateProposalsSingleImage", "GenerateProposals")
    ),
    row(
        "Proposal",
        "region_proposals",
        {"x": operand(1), "scores": operand(0)},
        top=lambda a: _number(a, "pre_nms_topn", -1),
    ),
    row(
        "DetectionOutput",
        "detection_output",
        {**X, "scores": operand(1), "priors": operand(2)},
        top=lambda a: _number(a, "top_k", -1),
        code=_code,
        box=lambda a: None if _is_true(a, "normalized") else 5,
    ),
    *(row(native, "prior_boxes", {}, rows=lambda a: 2) for native in ("PriorBox", "PriorBoxClustered")),
    row("ExperimentalDetectronPriorGridGenerator", "prior_boxes", {"x": operand(0)}, rows=lambda a: 1),
    row("MulticlassNms", "class_nms", {"x0": operand(0), "x1": operand(1)}, top=lambda a: _number(a, "nms_top_k", -1)),
    row(
        "MatrixNms",
        "class_nms",
        {"x0": operand(0), "x1": operand(1)},
        top=lambda a: _number(a, "nms_top_k", -1),
        decay=lambda a: a["data"].get("decay_function", "linear").lower(),
    ),
    row(
        "RegionYolo",
        "yolo_regions",
        X,
        classes=lambda a: _number(a, "classes"),
        boxes=lambda a: _number(a, "num") if _is_true(a, "do_softmax", "true") else len(numbers(a["data"].get("mask"))),
        softmax=lambda a: _is_true(a, "do_softmax", "true") or None,
    ),
)


def _scale(position: int) -> Source:
    return lambda a: a["scales"][position] if position < len(a["scales"]) else None


def _operands_with_scales(row: Row) -> dict[str, Source]:
    """Return the operands of a row and their scales."""
    scales: dict[str, Source] = {}
    for name in row.inputs:
        if name == "x*":
            scales["x*_scale"] = lambda a: [scale for scale in a["scales"][:2] if scale is not None]
        else:
            scales[f"{name}_scale"] = _scale({"x": 0, "x0": 0, "w": 1, "x1": 1}[name])
    return {**row.inputs, **scales, "y_scale": lambda a: a["y_scale"]}


def _on_integers(row: Row) -> Row:
    """Return the quantized form of a row, with the fused bias and activation."""
    op, when = row.op, row.when
    bias: dict[str, Source] = {"b": _bias} if op in ("conv", "conv_transpose", "linear") else {}
    return Row(
        row.native,
        f"quantized_{op}",
        {**_operands_with_scales(row), **bias},
        {**row.attrs, "activation": lambda a: a["fused"].activation or None},
        when=lambda a: a.get("fused") is not None and (when is None or when(a)),
        outputs=row.outputs,
    )


def _bias(a: Arguments) -> Any:
    bias = a["bias"]
    return None if bias is None else bias.viewed(bias.size)


QUANTIZED = frozenset(
    (
        *("conv", "conv_transpose", "linear", "matmul", "add", "sub", "mul", "div", "maximum", "minimum", "relu"),
        *("sigmoid", "silu", "tanh", "gelu", "hard_sigmoid", "hard_swish", "softmax", "avg_pool", "reduce_mean"),
        "resize",
    )
)
"""Operators with a formula for integers."""


def _is_quantization(a: Arguments) -> bool:
    return bool(a["outputs"][0].dtype in WIDTHS.values())


_ROWS: tuple[Row, ...] = (
    Row("openvino::FakeQuantize", "quantize", {**X, "scale": operand(2)}, when=_is_quantization),
    *_convolutions(),
    Row("openvino::MatMul", "linear", {**X, "w": _weight}, when=_is_linear),
    Row("openvino::MatMul", "matmul", {"x0": _side(0), "x1": _side(1)}),
    Row("openvino::Einsum", "einsum", XS, {"equation": lambda a: a["data"].get("equation")}),
    Row(
        "openvino::ScaledDotProductAttention",
        "attention",
        {"q": operand(0), "k": operand(1), "v": operand(2), "mask": operand(3)},
        {"causal": lambda a: _is_true(a, "causal")},
    ),
    _pool("MaxPool", "max_pool"),
    _pool("AvgPool", "avg_pool"),
    Row("openvino::AdaptiveAvgPool", "adaptive_avg_pool", X, outputs=_first_output),
    Row("openvino::AdaptiveMaxPool", "adaptive_max_pool", X, outputs=_first_output),
    *(row(native, op, X) for native, op in {**UNARY, **OTHERS}.items()),
    *(row(native, op, PAIR) for native, op in NARY.items()),
    *(
        row(native, op, X, axis=_reduced_axes, keepdims=lambda a: _is_true(a, "keep_dims"))
        for native, op in REDUCTIONS.items()
    ),
    *(row(native, "softmax", X, axis=lambda a: _axis(a, 1)) for native in ("SoftMax", "Softmax")),
    row("LogSoftmax", "log_softmax", X, axis=lambda a: _axis(a, 1)),
    row("Elu", "elu", X, alpha=_bound("alpha")),
    row("Gelu", "gelu", X, approximate=lambda a: "tanh" if a["data"].get("approximation_mode") == "TANH" else None),
    *(row(native, "prelu", {**X, "w": operand(1)}) for native in ("PReLU", "PRelu")),
    Row("openvino::Clamp", _clamp, X, {"lower": _bound("min"), "upper": _bound("max")}, ops=("clip", "relu6")),
    row("Select", "where", {"condition": operand(0), "x0": operand(1), "x1": operand(2)}),
    row("Convert", "cast", X, dtype=lambda a: a["outputs"][0].dtype),
    row("ConvertLike", "cast", X, dtype=lambda a: a["outputs"][0].dtype),
    row(
        "BatchNormInference",
        "batch_norm",
        {**X, "w": operand(1), "b": operand(2), "mean": operand(3), "var": operand(4)},
        training=lambda a: False,
    ),
    row(
        "GroupNormalization",
        "group_norm",
        {**X, "w": operand(1), "b": operand(2)},
        groups=lambda a: _number(a, "num_groups"),
    ),
    Row(
        "openvino::MVN",
        lambda a: "mean_variance_norm" if _is_true(a, "normalize_variance", "true") else "subtract_mean",
        X,
        {"axis": _normalized_axes},
        ops=("mean_variance_norm", "subtract_mean"),
    ),
    row("NormalizeL2", "l2_normalize", X, axis=lambda a: _stated_axes(a) or (1,)),
    row("LRN", "local_response_norm", X, size=_neighbors),
    row("Interpolate", "resize", X, mode=_interpolation, axes=_resized_axes),
    row("GridSample", "grid_sample", {**X, "grid": operand(1)}, mode=_sampled),
    row("Concat", "concat", XS, axis=_axis),
    Row("openvino::Gather", "embedding", {"x": operand(1), "w": operand(0)}, when=_is_table),
    row("Gather", "gather", {**X, "indices": operand(1)}),
    row("GatherElements", "gather_elements", {**X, "indices": operand(1)}, axis=_axis),
    row("GatherND", "gather_nd", {**X, "indices": operand(1)}),
    _scatter("ScatterUpdate", "scatter_elements"),
    _scatter("ScatterElementsUpdate", "scatter_elements"),
    _scatter("ScatterNDUpdate", "scatter_nd"),
    row("SliceScatter", "slice_scatter", {**X, "updates": operand(1)}),
    row("GatherTree", "gather_elements", {**X, "indices": operand(1)}, axis=lambda a: 0),
    row("SegmentMax", "segment_reduce", {**X, "lengths": operand(1)}, reduction=lambda a: "max"),
    _bag("EmbeddingBagOffsets", 4),
    _bag("EmbeddingBagOffsetsSum", 4),
    _bag("EmbeddingBagPacked", 2),
    _bag("EmbeddingBagPackedSum", 2),
    _bag("EmbeddingSegmentsSum", 5),
    _fourier("DFT", "fft"),
    _fourier("IDFT", "fft", inverse=lambda a: True),
    _fourier("RDFT", "real_fft"),
    _fourier("IRDFT", "inverse_real_fft", scaled=lambda a: True),
    row(
        "STFT",
        "stft",
        {**X, "window": operand(1)},
        frames=lambda a: a["outputs"][0].shape[-2 if _is_true(a, "transpose_frames") else -3],
        length=_frame,
    ),
    row("ISTFT", "istft", {**X, "window": operand(1)}, frames=lambda a: a["inputs"][0].shape[-2], length=_frame),
    row("CTCLoss", "ctc_loss_with_logits", {"x": _steps_first, "target": operand(2)}, reduction=lambda a: "none"),
    *(row(native, "ctc_greedy_decode", X) for native in ("CTCGreedyDecoder", "CTCGreedyDecoderSeqLen")),
    row("FakeConvert", "fake_quantize", X),
    row("GRN", "l2_normalize", X, axis=lambda a: (1,)),
    *(row(native, "color_convert", XS) for native in ("I420toBGR", "I420toRGB", "NV12toBGR", "NV12toRGB")),
    *_DETECTION,
    row("Eye", "eye", {}),
    row("SearchSorted", "search_sorted", {"x": operand(1), "sorted": operand(0)}),
    row("Bucketize", "search_sorted", {**X, "sorted": operand(1)}),
    row(
        "ROIAlign",
        "roi_align",
        {**X, "rois": operand(1), "batch_indices": operand(2)},
        mode=lambda a: a["data"].get("mode", "avg"),
        sampling=_sampling,
    ),
    row("TopK", "topk", X, axis=_axis, k=lambda a: a["outputs"][0].shape[_axis(a)] if a["outputs"][0].ndim else 1),
    row(
        "CumSum",
        "cumsum",
        X,
        axis=lambda a: (_stated_axes(a) or (a["inputs"][0].ndim - 1,))[0],
        exclusive=lambda a: _is_true(a, "exclusive") or None,
    ),
    row("Range", "arange", {}),
    row("RandomUniform", "random", {}),
    row("NonMaxSuppression", "non_max_suppression", {"x0": operand(0), "x1": operand(1)}),
    _recurrent("LSTMSequence", "lstm", 2),
    _recurrent("GRUSequence", "gru", 1),
    _recurrent("RNNSequence", "rnn", 1),
    _recurrent("LSTMCell", "lstm", 2, is_cell=True),
    _recurrent("GRUCell", "gru", 1, is_cell=True),
    _recurrent("RNNCell", "rnn", 1, is_cell=True),
)

ROWS = tuple(each for row in _ROWS for each in ((_on_integers(row), row) if row.op in QUANTIZED else (row,)))
"""All rows. The first match counts, so quantized rows precede their float versions."""
