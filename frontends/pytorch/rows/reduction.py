"""Rows of reductions, cumulative operators, sorting, searching, histograms and comparisons of whole tensors."""

from __future__ import annotations

from typing import Any

import torch

from costcore.translate import Arguments, Row, Source

from .arguments import X, axes, axis, constant, non_default, rows_by_name, tensor_or_number

_AXES: dict[str, Source] = {"axis": axes(), "keepdims": "keepdim"}


def _norm_by_order(name: str) -> Any:
    ops_by_order = {1: "reduce_l1", 2: "reduce_l2", float("inf"): "reduce_linf"}

    def op(args: Arguments) -> str:
        order = args.get(name)
        return ops_by_order.get(2 if order is None else order, "reduce_lp")

    return op


_NORM_OPS = ("reduce_l1", "reduce_l2", "reduce_linf", "reduce_lp")

REDUCTIONS = (
    *rows_by_name(
        "sum=reduce_sum nansum=reduce_nansum mean=reduce_mean prod=reduce_prod amax=reduce_max amin=reduce_min "
        "max=reduce_max min=reduce_min all=reduce_all any=reduce_any argmax argmin logsumexp=reduce_log_sum_exp "
        "aminmax=min_max",
        X,
        _AXES,
    ),
    Row("aten::_aminmax", "min_max", X, {"axis": axes()}),
    Row("aten::count_nonzero", "count_nonzero", X, {"axis": axes()}),
    *rows_by_name("var std var_mean std_mean", X, {**_AXES, "correction": "correction"}),
    Row("aten::linalg_vector_norm", _norm_by_order("ord"), X, {**_AXES, "p": "ord"}, ops=_NORM_OPS),
    Row("aten::norm", _norm_by_order("p"), X, {**_AXES, "p": "p"}, ops=_NORM_OPS),
    Row("aten::hash_tensor", "reduce_xor", X, {"axis": axes()}),
    Row("aten::trace", "trace", X),
)

CUMULATIVE = tuple(
    rows_by_name(
        "cumsum cumprod cummax cummin logcumsumexp _cummax_helper=cummax _cummin_helper=cummin "
        "_logcumsumexp=logcumsumexp",
        X,
        {"axis": axis()},
    )
)

SORTING_AND_SEARCHING = (
    *rows_by_name("sort argsort", X, {"axis": axis()}),
    Row("aten::topk", "topk", X, {"axis": axis(), "k": "k"}),
    Row("aten::kthvalue", "kth_value", X, {"axis": axis(), "k": "k"}),
    *(
        row
        for name in ("median", "nanmedian")
        for row in (Row(f"aten::{name}.dim", "median", X, {"axis": axis()}), Row(f"aten::{name}", "median", X))
    ),
    Row("aten::mode", "mode", X, {"axis": axis()}),
    *rows_by_name("_unique _unique2 unique_consecutive unique_dim unique_dim_consecutive", X, op="unique"),
    *rows_by_name("nonzero nonzero_static", X, op="nonzero"),
    *rows_by_name("bincount=bin_count histc=histogram", X),
    Row(
        "aten::searchsorted",
        "search_sorted",
        {"x": tensor_or_number("self"), "sorted": "sorted_sequence", "sorter": "sorter"},
    ),
    Row("aten::bucketize", "search_sorted", {"x": tensor_or_number("self"), "sorted": "boundaries"}),
    Row("aten::isin", "is_in", {"x": tensor_or_number("elements"), "values": tensor_or_number("test_elements")}),
    Row("aten::isin.Scalar_Tensor", "is_in", {"x": tensor_or_number("element"), "values": "test_elements"}),
    Row("aten::isin.Tensor_Scalar", "is_in", {"x": "elements", "values": tensor_or_number("test_element")}),
)


def _bin_counts(name: str) -> Source:
    def bins(args: Arguments) -> tuple[int, ...]:
        value = args[name]
        if isinstance(value, int):
            return (value,)
        edges = [value] if isinstance(value, torch.Tensor) else value
        return tuple(each if isinstance(each, int) else each.numel() - 1 for each in edges)

    return bins


def _edges(args: Arguments) -> list[Any]:
    return [args["bins"]] if isinstance(args["bins"], torch.Tensor) else list(args["bins"])


def _histogram(native: str, equal_widths: bool) -> Row:
    edges: dict[str, Source] = {} if equal_widths else {"edges*": _edges}
    return Row(
        f"aten::{native}",
        "binned_histogram",
        {"x": "self", **edges, "weights": "weight"},
        {"bins": _bin_counts("bins"), "equal": constant(equal_widths), "density": non_default("density", False)},
    )


HISTOGRAMS = (
    _histogram("histogram.bin_ct", equal_widths=True),
    _histogram("histogram.bins_tensor", equal_widths=False),
    _histogram("_histogramdd_from_bin_cts", equal_widths=True),
    _histogram("_histogramdd_from_bin_tensors", equal_widths=False),
    Row(
        "aten::_histogramdd_bin_edges",
        "bin_edges",
        {"x": "self"},
        {"ranged": lambda args: True if args["range"] is not None else None},
    ),
)

LISTS = (
    Row("aten::_foreach_max", "foreach_max", {"x*": "self"}),
    Row("aten::_foreach_norm", "foreach_norm", {"x*": "self"}, {"p": "ord"}),
    Row("aten::_foreach_powsum", "foreach_powsum", {"x*": "self"}, {"p": "ord"}),
)

DETECTION = (Row("torchvision::nms", "non_max_suppression", {"x0": "dets", "x1": "scores"}),)

WHOLE_TENSOR = (
    Row("aten::equal", "all_equal", {"x0": "self", "x1": "other"}),
    Row("aten::allclose", "all_close", {"x0": "self", "x1": "other"}),
    *rows_by_name("_is_all_true=reduce_all _is_any_true=reduce_any", X),
    Row("aten::_nested_tensor_from_mask_left_aligned", "all_true", {"x": "mask"}),
)

ROWS = (*REDUCTIONS, *CUMULATIVE, *SORTING_AND_SEARCHING, *HISTOGRAMS, *LISTS, *DETECTION, *WHOLE_TENSOR)
