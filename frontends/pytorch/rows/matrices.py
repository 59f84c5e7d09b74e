"""Rows of matrix products (dense, sparse, scaled, grouped), factorizations, linear systems and distances."""

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
    axis,
    constant,
    either,
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
    # PyTorch ignores it if ``beta`` is 0, or it has no values.
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
    # ``expand`` lists the axes that an operand lacks.
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

MATMUL_ROWS = (*SPARSE, *DENSE, *EINSUM, *SCALED_AND_GROUPED, *GRADIENTS)


# Factorizations, linear systems, cross products and distances


def _without_status(args: Arguments, outputs: Any) -> Any:
    # The last output is the status of the factorization of each matrix.
    return outputs[:-1]


def _svd_vectors(args: Arguments) -> str:
    if not args["compute_uv"]:
        return "none"
    return "full" if args["full_matrices"] else "thin"


FACTORIZATIONS = (
    Row("aten::cholesky", "cholesky", X),
    Row("aten::linalg_cholesky_ex", "cholesky", X, outputs=_without_status),
    Row("aten::linalg_lu", "lu", X, {"pivot": "pivot"}),
    Row("aten::linalg_lu_factor_ex", "lu_factor", X, {"pivot": "pivot"}, outputs=_without_status),
    Row("aten::lu_unpack", "unpack_lu", {"x": "LU_data", "pivots": "LU_pivots"}),
    Row("aten::_linalg_det", "det", X),
    Row("aten::_linalg_slogdet", "log_det", X),
    Row("aten::linalg_qr", "qr", X, {"mode": "mode"}, outputs=non_empty_outputs),
    Row("aten::geqrf", "qr_factor", X),
    Row("aten::linalg_householder_product", "householder_product", {"x": "input", "tau": "tau"}),
    Row(
        "aten::ormqr",
        "householder_multiply",
        {"x": "self", "tau": "input2", "x1": "input3"},
        {"left": non_default("left", True)},
    ),
    Row("aten::linalg_ldl_factor_ex", "ldl_factor", X, outputs=_without_status),
    Row("aten::linalg_inv_ex", "inverse", X, outputs=_without_status),
    Row("aten::_linalg_eigh", "symmetric_eigen", X, {"vectors": "compute_v"}, outputs=non_empty_outputs),
    Row("aten::linalg_eig", "eigen", X),
    *(Row(f"aten::{name}", "eigen", X, {"vectors": constant(False)}) for name in ("linalg_eigvals", "_linalg_eigvals")),
    Row("aten::linalg_eigvalsh", "symmetric_eigen", X, {"vectors": constant(False)}),
    Row("aten::linalg_svdvals", "singular_values", X, {"vectors": constant("none")}),
    Row("aten::_linalg_svd", "singular_values", X, {"vectors": _svd_vectors}, outputs=non_empty_outputs),
    Row("aten::linalg_matrix_exp", "matrix_exp", X),
    Row("aten::linalg_matrix_sqrth", "matrix_sqrt", X),
    Row("aten::linalg_polar", "polar_decomposition", X),
    Row("aten::linalg_pinv", "pseudo_inverse", {"x": first_argument, "atol": "atol", "rtol": "rtol"}),
)

LINEAR_SYSTEMS = (
    Row("aten::_linalg_solve_ex", "solve", {"x0": "A", "x1": "B"}, outputs=_without_status),
    *(
        Row(f"aten::{name}", "triangular_solve", inputs, {"unit": non_default("unitriangular", False)})
        for name, inputs in (
            ("linalg_solve_triangular", {"x0": "self", "x1": "B"}),
            ("triangular_solve", {"x0": "A", "x1": "self"}),
        )
    ),
    Row("aten::linalg_lu_solve", "lu_solve", {"x0": "LU", "pivots": "pivots", "x1": "B"}),
    Row("aten::linalg_ldl_solve", "ldl_solve", {"x0": "LD", "pivots": "pivots", "x1": "B"}),
    Row("aten::cholesky_solve", "cholesky_solve", {"x0": "input2", "x1": "self"}),
    Row("aten::_cholesky_solve_helper", "cholesky_solve", {"x0": "A", "x1": "self"}),
    Row("aten::cholesky_inverse", "cholesky_inverse", X),
    Row("aten::linalg_lstsq", "least_squares", {"x0": "self", "x1": "b"}, outputs=non_empty_outputs),
)


def _cross_axis(args: Arguments) -> int:
    rank: int = max(args["self"].dim(), args["other"].dim())
    return int(args["dim"]) % rank


CROSS_PRODUCT = (Row("aten::linalg_cross", "cross", {"x0": "self", "x1": "other"}, {"axis": _cross_axis}),)

_GRADIENT = either("grad_output", "grad")  # ``grad`` before PyTorch 2.15

_P: dict[str, Source] = {"p": non_default("p", 2)}


def _broadcast_size(args: Arguments) -> int | None:
    shape = torch.broadcast_shapes(args["self"].shape, args["other"].shape)
    return shape.numel() if shape != args["self"].shape else None


DISTANCES = (
    Row("aten::_cdist_forward", "pairwise_distances", {"x0": "x1", "x1": "x2"}, _P),
    Row("aten::_euclidean_dist", "pairwise_distances", {"x0": "x1", "x1": "x2"}),
    Row(
        "aten::_cdist_backward",
        "pairwise_distances_backward",
        {"dy": _GRADIENT, "x0": "x1", "x1": "x2", "y": "cdist"},
        _P,
    ),
    Row("aten::_pdist_forward", "self_distances", {"x": "self"}, _P),
    Row("aten::_pdist_backward", "self_distances_backward", {"dy": _GRADIENT, "x": "self", "y": "pdist"}, _P),
    Row("aten::dist", "distance", {"x0": "self", "x1": "other"}, {**_P, "elements": _broadcast_size}),
    Row("aten::cosine_similarity", "cosine_similarity", {"x0": "x1", "x1": "x2"}, {"axis": axis()}),
    Row("aten::pairwise_distance", "pairwise_distance", {"x0": "x1", "x1": "x2"}, {"p": "p"}),
)

LINALG_ROWS = (*FACTORIZATIONS, *LINEAR_SYSTEMS, *CROSS_PRODUCT, *DISTANCES)


ROWS = (*MATMUL_ROWS, *LINALG_ROWS)
