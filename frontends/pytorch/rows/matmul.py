"""Rows of dense, sparse, scaled and grouped matrix products, and of their gradients."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from costcore.translate import Arguments, Row, Source

from ..tensors import SPARSE_LAYOUTS, DataOperand, shape_of
from .arguments import (
    PACKED,
    X,
    constant,
    first_argument,
    is_unpacked,
    needed_gradients,
    non_default,
    non_empty_outputs,
    rows_by_name,
    tensors_in,
)


def _is_sparse(name: str) -> Callable[[Arguments], bool]:
    return lambda args: args[name].layout in SPARSE_LAYOUTS


def _index_count(name: str) -> Callable[[Arguments], int]:
    """Count the integers that store the positions of a sparse tensor's values."""

    def read(args: Arguments) -> int:
        tensor = args[name]
        with _disable_current_modes():
            if tensor.layout is torch.sparse_coo:
                return int(tensor._indices().numel())
            if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
                return int(tensor.crow_indices().numel() + tensor.col_indices().numel())
            return int(tensor.ccol_indices().numel() + tensor.row_indices().numel())

    return read


def _dense_width(dense: str, sparse: str, contracted: int) -> Callable[[Arguments], int]:
    """Read how many elements of an operand each value of the sparse operand is multiplied by.

    These are its elements per index of the axis ``contracted``, in one batch if the sparse operand is batched too; at
    most its number of values if it is sparse itself.
    """

    def read(args: Arguments) -> int:
        tensor = args[dense]
        axis = contracted if tensor.dim() > 1 else -1
        batch = max(args[sparse].dim(), 2) - 2
        width = prod(int(size) for i, size in enumerate(tensor.shape) if i >= batch and i != tensor.dim() + axis)
        return min(width, shape_of(tensor)[0]) if tensor.layout in SPARSE_LAYOUTS else width

    return read


def _addend(name: str) -> Callable[[Arguments], Any]:
    """Read an operand that the product is added to; PyTorch ignores it if ``beta`` is 0, or it has no values."""

    def read(args: Arguments) -> Any:
        return DataOperand(args[name]) if args.get("beta", 1) != 0 and 0 not in shape_of(args[name]) else None

    return read


_ALPHA_BETA: dict[str, Source] = {
    "alpha": non_default("alpha", 1),
    "beta": lambda args: args["beta"] if args.get("beta", 1) not in (0, 1) else None,
}


def _sparse_dense_rows(native: str, x0: str, x1: str, addend: str | None = None) -> tuple[Row, Row]:
    inputs: dict[str, Source] = {"x0": x0, "x1": x1} | ({} if addend is None else {"b": _addend(addend)})
    scale = {} if addend is None else _ALPHA_BETA
    left_sparse: dict[str, Source] = {"indices": _index_count(x0), "width": _dense_width(x1, x0, -2), **scale}
    right_sparse: dict[str, Source] = {
        "indices": _index_count(x1),
        "width": _dense_width(x0, x1, -1),
        "side": constant("x1"),
        **scale,
    }
    return (
        Row(f"aten::{native}", "sparse_dense_matmul", inputs, left_sparse, _is_sparse(x0)),
        Row(f"aten::{native}", "sparse_dense_matmul", inputs, right_sparse, _is_sparse(x1)),
    )


_LINEAR: dict[str, Source] = {"x": "input", "w": "weight", "b": "bias"}

SPARSE_LINEAR = tuple(
    Row(
        "aten::linear",
        "sparse_dense_matmul",
        _LINEAR,
        {"indices": _index_count(sparse), "width": _dense_width(dense, sparse, -1), "side": constant(side)},
        _is_sparse(sparse),
    )
    for side, sparse, dense in (("w", "weight", "input"), ("x", "input", "weight"))
)
"""The weight is transposed: the last axis of both operands is contracted."""

SPARSE = (
    *SPARSE_LINEAR,
    *_sparse_dense_rows("matmul", "self", "other"),
    *_sparse_dense_rows("linalg_matmul", "self", "other"),
    *_sparse_dense_rows("mm", "self", "mat2"),
    *_sparse_dense_rows("mv", "self", "vec"),
    *_sparse_dense_rows("bmm", "self", "mat2"),
    *_sparse_dense_rows("hspmm", "mat1", "mat2"),
    *_sparse_dense_rows("addmm", "mat1", "mat2", "self"),
    *_sparse_dense_rows("addmv", "mat", "vec", "self"),
    *_sparse_dense_rows("sspaddmm", "mat1", "mat2", "self"),
    *_sparse_dense_rows("_sparse_addmm", "mat1", "mat2", "self"),
    *_sparse_dense_rows("_sparse_sparse_matmul", "self", "other"),
    Row(
        "aten::_sparse_mm_reduce_impl",
        "sparse_dense_matmul",
        {"x0": "self", "x1": "other"},
        {"indices": _index_count("self"), "width": _dense_width("other", "self", -2), "reduction": "reduce"},
        outputs=non_empty_outputs,
    ),
    Row(
        "aten::_sparse_mm_reduce_impl_backward",
        "sparse_dense_matmul_backward",
        {"x0": "self", "dy": "grad_out", "x1": "weight", "places": "arg_out"},
        {
            "indices": _index_count("self"),
            "width": _dense_width("weight", "self", -2),
            "reduction": "reduce",
            "needs": needed_gradients("x0", "x1"),
        },
    ),
    Row(
        "aten::sparse_sampled_addmm",
        "sampled_product",
        {"x": "self", "x0": "mat1", "x1": "mat2"},
        {"indices": _index_count("self"), **_ALPHA_BETA},
    ),
    Row("aten::_to_dense", "to_dense", X, {"indices": _index_count("self")}, _is_sparse("self")),
    *rows_by_name("_to_sparse _to_sparse_csr _to_sparse_csc _to_sparse_bsr _to_sparse_bsc", X, op="to_sparse"),
    Row("aten::sparse_mask", "sparse_mask", {"x": "self", "mask": "mask"}, {"indices": _index_count("mask")}),
)


