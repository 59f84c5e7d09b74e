"""Window operators of ONNX Runtime: convolutions, poolings, resampling and Fourier transforms; and data movement.

Channels may be first, last, or in blocks; activations may be fused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from costcore.ir import prod
from costcore.numbers import Dim, ceil_div
from costcore.translate import Arguments, Row

from ..node import EXTENSIONS, MICROSOFT, NCHWC, NHWC, QONNX, Inferred, Node, OperatorSpec, Rule, row
from ..operators import (
    Windows,
    determined,
    first_outputs,
    kernel_of,
    like,
    movement,
    node_of,
    number,
    numbers,
    positive,
    windows,
)
from ..operators import matrices as standard
from ..operators.matrices import (
    CONV_ROWS,
    CONVOLUTION,
    POOL,
    POOLING_ROWS,
    RESAMPLING_ROWS,
    RESAMPLING_RULES,
    grid_sample,
    resize,
)
from ..operators.movement import LAYOUT_ROWS, gather_nd, range_of, triangle_diagonal
from ..schema import ANY, GRID, NEWEST_VERSION, ONNX, Constraints, schema_signature
from ..values import Shape, Undetermined, Value
from .arithmetic import FUSED, fused_with, has_supported_activation

# Channels last: operators of the standard, as ONNX Runtime's layout transformer writes them, and its own.


ALWAYS_LAST = frozenset(("NhwcConv", "NhwcFusedConv", "NhwcMaxPool", "MaxPoolNHWC"))
"""Operators whose channels are always last; the attribute ``channels_last`` of others is 0 by default."""


def has_channels_last(node: Node) -> bool:
    """Return whether the channels of a node's input and output are their last axis."""
    return node.op in ALWAYS_LAST or bool(node.args.get("channels_last"))


def channels_first(node: Node, shape: Shape) -> Shape:
    """Return the shape of an input as ``[N, C, ...]``."""
    return to_channels_first(shape) if has_channels_last(node) else shape


def channels_back(node: Node, shape: Shape) -> Shape:
    """Convert the shape ``[N, C, ...]`` of an output to the layout of the node."""
    return to_channels_last(shape) if has_channels_last(node) else shape


def channel_view(name: str) -> Any:
    """Return a source for the input with its channels as the second axis."""

    def read(a: Arguments) -> Value:
        view: Value = a[name].viewed(channels_first(node_of(a), a[name].known_shape))
        return view

    return read


def weight_view(name: str) -> Any:
    """Return a source for the weight of a convolution as ``[Cout, Cin/G, ...]``."""

    def read(a: Arguments) -> Value:
        w: Value = a[name]
        kernel = node_of(a).facts(Windows).kernel
        return (
            w if w.known_shape[2:] == kernel else w.viewed((w.known_shape[0], w.known_shape[-1], *w.known_shape[1:-1]))
        )

    return read


def to_channels_first(shape: Shape) -> Shape:
    """Return ``[N, ..., C]`` as ``[N, C, ...]``."""
    return (shape[0], shape[-1], *shape[1:-1])


def to_channels_last(shape: Shape) -> Shape:
    """Return ``[N, C, ...]`` as ``[N, ..., C]``."""
    return (shape[0], *shape[2:], shape[1])


def rule_with_channels_last(rule: Rule) -> Rule:
    """Return a shape rule for channels last, from a rule for channels first.

    Rows also get the input with its channels first.
    """

    def read(node: Node) -> Sequence[Value] | Inferred:
        known = schema_signature(ONNX, node.op, NEWEST_VERSION)
        node.args = {**(known.defaults if known else {}), **node.args}
        node.args.pop("channels_last", None)
        name = next((name for name in ("X", "x", "input") if isinstance(node.args.get(name), Value)), "X")
        x = node.value(name)
        rank = len(x.known_shape)
        if rank < 3:
            raise node.error(f"needs an input of 3 or more dimensions (got the shape {x.known_shape})")
        view = x.viewed(to_channels_first(x.known_shape))
        node.args[name] = view
        node.inputs = [view if value is x else value for value in node.inputs]
        found = rule(node)
        for value in found.outputs if isinstance(found, Inferred) else found:
            if value.shape is not None and len(value.shape) == rank:
                value.shape = to_channels_last(value.shape)
        return found

    return read


def has_no_activation(a: Arguments) -> bool:
    """Return whether no activation is fused to the operator."""
    return not a.get("activation")


