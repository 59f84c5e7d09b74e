"""Rows of gather, scatter, masks, embeddings and segments, and of gradients that scatter."""

from __future__ import annotations

from typing import Any

import torch

from costcore.translate import Arguments, Row, Source

from ..operators.saved_for_backward import any_is_differentiated
from ..tensors import dtype_name
from .arguments import (
    axis,
    constant,
    enum_name,
    first_argument,
    first_output,
    non_default,
    tensor_or_number,
)


def _indices(args: Arguments) -> list[Any]:
    return [index for index in args["indices"] if isinstance(index, torch.Tensor)]


_REDUCTIONS = {
    "add": "add",
    "sum": "add",
    "multiply": "mul",
    "prod": "mul",
    "amax": "max",
    "amin": "min",
    "mean": "mean",
}


def _scatter_reduction(args: Arguments) -> str:
    return _REDUCTIONS.get(args.get("reduce") or "", "none")


def _put_reduction(args: Arguments) -> str:
    return "add" if args["accumulate"] else "none"


def _source_or_value(args: Arguments) -> Any:
    return tensor_or_number("src" if args.get("src") is not None else "value")(args)


_AXIS: dict[str, Source] = {"axis": axis()}

GATHER = (
    Row("aten::index_select", "gather", {"x": "self", "indices": "index"}, _AXIS),
    Row("aten::take", "gather", {"x": "self", "indices": "index"}),
    Row("aten::gather", "gather_elements", {"x": "self", "indices": "index"}, _AXIS),
    Row("aten::index", "gather", {"x": "self", "indices*": _indices}),
    Row(
        "aten::_unsafe_masked_index",
        "masked_gather",
        {"x": "self", "mask": "mask", "indices*": _indices, "fill": tensor_or_number("fill")},
    ),
)

SCATTER = (
    Row(
        "aten::index_put",
        "scatter",
        {"x": "self", "indices*": _indices, "updates": "values"},
        {"reduction": _put_reduction},
    ),
    Row(
        "aten::put",
        "scatter",
        {"x": "self", "indices": "index", "updates": "source"},
        {"reduction": _put_reduction},
    ),
    Row(
        "aten::_unsafe_masked_index_put_accumulate",
        "masked_scatter_add",
        {"x": "self", "mask": "mask", "indices*": _indices, "updates": "values"},
    ),
    Row(
        "aten::scatter",
        "scatter_elements",
        {"x": "self", "indices": "index", "updates": _source_or_value},
        {**_AXIS, "reduction": _scatter_reduction},
    ),
    *(
        Row(
            f"aten::{name}",
            "scatter_elements",
            {"x": "self", "indices": "index", "updates": "src"},
            {**_AXIS, "reduction": reduction},
        )
        for name, reduction in (
            ("scatter_add", constant("add")),
            ("scatter_reduce", _scatter_reduction),
        )
    ),
    *(
        Row(
            f"aten::{name}",
            "scatter",
            {"x": "self", "indices": "index", "updates": "source"},
            {**_AXIS, "reduction": reduction, "alpha": non_default("alpha", 1)},
        )
        for name, reduction in (
            ("index_add", constant("add")),
            ("index_copy", constant("none")),
            ("index_reduce", _scatter_reduction),
        )
    ),
    Row("aten::index_fill", "scatter", {"x": "self", "indices": "index", "updates": tensor_or_number("value")}, _AXIS),
    Row("aten::slice_scatter", "slice_scatter", {"x": "self", "updates": "src"}, _AXIS),
    Row("aten::select_scatter", "select_scatter", {"x": "self", "updates": "src"}, _AXIS),
    Row("aten::diagonal_scatter", "diagonal_scatter", {"x": "self", "updates": "src"}),
    Row("aten::as_strided_scatter", "slice_scatter", {"x": "self", "updates": "src"}),
)

_DY: dict[str, Source] = {"dy": first_argument}

