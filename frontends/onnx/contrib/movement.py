"""Operators of ONNX Runtime that move data: layouts (blocks, patches, padding), and gathering."""

from __future__ import annotations

from collections.abc import Sequence

from costcore.ir import prod
from costcore.numbers import Dim, ceil_div

from ..node import Node
from ..operators import movement
from ..operators.arguments import like, numbers, positive, windows
from ..operators.movement import LAYOUT_ROWS, gather_nd, range_of, triangle_diagonal
from ..schema import ONNX
from ..values import Shape, Value
from .spec import MICROSOFT, NCHWC, QONNX, OperatorSpec, row
from .windows import BLOCKS, channels_last


def into_blocks(node: Node) -> Sequence[Value]:
    """Infer channels in blocks, the last one padded; the convolutions of the file decide how many are in one."""
    x, block = node.value("X"), node.args.get("block", BLOCKS[0])
    n, channels, *space = _channels_first(node, x)
    return [node.result((n, ceil_div(channels, block) * block, *space), x.dtype)]


def out_of_blocks(node: Node) -> Sequence[Value]:
    """Infer channels in order again; an attribute gives their number without padding."""
    x = node.value("X")
    count: Dim = node.args.get("channels") or x.known_shape[1]
    shape = (x.known_shape[0], count, *x.known_shape[2:])
    if node.args.get("channels_last"):
        shape = (shape[0], *shape[2:], shape[1])
    return [node.result(shape, x.dtype)]


def _channels_first(node: Node, x: Value) -> Shape:
    shape = x.known_shape
    if len(shape) < 2:
        raise node.error(f"needs images with channels (got the shape {shape})")
    return (shape[0], shape[-1], *shape[1:-1]) if node.args.get("channels_last") else shape


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
    *(channels_last(op, "input", movement.REARRANGE_RULES, LAYOUT_ROWS) for op in ("DepthToSpace", "SpaceToDepth")),
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


SPECS: tuple[OperatorSpec, ...] = (*LAYOUT_SPECS, *INDEXING_SPECS)