def _without_activation(row: Row) -> Callable[[Arguments], bool]:
    when = row.when
    return has_no_activation if when is None else lambda a: has_no_activation(a) and when(a)


def channels_last_spec(
    op: str,
    inputs: str,
    rules: Mapping[str, Rule],
    rows: Iterable[Row],
    *,
    required: int = 1,
    attributes: str = "",
    infer: Rule | None = None,
    fused: Iterable[Row] = (),
) -> OperatorSpec:
    """Return the spec of an operator of the standard with channels last.

    Args:
        op: operator type, the same as in the standard.
        inputs: names of its inputs, as in :class:`OperatorSpec`.
        rules: shape rules of the standard, by full name.
        rows: rows of the standard.
        required: number of leading inputs that must be given.
        attributes: names of the attributes that hold one integer.
        infer: its own shape rule, if the standard's does not fit.
        fused: rows for an operator that an activation is fused to.
    """
    key = f"{ONNX}::{op}"
    plain = [replace(row, when=_without_activation(row)) for row in rows if row.native == key]
    rule = infer or rule_with_channels_last(rules[key])
    return OperatorSpec(op, inputs, required, attributes, None, rule, (*plain, *fused), NHWC)


# Convolutions.


def conv(node: Node) -> Inferred:
    """Infer a convolution, with channels first or last."""
    x, w = node.value("X", "x"), node.value("W", "w")
    shape = channels_first(node, x.known_shape)
    if len(shape) < 3 or len(w.known_shape) != len(shape):
        raise node.error(
            f"needs weights of the same rank as its input (got the shapes {x.known_shape} and {w.known_shape})"
        )
    group = node.args.get("group", 1)
    is_last = w.known_shape[1] * group != shape[1] and w.known_shape[-1] * group == shape[1]
    kernel = node.args.get("kernel_shape") or (w.known_shape[1:-1] if is_last else w.known_shape[2:])
    found = windows(node, shape[2:], kernel)
    zero = node.get("y_zero_point")
    dtype = zero.dtype if zero is not None else x.dtype
    return Inferred([node.result(channels_back(node, (shape[0], w.known_shape[0], *found.out)), dtype)], found)


def padded_conv_transpose(node: Node) -> Inferred:
    """Infer a transposed convolution with padding from an input."""
    try:
        pads = node.numbers("Pads")
    except Undetermined:
        found = standard.conv_transpose(node)
        y = found.outputs[0]
        return Inferred([node.result((*y.known_shape[:2], *(None for _ in y.known_shape[2:])), y.dtype)], found.facts)
    if pads is not None:
        node.args["pads"] = pads
    return standard.conv_transpose(node)


def _is_plain(a: Arguments) -> bool:
    return not fused_with(a) and not isinstance(a.get("Z"), Value) and not isinstance(a.get("Sum"), Value)


CONV_SPECS: tuple[OperatorSpec, ...] = (
    *(
        OperatorSpec(
            op,
            inputs,
            required=2,
            attributes="group",
            infer=conv,
            rows=[
                row("conv", {"x": channel_view("X"), "w": weight_view("W"), "b": "B"}, CONVOLUTION, when=_is_plain),
                row(
                    "fused_conv",
                    {"x": channel_view("X"), "w": weight_view("W"), "b": "B", "z": "Z"},
                    {**CONVOLUTION, "activation": fused_with},
                    when=has_supported_activation,
                ),
            ],
        )
        for op, inputs in (("FusedConv", "X W B Z"), ("NhwcConv", "X W B"), ("NhwcFusedConv", "X W B Z"))
    ),
    OperatorSpec(
        "ConvTransposeWithDynamicPads",
        "X W Pads B",
        required=2,
        attributes="group",
        infer=padded_conv_transpose,
        rows=[row("conv_transpose", {"x": "X", "w": "W", "b": "B"}, CONVOLUTION)],
    ),
    OperatorSpec(
        "Conv",
        "X W B Sum",
        required=2,
        attributes="group",
        infer=conv,
        rows=[
            row("conv", {"x": "X", "w": "W", "b": "B"}, CONVOLUTION, when=_is_plain),
            row(
                "fused_conv",
                {"x": "X", "w": "W", "b": "B", "z": "Sum"},
                {**CONVOLUTION, "activation": fused_with},
                when=has_supported_activation,
            ),
        ],
        domain=NCHWC,
    ),
    channels_last_spec(
        "Conv",
        "X W B",
        standard.CONV_RULES,
        CONV_ROWS,
        required=2,
        attributes="group",
        fused=[
            row(
                "fused_conv",
                {"x": "X", "w": "W", "b": "B"},
                {**CONVOLUTION, "activation": fused_with},
                when=lambda a: a.get("activation") in FUSED,
            )
        ],
    ),
    channels_last_spec(
        "ConvTranspose",
        "X W B",
        standard.CONV_RULES,
        CONV_ROWS,
        required=2,
        attributes="group",
    ),
)