VIEW_GRADIENTS = (
    *(Row(f"aten::{name}_backward", f"{name}_backward", _DY) for name in ("slice", "select", "diagonal", "unfold")),
    *(
        Row(f"aten::{kind}_pad{rank}d_backward", "pad_backward", _DY, {"padding": "padding"})
        for kind in ("reflection", "replication")
        for rank in (1, 2, 3)
    ),
    Row("aten::masked_scatter_backward", "masked_scatter_backward", {"dy": first_argument, "mask": "mask"}),
)


def _bag_of_each_index(args: Arguments) -> Any:
    """Return the bag of each index; the start of each bag if the forward pass did not save the former."""
    return args["offset2bag"] if args["offset2bag"].numel() else args["offsets"]


_BAG_GRADIENT: dict[str, Source] = {
    "dy": "grad",
    "x": "indices",
    "offsets": _bag_of_each_index,
    "sizes": lambda args: args.get("bag_size") if args["mode"] == 1 else None,
    "maxima": lambda args: args.get("maximum_indices") if args["mode"] == 2 else None,
    "per_sample_weights": "per_sample_weights",
}
_MODE: dict[str, Source] = {"mode": enum_name("mode", "sum", "mean", "max")}


def _saved_bags(args: Arguments) -> str | None:
    """Return the dtype of what embedding_bag keeps for its backward pass, that of the indices; None if none follows."""
    return dtype_name(args["indices"].dtype) if any_is_differentiated(*args.values()) else None


EMBEDDING = (
    Row("aten::embedding", "embedding", {"x": "indices", "w": "weight"}),
    *(
        Row(
            f"aten::{name}",
            "embedding_bag",
            {"x": "indices", "w": "weight", "offsets": "offsets", "per_sample_weights": "per_sample_weights"},
            {**_MODE, "saved": _saved_bags},
            outputs=first_output,
        )
        for name in ("embedding_bag", "_embedding_bag", "_embedding_bag_forward_only")
    ),
    Row(
        "aten::embedding_dense_backward",
        lambda args: "scaled_embedding_backward" if args["scale_grad_by_freq"] else "embedding_backward",
        {"dy": "grad_output", "x": "indices"},
        ops=("embedding_backward", "scaled_embedding_backward"),
    ),
    *(
        Row(f"aten::{name}", "embedding_bag_backward", _BAG_GRADIENT, _MODE, outputs=first_output)
        for name in ("_embedding_bag_backward", "_embedding_bag_dense_backward")
    ),
    Row(
        "aten::_embedding_bag_per_sample_weights_backward",
        "embedding_bag_weights_backward",
        {"dy": "grad", "w": "weight", "x": "indices", "offsets": _bag_of_each_index},
        _MODE,
    ),
)


def _segment_reduction(args: Arguments) -> str:
    word: str = args["reduce"]
    return {"amax": "max", "amin": "min"}.get(word, word)


_SEGMENT: dict[str, Source] = {"reduction": _segment_reduction, "axis": axis("axis")}

SEGMENTS = (
    Row(
        "aten::segment_reduce",
        "segment_reduce",
        {"x": "data", "lengths": "lengths", "offsets": "offsets", "indices": "indices"},
        _SEGMENT,
    ),
    Row(
        "aten::_segment_reduce_backward",
        "segment_reduce_backward",
        {"dy": "grad", "y": "output", "x": "data", "lengths": "lengths", "offsets": "offsets"},
        _SEGMENT,
    ),
)


MASKED = (
    Row("aten::masked_select", "masked_select", {"x": "self", "mask": "mask"}),
    Row("aten::_nested_tensor_from_mask", "masked_select", {"x": "t", "mask": "mask"}),
    Row("aten::masked_scatter", "masked_scatter", {"x": "self", "mask": "mask", "updates": "source"}),
)

ROWS = (*GATHER, *SCATTER, *VIEW_GRADIENTS, *EMBEDDING, *SEGMENTS, *MASKED)
