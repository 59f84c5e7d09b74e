"""Rows of linear algebra, Fourier transforms, distances and special functions."""

from __future__ import annotations

from typing import Any

import torch

from costcore.translate import Arguments, Row, Source

from .rules import constant, first, given, non_empty, value_or_number

_X: dict[str, Source] = {"x": first}


def _without_status(args: Arguments, outputs: Any) -> Any:
    """Outputs without the status of a factorisation, a number for each matrix."""
    return outputs[:-1]


def _has_vectors(name: str) -> Source:
    return lambda args: bool(args[name])


def _svd_vectors(args: Arguments) -> str:
    if not args["compute_uv"]:
        return "none"
    return "full" if args["full_matrices"] else "thin"


FACTORS = (
    Row("aten::cholesky", "cholesky", _X),
    Row("aten::linalg_cholesky_ex", "cholesky", _X, outputs=_without_status),
    Row("aten::linalg_lu", "lu", _X, {"pivot": "pivot"}),
    Row("aten::linalg_lu_factor_ex", "lu_factor", _X, {"pivot": "pivot"}, outputs=_without_status),
    Row("aten::lu_unpack", "unpack_lu", {"x": "LU_data", "pivots": "LU_pivots"}),
    Row("aten::_linalg_det", "det", _X),
    Row("aten::_linalg_slogdet", "log_det", _X),
    Row("aten::linalg_qr", "qr", _X, {"mode": "mode"}, outputs=non_empty),
    Row("aten::geqrf", "qr_factor", _X),
    Row("aten::linalg_householder_product", "householder_product", {"x": "input", "tau": "tau"}),
    Row(
        "aten::ormqr",
        "householder_multiply",
        {"x": "self", "tau": "input2", "x1": "input3"},
        {"left": given("left", True)},
    ),
    Row("aten::linalg_ldl_factor_ex", "ldl_factor", _X, outputs=_without_status),
    Row("aten::linalg_inv_ex", "inverse", _X, outputs=_without_status),
    Row("aten::_linalg_eigh", "symmetric_eigen", _X, {"vectors": _has_vectors("compute_v")}, outputs=non_empty),
    Row("aten::linalg_eig", "eigen", _X),
    *(
        Row(f"aten::{name}", "eigen", _X, {"vectors": constant(False)})
        for name in ("linalg_eigvals", "_linalg_eigvals")
    ),
    Row("aten::_linalg_svd", "singular_values", _X, {"vectors": _svd_vectors}, outputs=non_empty),
    Row("aten::linalg_matrix_exp", "matrix_exp", _X),
    Row("aten::linalg_pinv", "pseudo_inverse", {"x": first, "atol": "atol", "rtol": "rtol"}),
)

_SYSTEM: dict[str, Source] = {"x0": "A", "x1": "B"}

SYSTEMS = (
    Row("aten::_linalg_solve_ex", "solve", _SYSTEM, outputs=_without_status),
    Row(
        "aten::linalg_solve_triangular",
        "triangular_solve",
        {"x0": "self", "x1": "B"},
        {"unit": given("unitriangular", False)},
    ),
    Row(
        "aten::triangular_solve",
        "triangular_solve",
        {"x0": "A", "x1": "self"},
        {"unit": given("unitriangular", False)},
    ),
    Row("aten::linalg_lu_solve", "lu_solve", {"x0": "LU", "pivots": "pivots", "x1": "B"}),
    Row("aten::linalg_ldl_solve", "ldl_solve", {"x0": "LD", "pivots": "pivots", "x1": "B"}),
    Row("aten::cholesky_solve", "cholesky_solve", {"x0": "input2", "x1": "self"}),
    Row("aten::_cholesky_solve_helper", "cholesky_solve", {"x0": "A", "x1": "self"}),
    Row("aten::cholesky_inverse", "cholesky_inverse", _X),
    Row("aten::linalg_lstsq", "least_squares", {"x0": "self", "x1": "b"}, outputs=non_empty),
)


def _letters(rank: int, hidden: Any) -> str:
    return "".join(chr(ord("a") + axis) for axis in range(rank) if axis not in hidden)


def _trilinear(args: Arguments) -> str:
    """The sum of products of three operands, each with axes of size 1 put in, as an equation."""
    operands = [(args[f"i{i}"].dim(), args[f"expand{i}"]) for i in (1, 2, 3)]
    rank = operands[0][0] + len(operands[0][1])
    terms = ",".join(_letters(rank, expanded) for _, expanded in operands)
    return f"{terms}->{_letters(rank, args['sumdim'])}"


