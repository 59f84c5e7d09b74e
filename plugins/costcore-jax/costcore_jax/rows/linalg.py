"""Rows of linear algebra on matrices."""

from __future__ import annotations

from costcore.translate import Arguments, Row

from ..capture.values import Value
from .arguments import XS, X, operand, row


def _vectors(a: Arguments) -> str:
    """Return which singular vectors are computed."""
    if not a["compute_uv"]:
        return "none"
    return "full" if a["full_matrices"] else "thin"


def _has_vectors(a: Arguments) -> bool:
    """Return whether eigenvectors are computed, of either side."""
    return bool(a["compute_left_eigenvectors"] or a["compute_right_eigenvectors"])


def _is_unit(a: Arguments) -> bool | None:
    """Return True if the diagonal is taken as ones, which nothing is divided by."""
    return True if a["unit_diagonal"] else None


def _right_side(a: Arguments) -> Value:
    """Return the right-hand sides as columns; they are rows if the matrix multiplies from the right."""
    value: Value = a["inputs"][1]
    return value if a["left_side"] else value.viewed(*value.shape[:-2], value.shape[-1], value.shape[-2])


ROWS: tuple[Row, ...] = (
    row("cholesky", "cholesky"),
    row("eig", "eigen", vectors=_has_vectors),
    row("eigh", "symmetric_eigen"),
    row("lu", "lu_factor"),
    row("qr", "qr", mode=lambda a: "complete" if a["full_matrices"] else "reduced"),
    row("geqrf", "qr_factor"),
    row("geqp3", "qr_factor"),
    row("householder_product", "householder_product", {"x": operand(0), "tau": operand(1)}),
    row("ormqr", "householder_multiply", {"x": operand(0), "tau": operand(1), "x1": operand(2)}),
    row("svd", "singular_values", X, vectors=_vectors),
    row("triangular_solve", "triangular_solve", {"x0": operand(0), "x1": _right_side}, unit=_is_unit),
    row("lu_pivots_to_permutation", "shape", {}),
    row("tridiagonal_solve", "jax::tridiagonal_solve", XS),
)
