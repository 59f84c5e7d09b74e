"""Rows of matrix inversion, determinants and factorizations."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.translate import Row

from .arguments import X, rows_by_name

MATRIX_FUNCTIONS: Mapping[str, str] = {
    "BatchDet": "det",
    "BatchInv": "inverse",
    "Cholesky": "cholesky",
    "Inv": "inverse",
    "TriangularInv": "triangular_inverse",
}

ROWS: tuple[Row, ...] = (*rows_by_name(MATRIX_FUNCTIONS, X),)