# Poolings.


def pool(node: Node) -> Inferred:
    """Infer a pooling, with channels first or last."""
    shape = _pooled_shape(node)
    return _pooled(node, shape, windows(node, shape[2:], kernel_of(node)))


def global_pool(node: Node) -> Inferred:
    """Infer a pooling with one window as large as the input, with channels first or last."""
    shape = _pooled_shape(node)
    ones, zeros = (1,) * (len(shape) - 2), (0,) * (len(shape) - 2)
    return _pooled(node, shape, Windows(shape[2:], ones, ones, zeros, zeros, ones))


def _pooled_shape(node: Node) -> Shape:
    shape = channels_first(node, node.value("X", "x").known_shape)
    if len(shape) < 3:
        raise node.error(f"needs an input of 3 or more dimensions (got the shape {shape})")
    return shape


def _pooled(node: Node, shape: Shape, found: Windows) -> Inferred:
    zero = node.get("y_zero_point")
    dtype = zero.dtype if zero is not None else node.value("X", "x").dtype
    return Inferred([node.result(channels_back(node, (*shape[:2], *found.out)), dtype)], found)


def crops(node: Node) -> Sequence[Value]:
    """Infer one crop for each box; the input ``crop_size`` gives its size."""
    x, boxes = node.value("X"), node.value("rois")
    if len(x.known_shape) != 4:
        raise node.error(f"needs images [N, C, H, W] (got the shape {x.known_shape})")
    try:
        size = node.numbers("crop_size") or (None, None)
    except Undetermined:
        size = (None, None)
    return [node.result((boxes.known_shape[0], x.known_shape[1], *size), x.dtype)]


def max_unpool(node: Node) -> Sequence[Value] | Inferred:
    """Infer the tensor before a max pooling with channels last; its shape is given or follows from the windows."""
    wanted = node.numbers("output_shape")
    if wanted is not None:
        return [node.result(wanted, node.value("X").dtype)]
    return rule_with_channels_last(standard.max_unpool)(node)


def quantized_average(node: Node) -> Inferred:
    """Infer an average of QONNX; windows are square and not padded."""
    size, stride = node.args.get("kernel", 1), node.args.get("stride", 1)
    node.args.update(kernel_shape=(size, size), strides=(stride, stride))
    node.args["channels_last"] = node.args.get("data_layout") == "NHWC"
    return pool(node)


def _crop_interpolation(a: Arguments) -> str:
    return "nearest" if a.get("mode") == "nearest" else "linear"


POOLING_SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "NhwcMaxPool",
        "x",
        attributes="ceil_mode",
        infer=pool,
        rows=[row("max_pool", {"x": channel_view("x")}, POOL)],
    ),
    OperatorSpec(
        "MaxpoolWithMask",
        "X M",
        required=2,
        infer=standard.pool,
        rows=[row("masked_max_pool", {"x": "X", "mask": "M"}, POOL, outputs=first_outputs(1))],
    ),
    OperatorSpec(
        "CropAndResize",
        "X rois batch_indices crop_size",
        required=4,
        infer=crops,
        rows=[
            row(
                "crop_and_resize", {"x": "X", "rois": "rois", "indices": "batch_indices"}, {"mode": _crop_interpolation}
            )
        ],
    ),
    *(
        OperatorSpec(name, "X", attributes=attributes, infer=infer, rows=[row(op, {"x": "X"}, POOL)], domain=NCHWC)
        for name, attributes, infer, op in (
            ("MaxPool", "ceil_mode", pool, "max_pool"),
            ("GlobalMaxPool", "", global_pool, "max_pool"),
            ("AveragePool", "ceil_mode", pool, "avg_pool"),
            ("GlobalAveragePool", "", global_pool, "avg_pool"),
        )
    ),
    *(
        channels_last_spec(
            op,
            "X",
            standard.POOLING_RULES,
            POOLING_ROWS,
            attributes="" if op.startswith("Global") else "ceil_mode",
        )
        for op in ("MaxPool", "AveragePool", "LpPool", "GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool")
    ),
    *(
        spec
        for domain in QONNX
        for spec in (
            OperatorSpec(
                "MaxPoolNHWC",
                "X",
                attributes="ceil_mode",
                infer=pool,
                rows=[row("max_pool", {"x": channel_view("X")}, POOL)],
                domain=domain,
            ),
            OperatorSpec(
                "QuantAvgPool2d",  # a sum and a shift: an average
                "X",
                attributes="kernel stride ibits obits signed",
                infer=quantized_average,
                rows=[row("avg_pool", {"x": channel_view("X")}, POOL)],
                domain=domain,
            ),
        )
    ),
    channels_last_spec(
        "MaxUnpool",
        "X I output_shape",
        standard.POOLING_RULES,
        POOLING_ROWS,
        required=2,
        infer=max_unpool,
    ),
)


