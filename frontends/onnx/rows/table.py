"""All rows of the operators of the ONNX standard: one per operator, for all its versions."""

from __future__ import annotations

from costcore.translate import Row

from .. import (
    table_contrib,
    table_contrib_attention,
    table_contrib_more,
    table_contrib_nhwc,
    table_contrib_norms,
    table_contrib_quantized,
    table_contrib_sparse,
)
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
    table_contrib,
    table_contrib_attention,
    table_contrib_norms,
    table_contrib_quantized,
    table_contrib_more,
    table_contrib_sparse,
    table_contrib_nhwc,
)

ROWS: tuple[Row, ...] = tuple(row for family in FAMILIES for row in family.ROWS)
"""Rows by family; arguments have the names of the operator's schema."""
