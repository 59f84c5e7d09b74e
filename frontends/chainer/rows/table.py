"""The whole table: which of Chainer's functions is which neutral operator."""

from __future__ import annotations

from costcore.translate import Row

from .. import (
    table_algebra,
    table_arrays,
    table_elements,
    table_gradients,
    table_layers,
    table_losses,
    table_recurrent,
    table_regions,
)

ROWS: tuple[Row, ...] = (
    *table_elements.ROWS,
    *table_arrays.ROWS,
    *table_algebra.ROWS,
    *table_layers.ROWS,
    *table_recurrent.ROWS,
    *table_regions.ROWS,
    *table_losses.ROWS,
    *table_gradients.ROWS,
)