# Resizing and sampling.


def upsampled(node: Node) -> Sequence[Value]:
    """Infer sizes multiplied by integer factors."""
    x, scales = node.value("X"), node.partial_numbers("scales") or ()
    if len(scales) != len(x.known_shape):
        raise node.error(f"has {len(scales)} scales for {len(x.known_shape)} axes")
    pairs = zip(x.known_shape, scales, strict=True)
    return [node.result(tuple(None if scale is None else d * int(scale) for d, scale in pairs), x.dtype)]


def _resize_interpolation(a: Arguments) -> str:
    mode = str(a.get("mode", "nearest"))
    return "linear" if mode in ("bilinear", "trilinear") else mode


RESAMPLING_SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "GridSample",
        "X Grid",
        required=2,
        constraints=Constraints(choices=GRID, ranks={"X": (4, 4), "Grid": (4, 4)}),
        infer=grid_sample,
        rows=[
            row(
                "grid_sample",
                {"x": "X", "grid": "Grid"},
                {
                    "mode": lambda a: {"bilinear": "linear", "bicubic": "cubic"}.get(
                        a.get("mode", "bilinear"), a.get("mode")
                    )
                },
            )
        ],
    ),
    OperatorSpec(
        "Upsample",
        "X",
        infer=upsampled,
        rows=[row("resize", {"x": "X"}, {"mode": lambda a: a.get("mode", "nearest")})],
        domain=NCHWC,
    ),
    channels_last_spec(
        "GridSample",
        "X grid",
        RESAMPLING_RULES,
        RESAMPLING_ROWS,
        required=2,
    ),
    OperatorSpec(
        "Resize",
        "X roi scales sizes",
        infer=resize,
        rows=[row("resize", {"x": "X"}, {"mode": _resize_interpolation})],
        domain=NHWC,
    ),
)


# Fourier transforms.


