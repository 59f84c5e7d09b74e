"""Rows of sparse and nested tensors, and of operators whose work depends on values: masks, sets, histograms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from costcore.translate import Arguments, Row, Source

from .rules import axes, axis, constant, first, given, needs, non_empty, unlearned, value_or_number
from .tensors import SPARSE_LAYOUTS, shape_of

_X: dict[str, Source] = {"x": first}


def _is_sparse(name: str) -> Callable[[Arguments], bool]:
    return lambda args: args[name].layout in SPARSE_LAYOUTS


def _indices_of(name: str) -> Callable[[Arguments], int]:
    """How many integers say where the values of a sparse tensor lie."""

    def rule(args: Arguments) -> int:
        tensor = args[name]
        with _disable_current_modes():
            if tensor.layout is torch.sparse_coo:
                return int(tensor._indices().numel())
            if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
                return int(tensor.crow_indices().numel() + tensor.col_indices().numel())
            return int(tensor.ccol_indices().numel() + tensor.row_indices().numel())

    return rule


_SCALE: dict[str, Source] = {"alpha": given("alpha", 1), "beta": given("beta", 1)}


def _width(name: str, axis: int) -> Callable[[Arguments], int]:
    """Columns (rows, for axis -2) of an operand; of a sparse one at most as many as it has values."""

    def rule(args: Arguments) -> int:
        tensor = args[name]
        if tensor.dim() == 1:
            return 1
        width = int(tensor.shape[axis])
        return min(width, shape_of(tensor)[0]) if tensor.layout in SPARSE_LAYOUTS else width

    return rule


def _product(native: str, x0: str, x1: str, start: str | None = None) -> tuple[Row, Row]:
    inputs: dict[str, Source] = {"x0": x0, "x1": x1} | ({} if start is None else {"b": unlearned(start)})
    scale = {} if start is None else _SCALE
    first_one: dict[str, Source] = {"indices": _indices_of(x0), "width": _width(x1, -1), **scale}
    second: dict[str, Source] = {
        "indices": _indices_of(x1),
        "width": _width(x0, -2),
        "side": constant("x1"),
        **scale,
    }
    return (
        Row(f"aten::{native}", "sparse_dense_matmul", inputs, first_one, _is_sparse(x0)),
        Row(f"aten::{native}", "sparse_dense_matmul", inputs, second, _is_sparse(x1)),
    )


SPARSE = (
    *_product("mm", "self", "mat2"),
    *_product("mv", "self", "vec"),
    *_product("bmm", "self", "mat2"),
    *_product("addmm", "mat1", "mat2", "self"),
    *_product("_sparse_addmm", "mat1", "mat2", "self"),
    *_product("_sparse_sparse_matmul", "self", "other"),
    Row(
        "aten::_sparse_mm_reduce_impl",
        "sparse_dense_matmul",
        {"x0": "self", "x1": "other"},
        {"indices": _indices_of("self"), "width": _width("other", -1), "reduction": "reduce"},
        outputs=non_empty,
    ),
    Row(
        "aten::_sparse_mm_reduce_impl_backward",
        "sparse_dense_matmul_backward",
        {"x0": "self", "dy": "grad_out", "x1": "weight", "places": "arg_out"},
        {
            "indices": _indices_of("self"),
            "width": _width("weight", -1),
            "reduction": "reduce",
            "needs": needs("x0", "x1"),
        },
    ),
    Row(
        "aten::sparse_sampled_addmm",
        "sampled_product",
        {"x": "self", "x0": "mat1", "x1": "mat2"},
        {"indices": _indices_of("self"), **_SCALE},
    ),
    Row("aten::_to_dense", "to_dense", _X, {"indices": _indices_of("self")}, _is_sparse("self")),
    Row("aten::_to_dense", "copy", _X),
    *(
        Row(f"aten::{name}", "to_sparse", _X)
        for name in ("_to_sparse", "_to_sparse_csr", "_to_sparse_csc", "_to_sparse_bsr", "_to_sparse_bsc")
    ),
    Row("aten::sparse_mask", "sparse_mask", {"x": "self", "mask": "mask"}, {"indices": _indices_of("mask")}),
)

NESTED = (
    Row("aten::_nested_tensor_from_mask", "masked_select", {"x": "t", "mask": "mask"}),
    Row("aten::_nested_tensor_from_mask_left_aligned", "all_true", {"x": "mask"}),
    Row("aten::to_padded_tensor", "pad", _X),
    *(
        Row(f"aten::{name}", "pad", {"x": x})
        for name, x in (("_jagged_to_padded_dense_forward", "values"), ("_padded_dense_to_jagged_forward", "dense"))
    ),
)


def _indices(args: Arguments) -> list[Any]:
    return [index for index in args["indices"] if isinstance(index, torch.Tensor)]


MASKED = (
    Row("aten::masked_scatter", "masked_scatter", {"x": "self", "mask": "mask", "updates": "source"}),
    Row(
        "aten::_unsafe_masked_index",
        "masked_gather",
        {"x": "self", "mask": "mask", "indices*": _indices, "fill": value_or_number("fill")},
    ),
    Row(
        "aten::_unsafe_masked_index_put_accumulate",
        "masked_scatter_add",
        {"x": "self", "mask": "mask", "indices*": _indices, "updates": "values"},
    ),
    Row(
        "aten::put",
        "scatter",
        {"x": "self", "indices": "index", "updates": "source"},
        {"reduction": lambda args: "add" if args["accumulate"] else "none"},
    ),
)

ASKED = (
    Row("aten::equal", "all_equal", {"x0": "self", "x1": "other"}),
    Row("aten::allclose", "all_close", {"x0": "self", "x1": "other"}),
    *(Row(f"aten::{name}", "reduce_all", _X) for name in ("_is_all_true",)),
    *(Row(f"aten::{name}", "reduce_any", _X) for name in ("_is_any_true",)),
    Row(
        "aten::isin",
        "is_in",
        {
            "x": value_or_number("elements"),
            "values": value_or_number("test_elements"),
        },
    ),
    Row("aten::isin.Scalar_Tensor", "is_in", {"x": value_or_number("element"), "values": "test_elements"}),
    Row("aten::isin.Tensor_Scalar", "is_in", {"x": "elements", "values": value_or_number("test_element")}),
    Row("aten::hash_tensor", "reduce_xor", _X, {"axis": axes()}),
    Row("aten::nanmedian.dim", "median", _X, {"axis": axis()}),
    Row("aten::nanmedian", "median", _X),
    Row("aten::_unique", "unique", _X),
    Row("aten::nonzero_static", "nonzero", _X),
)


def _counts(name: str) -> Source:
    def bins(args: Arguments) -> tuple[int, ...]:
        value = args[name]
        if isinstance(value, int):
            return (value,)
        edges = [value] if isinstance(value, torch.Tensor) else value
        return tuple(each if isinstance(each, int) else each.numel() - 1 for each in edges)

    return bins


def _histogram(native: str, is_equal: bool) -> Row:
    edges: dict[str, Source] = {} if is_equal else {"edges*": _edges}
    return Row(
        f"aten::{native}",
        "binned_histogram",
        {"x": "self", **edges, "weights": "weight"},
        {"bins": _counts("bins"), "equal": constant(is_equal), "density": given("density", False)},
    )


def _edges(args: Arguments) -> list[Any]:
    return [args["bins"]] if isinstance(args["bins"], torch.Tensor) else list(args["bins"])


HISTOGRAMS = (
    _histogram("histogram.bin_ct", is_equal=True),
    _histogram("histogram.bins_tensor", is_equal=False),
    _histogram("_histogramdd_from_bin_cts", is_equal=True),
    _histogram("_histogramdd_from_bin_tensors", is_equal=False),
    Row(
        "aten::_histogramdd_bin_edges",
        "bin_edges",
        {"x": "self"},
        {"ranged": lambda args: True if args["range"] is not None else None},
    ),
)

ROWS = (*SPARSE, *NESTED, *MASKED, *ASKED, *HISTOGRAMS)
