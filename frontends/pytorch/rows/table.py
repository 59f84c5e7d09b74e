"""The table of this frontend: one row an operator of PyTorch, by families."""

from __future__ import annotations

from costcore.translate import Row

from . import (
    activation,
    attention,
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
    *matmul.ROWS,  # before layout: aten::_to_dense of a sparse tensor is not a copy
    *activation.ROWS,
    *attention.ROWS,
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
"""Keys are full names, with an overload where overloads mean different things: a row with the overload goes before one
without. In-place operators go by the row of the out-of-place one."""
