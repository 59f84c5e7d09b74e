"""Waves of tiles on a GPU of 10 units and 1e12 FLOP/s, so 1e11 a unit; by hand."""

from __future__ import annotations

import pytest

from costcore.analyses.timing.calibration import Product, wave_seconds


@pytest.mark.parametrize(
    ("product", "seconds"),
    [
        # 10 tiles of 64 x 64 fill the units once: 2 x 64 x 64 x 32 FLOP
        (Product(64, 640, 32), 262144 / 1e11),
        # one more row begins 10 more: two waves of 64 x 64 tiles, as long as one of 128 x 64 tiles
        (Product(65, 640, 32), 2 * 262144 / 1e11),
        # a depth of 33 is computed as 64
        (Product(64, 640, 33), 2 * 262144 / 1e11),
        # one small product occupies one unit
        (Product(8, 8, 32), 262144 / 1e11),
        # and so do ten
        (Product(8, 8, 32, 10), 262144 / 1e11),
        # 20 tiles of 128 x 64 are 2 waves, 40 of 64 x 64 are 4: as long; 10 of 256 x 128 or 128 x 128 too
        (Product(1280, 128, 32), 4 * 262144 / 1e11),
    ],
)
def test_time_is_that_of_whole_waves_of_whole_tiles(product, seconds):
    assert wave_seconds(product, 10, 1e12) == pytest.approx(seconds)


def test_a_large_product_reaches_the_peak():
    product = Product(10 * 256, 10 * 128, 4096)  # 100 tiles are 10 full waves
    assert wave_seconds(product, 10, 1e12) == pytest.approx(2 * 2560 * 1280 * 4096 / 1e12)
