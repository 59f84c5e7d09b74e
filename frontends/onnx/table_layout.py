"""Rows of operators that move, pick, join and make elements."""

from __future__ import annotations

from typing import Any

from costcore.translate import Arguments, Row, Source

from .settings import axis, first, node, number, numbers, outputs, told
from .shapes.layout import FAR
from .table_layers import softmax_axis
from .values.value import Value


def _perm(a: Arguments) -> Any:
    rank = len(a["data"].known)
    return a.get("perm") or tuple(reversed(range(rank)))


def _is_table(a: Arguments) -> bool:
    """Whether a gather looks rows up in a learned matrix: an embedding."""
    table, indices = a.get("data"), a.get("indices")
    return (
        isinstance(table, Value)
        and isinstance(indices, Value)
        and table.role == "param"
        and len(table.known) == 2
        and indices.role == "data"
        and axis("data")(a) == 0
    )


def _slice_ends(a: Arguments) -> Any:
    """Ends of slices; None for those that mean: to the end."""
    ends = numbers("ends")(a)
    return ends and tuple(None if isinstance(end, int) and end >= FAR else end for end in ends)


def _scaled_axes(a: Arguments) -> Any:
    """The axes a resize changes, where they are not among the spatial ones of ``[N, C, ...]``."""
    x, y = a["X"].known, node(a).outputs[0]
    changed = tuple(i for i, (before, after) in enumerate(zip(x, y.known, strict=True)) if before != after) if y else ()
    return changed if any(i < 2 for i in changed) else None


_INTERPOLATIONS = {"bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}


def _mode(usual: str) -> Source:
    """How samples are interpolated, of whatever rank; ``usual`` where the node does not say."""
    return lambda a: _INTERPOLATIONS.get(a.get("mode", usual), a.get("mode", usual))


def _upper(a: Arguments) -> str:
    return "triu" if a.get("upper", 1) else "tril"


REDUCTION = {"reduction": lambda a: a.get("reduction", "none")}

ROWS: tuple[Row, ...] = (
    Row("ai.onnx::Constant", "constant"),
    *(Row(f"ai.onnx::{op}", "reshape", {"x": "data"}) for op in ("Reshape", "Squeeze", "Unsqueeze")),
    Row("ai.onnx::Flatten", "reshape", {"x": "input"}),
    Row("ai.onnx::Identity", "identity", {"x": first("input")}),
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
            "axis": told(lambda n: n.axes(len(n.value("data").known), "axes")),
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
        {"axis": told(lambda n: n.axis(len(n.values("inputs")[0].known), "axis"))},
    ),
    Row("ai.onnx::Tile", "tile", {"x": "input"}, {"repeats": numbers("repeats")}),
    Row(
        "ai.onnx::Pad",
        "pad",
        {"x": "data"},
        {"mode": "mode", "padding": told(lambda n: n.numbers("pads", "paddings"))},
    ),
    Row("ai.onnx::CenterCropPad", "center_crop_pad", {"x": "input_data"}),
    Row("ai.onnx::Trilu", _upper, {"x": "input"}, {"diagonal": number("k")}, ops=("triu", "tril")),
    Row("ai.onnx::Gather", "embedding", {"x": "indices", "w": "data"}, when=_is_table),
    Row("ai.onnx::Gather", "gather", {"x": "data", "indices": "indices"}, {"axis": axis("data")}),
    Row("ai.onnx::GatherElements", "gather_elements", {"x": "data", "indices": "indices"}, {"axis": axis("data")}),
    Row("ai.onnx::GatherND", "gather_nd", {"x": "data", "indices": "indices"}),
    *(
        Row(
            f"ai.onnx::{op}",
            "scatter_elements",
            {"x": "data", "indices": "indices", "updates": "updates"},
            {"axis": axis("data"), **REDUCTION},
        )
        for op in ("ScatterElements", "Scatter")
    ),
    Row(
        "ai.onnx::ScatterND",
        "scatter_nd",
        {"x": "data", "indices": "indices", "updates": "updates"},
        REDUCTION,
    ),
    Row(
        "ai.onnx::TensorScatter",
        "tensor_scatter",
        {"x": "past_cache", "updates": "update", "indices": "write_indices"},
        {"axis": axis("past_cache")},
    ),
    Row("ai.onnx::Compress", "compress", {"x": "input", "condition": "condition"}),
    Row("ai.onnx::OneHot", "one_hot", {"x": "indices"}),
    Row("ai.onnx::ConstantOfShape", "full"),
    Row("ai.onnx::Range", "arange"),
    Row("ai.onnx::EyeLike", "eye"),
    *(Row(f"ai.onnx::Random{kind}", "random") for kind in ("Normal", "NormalLike", "Uniform", "UniformLike")),
    Row(
        "ai.onnx::TopK",
        "topk",
        {"x": "X"},
        {"axis": axis("X"), "k": told(lambda n: n.number("K", "k"))},
        outputs=outputs(2),
    ),
    Row(
        "ai.onnx::Unique",
        "unique",
        {"x": "X"},
        {"axis": told(lambda n: n.axis(len(n.value("X").known), "axis"))},
    ),
    Row("ai.onnx::NonMaxSuppression", "non_max_suppression", {"x0": "boxes", "x1": "scores"}),
    *(
        Row(
            f"ai.onnx::{op}",
            "resize",
            {"x": "X"},
            {"mode": _mode("nearest"), "axes": _scaled_axes},
        )
        for op in ("Resize", "Upsample")
    ),
    Row("ai.onnx::GridSample", "grid_sample", {"x": "X", "grid": "grid"}, {"mode": _mode("linear")}),
    Row("ai.onnx::AffineGrid", "affine_grid", {"theta": "theta"}),
    Row("ai.onnx::Col2Im", "col2im", {"x": "input"}),
    Row("ai.onnx::MaxUnpool", "unpool", {"x": "X", "indices": "I"}),
    Row("ai.onnx::MaxRoiPool", "roi_max_pool", {"x": "X", "rois": "rois"}),
    Row(
        "ai.onnx::RoiAlign",
        "roi_align",
        {"x": "X", "rois": "rois", "batch_indices": "batch_indices"},
        {"mode": "mode", "sampling": lambda a: (a.get("sampling_ratio", 0),) * 2},
    ),
    Row("ai.onnx::Hardmax", "hardmax", {"x": "input"}, {"axis": softmax_axis}),
    Row("ai.onnx::Einsum", "einsum", {"x*": "Inputs"}, {"equation": "equation"}),
)
"""The rows of this family."""
