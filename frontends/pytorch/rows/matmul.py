"""Rows of matrix products, dense, sparse, scaled and grouped, and of their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from costcore.translate import Arguments, Row, Source

from ..tensors import SPARSE_LAYOUTS, shape_of
from .arguments import X, constant, first, given, named, needs, non_empty, tensors_of, unlearned

_SCALE: dict[str, Source] = {"alpha": given("alpha", 1), "beta": given("beta", 1)}


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


def _width(name: str, axis: int) -> Callable[[Arguments], int]:
    """Columns (rows, for axis -2) of an operand; of a sparse one at most as many as it has values."""

    def rule(args: Arguments) -> int:
        tensor = args[name]
        if tensor.dim() == 1:
            return 1
        width = int(tensor.shape[axis])
        return min(width, shape_of(tensor)[0]) if tensor.layout in SPARSE_LAYOUTS else width

    return rule


def _sparse(native: str, x0: str, x1: str, start: str | None = None) -> tuple[Row, Row]:
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
    *_sparse("mm", "self", "mat2"),
    *_sparse("mv", "self", "vec"),
    *_sparse("bmm", "self", "mat2"),
    *_sparse("addmm", "mat1", "mat2", "self"),
    *_sparse("_sparse_addmm", "mat1", "mat2", "self"),
    *_sparse("_sparse_sparse_matmul", "self", "other"),
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
    Row("aten::_to_dense", "to_dense", X, {"indices": _indices_of("self")}, _is_sparse("self")),
    *(
        Row(f"aten::{name}", "to_sparse", X)
        for name in ("_to_sparse", "_to_sparse_csr", "_to_sparse_csc", "_to_sparse_bsr", "_to_sparse_bsc")
    ),
    Row("aten::sparse_mask", "sparse_mask", {"x": "self", "mask": "mask"}, {"indices": _indices_of("mask")}),
)


def _added(x0: str, x1: str) -> dict[str, Source]:
    return {"x0": x0, "x1": x1, "b": unlearned("self")}


DENSE = (
    Row("aten::linear", "linear", {"x": "input", "w": "weight", "b": "bias"}),
    Row("aten::mkldnn_linear", "linear", {"x": first, "w": "weight", "b": "bias"}),
    *(Row(f"aten::{name}", "matmul", {"x0": "self", "x1": "other"}) for name in ("matmul", "vdot", "linalg_matmul")),
    *(Row(f"aten::{name}", "matmul", {"x0": "self", "x1": "mat2"}) for name in ("mm", "bmm", "_int_mm")),
    Row("aten::dot", "matmul", {"x0": "self", "x1": "tensor"}),
    Row("aten::mv", "matmul", {"x0": "self", "x1": "vec"}),
    Row("aten::addmm", "matmul", _added("mat1", "mat2"), _SCALE),
    Row("aten::addmv", "matmul", _added("mat", "vec"), _SCALE),
    Row("aten::baddbmm", "matmul", _added("batch1", "batch2"), _SCALE),
    Row("aten::bilinear", "bilinear", {"x0": "input1", "x1": "input2", "w": "weight", "b": "bias"}),
    Row("aten::_foreach_mm", "foreach_matmul", {"x*": tensors_of("self", "mat2")}),
)


def _letters(rank: int, hidden: Any) -> str:
    return "".join(chr(ord("a") + axis) for axis in range(rank) if axis not in hidden)


def _trilinear(args: Arguments) -> str:
    """The sum of products of three operands, each with axes of size 1 put in, as an equation."""
    operands = [(args[f"i{i}"].dim(), args[f"expand{i}"]) for i in (1, 2, 3)]
    rank = operands[0][0] + len(operands[0][1])
    terms = ",".join(_letters(rank, expanded) for _, expanded in operands)
    return f"{terms}->{_letters(rank, args['sumdim'])}"


EINSUM = (
    Row("aten::addbmm", "einsum", _added("batch1", "batch2"), {"equation": constant("bij,bjk->ik"), **_SCALE}),
    Row("aten::addr", "einsum", _added("vec1", "vec2"), {"equation": constant("i,j->ij"), **_SCALE}),
    Row("aten::einsum", "einsum", {"x*": "tensors"}, {"equation": "equation"}),
    Row("aten::_trilinear", "einsum", {"x0": "i1", "x1": "i2", "x2": "i3"}, {"equation": _trilinear}),
)

_SCALED: dict[str, Source] = {"x0": "self", "x1": "mat2", "x0_scale": "scale_a", "x1_scale": "scale_b", "b": "bias"}


SCALED_AND_GROUPED = (
    Row("aten::_scaled_mm", "scaled_matmul", {**_SCALED, "y_scale": "scale_result"}),
    Row(
        "aten::_scaled_mm_v2",
        "scaled_matmul",
        {"x0": "self", "x1": "mat2", "x0_scale*": "scale_a", "x1_scale*": "scale_b", "b": "bias"},
    ),
    Row("aten::_grouped_mm", "grouped_matmul", {"x0": "self", "x1": "mat2", "offsets": "offs", "b": "bias"}),
    Row("aten::_scaled_grouped_mm", "grouped_matmul", {**_SCALED, "offsets": "offs"}),
    Row(
        "aten::_scaled_grouped_mm_v2",
        "grouped_matmul",
        {
            **named("x0=self x1=mat2 offsets=offs b=bias"),
            "x0_scale*": "scale_a",
            "x1_scale*": "scale_b",
        },
    ),
    Row("aten::_weight_int8pack_mm", "packed_matmul", {"x": "self", "w": "mat2", "w_scale": "scales"}),
    *(
        Row(
            f"aten::{name}",
            "packed_matmul",
            {"x": "self", "w": "mat2", "w_scale": "qScaleAndZeros"},
            {"zero_points": constant(True), "block": "qGroupSize"},
        )
        for name in ("_weight_int4pack_mm", "_weight_int4pack_mm_for_cpu")
    ),
)

_LINEAR: dict[str, Source] = {"dy": "grad_output", "x": "self", "w": "weight"}

GRADIENTS = (
    *(
        Row(f"aten::{name}", "linear_backward", _LINEAR, {"needs": needs("x", "w", "b")})
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
        {"needs": needs("x0", "x1", mask="mask")},
    ),
)

ROWS = (*SPARSE, *DENSE, *EINSUM, *SCALED_AND_GROUPED, *GRADIENTS)
