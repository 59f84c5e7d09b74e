"""All rows of the operators of the ONNX standard: one per operator, for all its versions."""

from __future__ import annotations

from costcore.translate import Row

from . import (
    activation,
    attention,
    classical_ml,
    conv,
    elementwise,
    indexing,
    layout,
    linalg,
    loss,
    matmul,
    normalization,
    optimizer,
    pooling,
    quantization,
    random,
    recurrent,
    reduction,
    resampling,
    signal,
    text,
)

FAMILIES = (
    activation,
    attention,
    classical_ml,
    conv,
    elementwise,
    indexing,
    layout,
    linalg,
    loss,
    matmul,
    normalization,
    optimizer,
    pooling,
    quantization,
    random,
    recurrent,
    reduction,
    resampling,
    signal,
    text,
)

ROWS: tuple[Row, ...] = tuple(row for family in FAMILIES for row in family.ROWS)
"""Rows by family; arguments have the names of the operator's schema."""
