"""Rows of operators that create tensors or move data."""

from __future__ import annotations

from typing import Any

from costcore.translate import Arguments, Row

from ..graph.node import Node
from ..shapes.layout.rearrange import FAR
from ..values.value import Container, Value
from .arguments import axis, determined, first_given, node_of, number, numbers


def _joined_items(a: Arguments) -> list[Value]:
    """Return the items of a joined sequence; the output as one item if they are not known individually."""
    container = a.get("input_sequence")
    if isinstance(container, Container) and container.items is not None:
        return [item for item in container.items if not isinstance(item, Container)]
    return [node_of(a).outputs[0]]  # type: ignore[list-item]  # as many elements as are written


def _split_outputs(a: Arguments, values: Any) -> Any:
    """Return the parts of a split tensor; the tensor itself if they are not known individually."""
    container = values[0]
    if isinstance(container, Container) and container.items is not None:
        return [item for item in container.items if not isinstance(item, Container)]
    return [Value(a["input"].shape, a["input"].dtype)]


def _perm(a: Arguments) -> Any:
    """Return the order of the axes."""
    rank = len(a["data"].known_shape)
    return a.get("perm") or tuple(reversed(range(rank)))


def _slice_ends(a: Arguments) -> Any:
    """Return the ends of slices; None for those at the end of the axis."""
    ends = numbers("ends")(a)
    return ends and tuple(None if isinstance(end, int) and end >= FAR else end for end in ends)


def _padding_before(node: Node) -> tuple[Any, ...]:
    """Return the width of the border before each axis."""
    rank = len(node.value("data").known_shape)
    pads = node.numbers("pads", "paddings") or ()
    axes = node.axes(rank, "axes") or tuple(range(rank))
    widths = dict(zip(axes, pads, strict=False))
    return tuple(widths.get(axis, 0) for axis in range(rank))


def _triangle(a: Arguments) -> str:
    """Return which triangle is kept."""
    return "triu" if a.get("upper", 1) else "tril"


def triangle_diagonal(a: Arguments) -> Any:
    """Return the diagonal at which a triangle ends, "data" if it is not a constant."""
    if a.get("k") is None:
        return 0
    found = number("k")(a)
    return "data" if found is None else found


ROWS: tuple[Row, ...] = (
    *(Row(f"ai.onnx::{op}", "reshape", {"x": "data"}) for op in ("Reshape", "Squeeze", "Unsqueeze")),
    Row("ai.onnx::Cast", "cast", {"x": "input"}, {"dtype": determined(lambda n: n.outputs[0] and n.outputs[0].dtype)}),
    Row(
        "ai.onnx::CastLike",
        "cast",
        {"x": "input"},
        {"dtype": determined(lambda n: n.outputs[0] and n.outputs[0].dtype)},
    ),
    Row("ai.onnx::BitCast", "bitcast", {"x": "input"}),
    Row("ai.onnx::Constant", "constant"),
    Row("ai.onnx::Flatten", "reshape", {"x": "input"}),
    Row("ai.onnx::Identity", "identity", {"x": first_given("input")}),
    Row("ai.onnx::Shape", "shape", {"x": "data"}),
    Row("ai.onnx::Size", "size", {"x": "data"}),
    Row("ai.onnx::Transpose", "transpose", {"x": "data"}, {"axes": _perm}),
    Row("ai.onnx::Expand", "broadcast_to", {"x": "input"}),
    Row(
        "ai.onnx::Slice",
        "slice",
        {"x": "data"},
        {
            "start": numbers("starts"),
            "stop": _slice_ends,
            "axis": determined(lambda n: n.axes(len(n.value("data").known_shape), "axes")),
            "step": numbers("steps"),
        },
    ),
    Row("ai.onnx::Split", "split", {"x": "input"}, {"axis": axis("input")}),
    Row("ai.onnx::DepthToSpace", "depth_to_space", {"x": "input"}, {"block": "blocksize"}),
    Row("ai.onnx::SpaceToDepth", "space_to_depth", {"x": "input"}, {"block": "blocksize"}),
    Row("ai.onnx::ReverseSequence", "reverse_sequence", {"x": "input", "lengths": "sequence_lens"}),
    Row("ai.onnx::Concat", "copy", {"x": lambda a: a["inputs"][0]}, when=lambda a: len(a["inputs"]) == 1),
    Row(
        "ai.onnx::Concat",
        "concat",
        {"x*": "inputs"},
        {"axis": determined(lambda n: n.axis(len(n.values("inputs")[0].known_shape), "axis"))},
    ),
    Row("ai.onnx::Tile", "tile", {"x": "input"}, {"repeats": numbers("repeats")}),
    Row(
        "ai.onnx::Pad",
        "pad",
        {"x": "data"},
        {
            "mode": "mode",
            "padding": determined(lambda n: n.numbers("pads", "paddings")),
            "before": determined(_padding_before),
        },
    ),
    Row("ai.onnx::CenterCropPad", "center_crop_pad", {"x": "input_data"}),
    Row("ai.onnx::Trilu", _triangle, {"x": "input"}, {"diagonal": triangle_diagonal}, ops=("triu", "tril")),
    Row("ai.onnx::OneHot", "one_hot", {"x": "indices"}),
    Row("ai.onnx::ConstantOfShape", "full"),
    Row("ai.onnx::Range", "arange"),
    Row("ai.onnx::EyeLike", "eye"),
    Row("ai.onnx::Col2Im", "col2im", {"x": "input"}),
    Row(
        "ai.onnx::ConcatFromSequence",
        lambda a: "stack" if a.get("new_axis") else "concat",
        {"x*": _joined_items},
        {"axis": "axis"},
        ops=("concat", "stack"),
    ),
    Row("ai.onnx::SplitToSequence", "split", {"x": "input"}, {"axis": axis("input")}, outputs=_split_outputs),
    Row("ai.onnx.ml::FeatureVectorizer", "concat", {"x*": "X"}, {"axis": lambda a: 1}),
    Row("ai.onnx.ml::OneHotEncoder", "one_hot", {"x": "X"}),
)
