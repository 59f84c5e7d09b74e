"""Poolings that ONNX Runtime adds."""

from __future__ import annotations

from collections.abc import Sequence

from costcore.translate import Arguments

from ..graph.node import Inferred, Node
from ..rows.arguments import first_outputs
from ..rows.pooling import POOL, ROWS
from ..shapes import pooling as standard
from ..shapes.windows import Windows, kernel_of, windows
from ..values.value import Shape, Undetermined, Value
from .channels_last import channel_view, channels_back, channels_first, channels_last, rule_with_channels_last
from .spec import NCHWC, QONNX, OperatorSpec, row


def pool(node: Node) -> Inferred:
    """Infer a pooling, with channels first or last."""
    shape = _input_shape(node)
    return _pooled(node, shape, windows(node, shape[2:], kernel_of(node)))


def global_pool(node: Node) -> Inferred:
    """Infer a pooling with one window as large as the input, with channels first or last."""
    shape = _input_shape(node)
    ones, zeros = (1,) * (len(shape) - 2), (0,) * (len(shape) - 2)
    return _pooled(node, shape, Windows(shape[2:], ones, ones, zeros, zeros, ones))


def _input_shape(node: Node) -> Shape:
    """Return the shape of the input with channels first.

    Raises:
        CostError: if it has no spatial dimensions.
    """
    shape = channels_first(node, node.value("X", "x").known_shape)
    if len(shape) < 3:
        raise node.error(f"needs an input of 3 or more dimensions (got the shape {shape})")
    return shape


def _pooled(node: Node, shape: Shape, found: Windows) -> Inferred:
    """Return the output of a pooling."""
    zero = node.get("y_zero_point")
    dtype = zero.dtype if zero is not None else node.value("X", "x").dtype
    return Inferred([node.result(channels_back(node, (*shape[:2], *found.out)), dtype)], found)


def crops(node: Node) -> Sequence[Value]:
    """Infer one crop for each box, of a size that is a value."""
    x, boxes = node.value("X"), node.value("rois")
    if len(x.known_shape) != 4:
        raise node.error(f"needs images [N, C, H, W] (got the shape {x.known_shape})")
    try:
        size = node.numbers("crop_size") or (None, None)
    except Undetermined:
        size = (None, None)
    return [node.result((boxes.known_shape[0], x.known_shape[1], *size), x.dtype)]


def max_unpool(node: Node) -> Sequence[Value] | Inferred:
    """Infer the input of a pooling with channels last, from the given shape or the windows."""
    wanted = node.numbers("output_shape")
    if wanted is not None:
        return [node.result(wanted, node.value("X").dtype)]
    return rule_with_channels_last(standard.max_unpool)(node)


def quantized_average(node: Node) -> Inferred:
    """Infer an average of QONNX, whose windows are square and not padded."""
    size, stride = node.args.get("kernel", 1), node.args.get("stride", 1)
    node.args.update(kernel_shape=(size, size), strides=(stride, stride))
    node.args["channels_last"] = node.args.get("data_layout") == "NHWC"
    return pool(node)


def _sampling(a: Arguments) -> str:
    """Return the canonical name of the interpolation."""
    return "nearest" if a.get("mode") == "nearest" else "linear"


SPECS: tuple[OperatorSpec, ...] = (
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
        rows=[row("crop_and_resize", {"x": "X", "rois": "rois", "indices": "batch_indices"}, {"mode": _sampling})],
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
        channels_last(op, "X", standard.RULES, ROWS, attributes="" if op.startswith("Global") else "ceil_mode")
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
                "QuantAvgPool2d",  # a sum that is shifted, which is the division of an average
                "X",
                attributes="kernel stride ibits obits signed",
                infer=quantized_average,
                rows=[row("avg_pool", {"x": channel_view("X")}, POOL)],
                domain=domain,
            ),
        )
    ),
    channels_last(
        "MaxUnpool",
        "X I output_shape",
        standard.RULES,
        ROWS,
        required=2,
        infer=max_unpool,
    ),
)