def _with_addend(x0: str, x1: str) -> dict[str, Source]:
    return {"x0": x0, "x1": x1, "b": _addend("self")}


DENSE = (
    Row("aten::linear", "linear", _LINEAR),
    Row("quantized::linear_dynamic_fp16", "linear", {"x": first_argument, **PACKED}, {}, is_unpacked),
    Row("aten::mkldnn_linear", "linear", {"x": first_argument, "w": "weight", "b": "bias"}),
    *rows_by_name("matmul linalg_matmul vdot", {"x0": "self", "x1": "other"}, op="matmul"),
    *rows_by_name("mm bmm _int_mm", {"x0": "self", "x1": "mat2"}, op="matmul"),
    Row("aten::dot", "matmul", {"x0": "self", "x1": "tensor"}),
    Row("aten::mv", "matmul", {"x0": "self", "x1": "vec"}),
    Row("aten::addmm", "matmul", _with_addend("mat1", "mat2"), _ALPHA_BETA),
    Row("aten::addmv", "matmul", _with_addend("mat", "vec"), _ALPHA_BETA),
    Row("aten::baddbmm", "matmul", _with_addend("batch1", "batch2"), _ALPHA_BETA),
    Row("aten::bilinear", "bilinear", {"x0": "input1", "x1": "input2", "w": "weight", "b": "bias"}),
    Row("aten::_foreach_mm", "foreach_matmul", {"x*": tensors_in("self", "mat2")}),
)


def _subscripts(rank: int, absent: Any) -> str:
    return "".join(chr(ord("a") + axis) for axis in range(rank) if axis not in absent)


def _trilinear_equation(args: Arguments) -> str:
    """Return the product of three operands as an einsum equation; ``expand`` lists the axes an operand lacks."""
    absent_axes = [args[f"expand{i}"] for i in (1, 2, 3)]
    rank = args["i1"].dim() + len(absent_axes[0])
    inputs = ",".join(_subscripts(rank, absent) for absent in absent_axes)
    return f"{inputs}->{_subscripts(rank, args['sumdim'])}"


EINSUM = (
    Row(
        "aten::addbmm", "einsum", _with_addend("batch1", "batch2"), {"equation": constant("bij,bjk->ik"), **_ALPHA_BETA}
    ),
    Row("aten::addr", "einsum", _with_addend("vec1", "vec2"), {"equation": constant("i,j->ij"), **_ALPHA_BETA}),
    Row("aten::einsum", "einsum", {"x*": "tensors"}, {"equation": "equation"}),
    Row("aten::_trilinear", "einsum", {"x0": "i1", "x1": "i2", "x2": "i3"}, {"equation": _trilinear_equation}),
)

_SCALED: dict[str, Source] = {"x0": "self", "x1": "mat2", "x0_scale": "scale_a", "x1_scale": "scale_b", "b": "bias"}
_LISTED_SCALES: dict[str, Source] = {"x0_scale*": "scale_a", "x1_scale*": "scale_b"}

SCALED_AND_GROUPED = (
    Row("aten::_scaled_mm", "scaled_matmul", {**_SCALED, "y_scale": "scale_result"}),
    Row(
        "aten::_scaled_mm_v2",
        "scaled_matmul",
        {"x0": "self", "x1": "mat2", **_LISTED_SCALES, "b": "bias"},
    ),
    Row("aten::_scaled_addmm", "scaled_matmul", {**_with_addend("mat1", "mat2"), **_LISTED_SCALES}, _ALPHA_BETA),
    Row("aten::_grouped_mm", "grouped_matmul", {"x0": "self", "x1": "mat2", "offsets": "offs", "b": "bias"}),
    Row("transformers::grouped_mm_fallback", "grouped_matmul", {"x0": "input", "x1": "weight", "offsets": "offs"}),
    Row("aten::_scaled_grouped_mm", "grouped_matmul", {**_SCALED, "offsets": "offs"}),
    Row(
        "aten::_scaled_grouped_mm_v2",
        "grouped_matmul",
        {"x0": "self", "x1": "mat2", "offsets": "offs", "b": "bias", **_LISTED_SCALES},
    ),
)

_LINEAR_GRADIENT: dict[str, Source] = {"dy": "grad_output", "x": "self", "w": "weight"}

GRADIENTS = (
    *(
        Row(f"aten::{name}", "linear_backward", _LINEAR_GRADIENT, {"needs": needed_gradients("x", "w", "b")})
        for name in ("linear_backward", "mkldnn_linear_backward")
    ),
    Row(
        "aten::mkldnn_linear_backward_input",
        "linear_backward",
        {"dy": "grad_output", "w": "weight"},
        {"needs": constant(("x",))},
    ),
    Row(
        "aten::mkldnn_linear_backward_weights",
        "linear_backward",
        {"dy": "grad_output", "x": "input"},
        {"needs": lambda args: ("w", "b") if args["bias_defined"] else ("w",)},
    ),
    Row(
        "aten::matmul_backward",
        "matmul_backward",
        {"dy": "grad", "x0": "self", "x1": "other"},
        {"needs": needed_gradients("x0", "x1", mask="mask")},
    ),
    Row(
        "transformers::grouped_mm_fallback_backward",
        "grouped_matmul_backward",
        {"dy": "grad_output", "x0": "input", "x1": "weight", "offsets": "offs"},
    ),
)

ROWS = (*SPARSE, *DENSE, *EINSUM, *SCALED_AND_GROUPED, *GRADIENTS)