def _cross_axis(args: Arguments) -> int:
    rank: int = max(args["self"].dim(), args["other"].dim())
    return int(args["dim"]) % rank


SUMS = (
    Row("aten::_trilinear", "einsum", {"x0": "i1", "x1": "i2", "x2": "i3"}, {"equation": _trilinear}),
    Row("aten::linalg_cross", "cross", {"x0": "self", "x1": "other"}, {"axis": _cross_axis}),
)


def _axes(args: Arguments) -> tuple[int, ...]:
    rank = args["self"].dim()
    return tuple(int(axis) % rank for axis in args["dim"])


def _is_scaled(args: Arguments) -> bool:
    return bool(args["normalization"])


_FFT: dict[str, Source] = {"axes": _axes, "scaled": _is_scaled}

FOURIER = (
    Row("aten::_fft_c2c", "fft", _X, {**_FFT, "inverse": lambda args: not args["forward"]}),
    Row("aten::_fft_r2c", "real_fft", _X, {**_FFT, "onesided": "onesided"}),
    Row("aten::_fft_c2r", "inverse_real_fft", _X, _FFT),
    *(Row(f"aten::{name}", "arange", {}) for name in ("fft_fftfreq", "fft_rfftfreq", "range")),
    *(Row(f"aten::{name}", name, {}) for name in ("hann_window", "hamming_window", "blackman_window")),
)

_P: dict[str, Source] = {"p": given("p", 2)}


def _elements(args: Arguments) -> int | None:
    shape = torch.broadcast_shapes(args["self"].shape, args["other"].shape)
    return shape.numel() if shape != args["self"].shape else None


DISTANCES = (
    Row("aten::_cdist_forward", "pairwise_distances", {"x0": "x1", "x1": "x2"}, _P),
    Row("aten::_euclidean_dist", "pairwise_distances", {"x0": "x1", "x1": "x2"}),
    Row(
        "aten::_cdist_backward",
        "pairwise_distances_backward",
        {"dy": "grad", "x0": "x1", "x1": "x2", "y": "cdist"},
        _P,
    ),
    Row("aten::_pdist_forward", "self_distances", {"x": "self"}, _P),
    Row("aten::_pdist_backward", "self_distances_backward", {"dy": "grad", "x": "self", "y": "pdist"}, _P),
    Row("aten::dist", "distance", {"x0": "self", "x1": "other"}, {**_P, "elements": _elements}),
    Row("aten::renorm", "renorm", {"x": "self"}, {**_P, "axis": lambda args: int(args["dim"]) % args["self"].dim()}),
    Row("aten::embedding_renorm", "renorm_rows", {"w": "self", "x": "indices"}, {"p": given("norm_type", 2)}),
    Row("aten::embedding_renorm_", "renorm_rows", {"w": "self", "x": "indices"}, {"p": given("norm_type", 2)}),
)

_FUNCTIONS = """
airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 spherical_bessel_j0 modified_bessel_i0 modified_bessel_i1
modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1
"""
_POLYNOMIALS = """
chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w
shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v
shifted_chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p
"""
_PAIR: dict[str, Source] = {"x0": value_or_number("self"), "x1": value_or_number("other")}

SPECIAL = (
    *(Row(f"aten::special_{name}", name, _X) for name in _FUNCTIONS.split()),
    *(
        Row(
            f"aten::special_{name}",
            name.replace("_polynomial", ""),
            {"x0": value_or_number("x"), "x1": value_or_number("n")},
        )
        for name in _POLYNOMIALS.split()
    ),
    Row("aten::special_zeta", "zeta", _PAIR),
    Row("aten::ldexp", "ldexp", _PAIR),
    Row("aten::polygamma", "polygamma", {"x0": value_or_number("n"), "x1": "self"}),
    Row("aten::mvlgamma", "multivariate_lgamma", _X, {"dimension": "p"}),
    Row("aten::logit", "logit", _X),
    Row("aten::frexp", "frexp", _X),
    Row("aten::_conj_physical", "conj", _X),
)

ROWS = (*FACTORS, *SYSTEMS, *SUMS, *FOURIER, *DISTANCES, *SPECIAL)
