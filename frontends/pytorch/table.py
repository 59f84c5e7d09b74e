"""The table of this frontend: one row an operator of PyTorch, by families."""

from __future__ import annotations

from costcore.translate import Row

from . import (
    table_algebra,
    table_array,
    table_backward,
    table_connection,
    table_elementwise,
    table_fused,
    table_gradients,
    table_nn,
    table_quantized,
    table_sparse,
)

ROWS: tuple[Row, ...] = (
    *table_sparse.ROWS,
    *table_connection.ROWS,
    *table_nn.ROWS,
    *table_elementwise.ROWS,
    *table_array.ROWS,
    *table_algebra.ROWS,
    *table_backward.ROWS,
    *table_gradients.ROWS,
    *table_fused.ROWS,
    *table_quantized.ROWS,
)
"""Keys are full names, with an overload where overloads mean different things: a row with the overload goes before one
without. In-place operators go by the row of the out-of-place one."""
