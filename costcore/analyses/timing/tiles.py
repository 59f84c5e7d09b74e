"""How matrix products are divided among the units of a GPU.

A kernel computes the result in tiles, one tile per unit at a time. The last wave of tiles may leave most units idle,
and tiles at the edge compute what is not needed.
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

TILE = 64
"""Rows and columns of the smallest tile that libraries use: the waves of larger ones, of several such, last as long or
longer."""

DEPTH = 32
"""The depth of a product is padded to a multiple of this."""


class Product(NamedTuple):
    """Products of ``batch`` matrices of ``rows x depth`` with as many of ``depth x columns``."""

    rows: int
    columns: int
    depth: int
    batch: int = 1


def wave_seconds(product: Product, units: int, peak: float) -> float:
    """Return the time of a product.

    Args:
        product: the product.
        units: number of units, such as the multiprocessors of an NVIDIA GPU.
        peak: FLOP/s of all units together, with two for a multiply-add.
    """
    tiles = ceil(product.rows / TILE) * ceil(product.columns / TILE) * product.batch
    waves = ceil(tiles / units)
    return waves * 2 * TILE * TILE * ceil(product.depth / DEPTH) * DEPTH / (peak / units)
