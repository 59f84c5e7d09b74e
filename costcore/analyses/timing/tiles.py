"""How matrix products are divided among the units of a GPU.

A kernel computes the result in tiles, one tile per unit at a time. The last wave of tiles may leave most units idle,
and tiles at the edge compute what is not needed.
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

TILES = ((256, 128), (128, 256), (128, 128), (128, 64), (64, 64))
"""Rows and columns of the tiles that libraries use."""

DEPTH = 32
"""The depth of a product is padded to a multiple of this."""


class Product(NamedTuple):
    """Products of ``batch`` matrices of ``rows x depth`` with as many of ``depth x columns``."""

    rows: int
    columns: int
    depth: int
    batch: int = 1


def wave_seconds(product: Product, units: int, peak: float) -> float:
    """Return the time of a product with the best of the tiles.

    Args:
        product: the product.
        units: number of units, such as the multiprocessors of an NVIDIA GPU.
        peak: FLOP/s of all units together, with two for a multiply-add.
    """
    return min(_seconds(product, tile, units, peak / units) for tile in TILES)


def _seconds(product: Product, tile: tuple[int, int], units: int, rate: float) -> float:
    """Return the time with one tile size; ``rate`` is that of one unit."""
    rows, columns = tile
    tiles = ceil(product.rows / rows) * ceil(product.columns / columns) * product.batch
    waves = ceil(tiles / units)
    return waves * 2 * rows * columns * ceil(product.depth / DEPTH) * DEPTH / rate
