"""Rows of factorizations, linear systems, cross products and distances."""

from __future__ import annotations

from typing import Any

import torch

from costcore.translate import Arguments, Row, Source

from .arguments import X, axis, constant, either, first_argument, non_default, non_empty_outputs


def _without_status(args: Arguments, outputs: Any) -> Any:
    """Drop the last output, the status of the factorization of each matrix."""
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

ROWS = (*FACTORIZATIONS, *LINEAR_SYSTEMS, *CROSS_PRODUCT, *DISTANCES)