def half_spectrum(node: Node) -> Sequence[Value]:
    """Infer the half spectrum of a real signal, real and imaginary parts last, or the signal from its half spectrum."""
    x, axes = node.value("X").known_shape, node.args.get("signal_ndim", 1)
    if not 1 <= axes <= len(x) - (0 if node.op == "Rfft" else 1):
        raise node.error(f"has signal_ndim {axes} for an input of shape {x}")
    if node.op == "Rfft":
        return [node.result((*x[:-1], x[-1] // 2 + 1, 2), node.value("X").dtype)]
    return [node.result((*x[:-2], 2 * (x[-2] - 1)), node.value("X").dtype)]


def _complex_view(a: Arguments) -> Value:
    x: Value = a["X"]
    view = x.viewed(x.known_shape[:-1])
    view.dtype = {"float64": "complex128", "float16": "complex32"}.get(x.dtype, "complex64")
    return view


def _signal_axes(a: Arguments) -> tuple[int, ...]:
    rank = len(a["X"].known_shape) - (1 if node_of(a).op == "Irfft" else 0)
    return tuple(range(rank - (a.get("signal_ndim") or 1), rank))


def spectrogram(node: Node) -> Sequence[Value]:
    """Infer the squared magnitudes of centered frames, one every ``hop_length`` samples."""
    x, length, hop = node.value("pcm_wave"), node.number("n_fft"), node.number("hop_length")
    if len(x.known_shape) != 2:
        raise node.error(f"needs a signal [N, L] (got the shape {x.known_shape})")
    return [node.result((x.known_shape[0], length // 2 + 1, x.known_shape[1] // hop + 1), x.dtype)]


SIGNAL_SPECS: tuple[OperatorSpec, ...] = (
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
            ("Irfft", row("inverse_real_fft", {"x": _complex_view}, {"axes": _signal_axes, "scaled": lambda a: True})),
        )
    ),
)


# Sizes of channel blocks, in files that ONNX Runtime wrote for its NCHWc layout.


BLOCKS = (8, 16)
"""Channels in one block, by the width of the processor's vectors. Source: onnxruntime, MlasNchwcGetBlockSize."""


def block_arguments(graph: Any) -> dict[str, Mapping[str, Any]]:
    """Return the block size of a graph (``GraphProto``), as an argument of the nodes of its domain.

    ONNX Runtime pads the weights of every convolution to whole blocks: 24 channels are blocks of 8. The result is
    empty for a graph without convolutions in blocks.
    """
    padded = set(_padded_channels(graph))
    if not padded:
        return {}
    return {NCHWC: {"block": max((size for size in BLOCKS if all(d % size == 0 for d in padded)), default=BLOCKS[0])}}


def _padded_channels(graph: Any) -> Iterator[int]:
    # Output channels of convolutions in blocks, and their input channels if these are in blocks.
    convs = [node for node in graph.node if node.domain == NCHWC and node.op_type == "Conv" and len(node.input) > 1]
    if not convs:
        return
    stored = {tensor.name: tensor.dims for tensor in graph.initializer}
    for node in convs:
        dims = stored.get(node.input[1], ())
        if len(dims) < 3:
            continue
        yield dims[0]
        if dims[1] >= BLOCKS[0] and not any(a.name == "group" and a.i != 1 for a in node.attribute):
            yield dims[1]  # fewer channels, as in an image, are not in blocks


# Operators of ONNX Runtime that move data: layouts (blocks, patches, padding), and gathering.


def into_blocks(node: Node) -> Sequence[Value]:
    """Infer channels in blocks, the last block padded; the convolutions of the file determine the block size."""
    x, block = node.value("X"), node.args.get("block", BLOCKS[0])
    if len(x.known_shape) < 2:
        raise node.error(f"needs images with channels (got the shape {x.known_shape})")
    n, channels, *space = channels_first(node, x.known_shape)
    return [node.result((n, ceil_div(channels, block) * block, *space), x.dtype)]


def out_of_blocks(node: Node) -> Sequence[Value]:
    """Infer channels in order again; an attribute gives their number without padding."""
    x = node.value("X")
    count: Dim = node.args.get("channels") or x.known_shape[1]
    shape = (x.known_shape[0], count, *x.known_shape[2:])
    return [node.result(channels_back(node, shape), x.dtype)]


def patches(node: Node) -> Sequence[Value]:
    """Infer the windows of images with channels last, ``[N, H, W, K * C]``."""
    x, kernel = node.value("X"), tuple(node.args.get("kernel_size") or ())
    if len(x.known_shape) != 4:
        raise node.error(f"needs images [N, H, W, C] (got the shape {x.known_shape})")
    for name, given in (("strides", "stride"), ("pads", "pad_amount")):
        node.args[name] = node.args.get(given)
    found = windows(node, x.known_shape[1:3], kernel)
    return [node.result((x.known_shape[0], *found.out, prod(kernel) * x.known_shape[3]), x.dtype)]


def expanded(node: Node) -> Sequence[Value]:
    """Infer the input with a new axis of size 1."""
    x, axis = node.value("X"), node.number("axis")
    rank = len(x.known_shape) + 1
    if not -rank <= axis < rank:
        raise node.error(f"has the axis {axis} for an output of {rank} dimensions")
    shape = list(x.known_shape)
    shape.insert(axis % rank, 1)
    return [node.reshaped(x, shape)]


def unfolded(node: Node) -> Sequence[Value]:
    """Infer slices along an axis, which may overlap, each as a new last axis."""
    x, size, step = node.value("input"), positive(node, "size"), node.args.get("step", 1)
    axis = node.args.get("dim", -1)
    if not -len(x.known_shape) <= axis < len(x.known_shape) or step < 1:
        raise node.error(f"has the dim {axis} and the step {step} for an input of shape {x.known_shape}")
    shape = list(x.known_shape)
    length = shape[axis]
    if isinstance(length, int) and length < size:
        raise node.error(f"takes slices of {size} elements of an axis of size {length}")
    shape[axis] = (length - size) // step + 1
    return [node.result((*shape, size), x.dtype)]


def cropped(node: Node) -> Sequence[Value]:
    """Infer an image without its border, or of the size that ``scale`` gives."""
    x = node.value("input")
    border: tuple[Dim, ...] = tuple(node.args.get("border") or ())
    if len(x.known_shape) != 4 or len(border) != 4:
        raise node.error(
            "needs an image [N, C, H, W] and a border of 4 numbers "
            f"(got the shape {x.known_shape} and the border {border})"
        )
    left, top, right, bottom = border
    size = node.args.get("scale") or (x.known_shape[2] - top - bottom, x.known_shape[3] - left - right)
    return [node.result((*x.known_shape[:2], *size), x.dtype)]


LAYOUT_SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "Pad",
        "data pads value",
        required=2,
        infer=movement.pad,
        rows=[row("pad", {"x": "data"}, {"mode": "mode"})],
    ),
    OperatorSpec(
        "Range",
        "start limit delta",
        required=2,
        infer=range_of,
        rows=[row("arange")],
    ),
    OperatorSpec(
        "Trilu",
        "X k",
        attributes="upper",
        infer=like("X"),
        rows=[
            row(
                lambda a: "triu" if a.get("upper", 1) else "tril",
                {"x": "X"},
                {"diagonal": triangle_diagonal},
                ops=("triu", "tril"),
            )
        ],
    ),
    OperatorSpec(
        "ExpandDims",
        "X axis",
        required=2,
        infer=expanded,
        rows=[row("reshape", {"x": "X"})],
    ),
    OperatorSpec(
        "UnfoldTensor",
        "input",
        attributes="dim step",
        infer=unfolded,
        rows=[row("unfold", {"x": "input"}, {"size": "size", "step": lambda a: a.get("step", 1)})],
    ),
    *(
        OperatorSpec(op, "X", attributes=names, infer=infer, rows=[row("transpose", {"x": "X"})], domain=NCHWC)
        for op, names, infer in (
            ("ReorderInput", "channels_last", into_blocks),
            ("ReorderOutput", "channels_last channels", out_of_blocks),
        )
    ),
    *(
        channels_last_spec(op, "input", movement.REARRANGE_RULES, LAYOUT_ROWS)
        for op in ("DepthToSpace", "SpaceToDepth")
    ),
    OperatorSpec(
        "Crop",
        "input",
        infer=cropped,
        rows=[row("slice", {"x": "input"})],
        domain=ONNX,
    ),
    OperatorSpec(
        "DynamicSlice",
        "data starts ends axes",
        required=3,
        infer=movement.slice_,
        rows=[row("slice", {"x": "data"}, {"start": numbers("starts"), "stop": numbers("ends")})],
        domain=ONNX,
    ),
    *(
        OperatorSpec(
            "Im2Col",
            "X",
            attributes="pad_value depthwise",
            infer=patches,
            rows=[row("im2col", {"x": "X"})],
            domain=domain,
        )
        for domain in QONNX
    ),
    *(
        OperatorSpec(name, "X", infer=like("X"), rows=[row(op, {"x": "X"})], domain=domain)
        for name, op, domain in (
            ("SampleOp", "identity", MICROSOFT),
            ("MemcpyFromHost", "copy", ONNX),
            ("MemcpyToHost", "copy", ONNX),
        )
    ),
)


# Gathering.


def embedding(node: Node) -> Sequence[Value]:
    """Infer one row of a matrix for each index."""
    weight = node.value("weight")
    return [node.result((*node.value("indices").known_shape, weight.known_shape[-1]), weight.dtype)]


INDEXING_SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "GatherND",
        "data indices",
        required=2,
        infer=gather_nd,
        rows=[row("gather_nd", {"x": "data", "indices": "indices"})],
    ),
    OperatorSpec(
        "TorchEmbedding",
        "weight indices padding_idx scale_grad_by_freq",
        required=2,
        infer=embedding,
        rows=[row("embedding", {"x": "indices", "w": "weight"})],
    ),
)


SPECS: tuple[OperatorSpec, ...] = (
    *LAYOUT_SPECS,
    *INDEXING_SPECS,
    *SIGNAL_SPECS,
    *CONV_SPECS,
    *POOLING_SPECS,
    *RESAMPLING_SPECS,
)
