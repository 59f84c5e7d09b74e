"""The mapping rules of all operator families."""

from __future__ import annotations

from costcore.translate import Row

from . import (
    activation,
    attention,
    collective,
    conv,
    elementwise,
    fused,
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
)

ROWS: tuple[Row, ...] = (
    *matmul.ROWS,  # before layout: the row of aten::_to_dense for sparse tensors comes before the one that copies
    *activation.ROWS,
    *attention.ROWS,
    *collective.ROWS,
    *conv.ROWS,
    *elementwise.ROWS,
    *fused.ROWS,
    *indexing.ROWS,
    *layout.ROWS,
    *linalg.ROWS,
    *loss.ROWS,
    *normalization.ROWS,
    *optimizer.ROWS,
    *pooling.ROWS,
    *quantization.ROWS,
    *random.ROWS,
    *recurrent.ROWS,
    *reduction.ROWS,
    *resampling.ROWS,
    *signal.ROWS,
)
"""All rows. A native name includes the overload (``aten::max.other``) if overloads need different rows, and the row
with the overload is used before the one without. An in-place operator uses the row of the out-of-place operator."""
