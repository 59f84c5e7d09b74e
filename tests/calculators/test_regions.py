"""Crops, masked poolings and distances of points, against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.counting import count, dot, largest, select
from tests.calculators.layers import cost


@pytest.mark.parametrize(
    ("mode", "sample", "x_read"),
    # 3 crops of 2 channels of 2 x 2: 24 samples, of 4 elements each where they are not the nearest ones
    [("linear", Operations(mul=3, add=6), 4 * 24), ("nearest", Operations(), 24)],
)
def test_crops_are_brought_to_one_size(mode: str, sample: Operations, x_read: int) -> None:
    given = {"x": (1, 2, 10, 10), "rois": (3, 4), "indices": Tensor((3,), "int32")}
    result = cost("crop_and_resize", given, (3, 2, 2, 2), mode=mode)
    assert result.flops == 24 * sample
    assert (result.mread, result.mwrite) == (4 * (x_read + 12 + 3), 4 * 24)


def test_pooling_of_what_a_mask_leaves() -> None:
    def definition(x, mask):
        left = np.array([select(m, a, -9.0) for a, m in zip(x.flat, mask.flat, strict=True)], dtype=object)
        left = left.reshape(x.shape)
        for i, j in np.ndindex(2, 2):
            largest(left[2 * i : 2 * i + 2, 2 * j : 2 * j + 2].flat)

    given = {"x": (1, 3, 4, 4), "mask": Tensor((1, 3, 4, 4), "int32")}
    result = cost("masked_max_pool", given, (1, 3, 2, 2), kernel=(2, 2))
    assert result.flops == 3 * count(definition, (4, 4), (4, 4))
    assert (result.mread, result.mwrite) == (4 * 2 * 48, 4 * 12)


def test_squared_distances() -> None:
    def definition(x0, x1):
        for a in x0:
            for b in x1:
                difference = [p - q for p, q in zip(a, b, strict=True)]
                dot(difference, difference)

    result = cost("squared_distances", {"x0": (2, 5), "x1": (3, 5)}, (2, 3))
    assert (result.flops, result.macs) == (count(definition, (2, 5), (3, 5)), 0)
    assert (result.mread, result.mwrite) == (4 * (10 + 15), 4 * 6)
