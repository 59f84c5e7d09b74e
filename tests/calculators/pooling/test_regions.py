"""Pooling and sampling of regions, and crops, against executed definitions."""

from __future__ import annotations

import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.counting_scalar import count, largest
from tests.calculators.layer_costs import bytes_moved, layer_cost, operations
from tests.calculators.reference import adaptive_windows, mean


@pytest.mark.parametrize(
    ("mode", "sample", "x_read"),
    # 3 crops of 2 channels of 2 x 2: 24 samples, of 4 elements each where they are not the nearest ones
    [("linear", Operations(mul=3, add=6), 4 * 24), ("nearest", Operations(), 24)],
)
def test_crops_are_brought_to_one_size(mode: str, sample: Operations, x_read: int) -> None:
    given = {"x": (1, 2, 10, 10), "rois": (3, 4), "indices": Tensor((3,), "int32")}
    result = layer_cost("crop_and_resize", given, (3, 2, 2, 2), mode=mode)
    assert result.flops == 24 * sample
    assert (result.mread, result.mwrite) == (4 * (x_read + 12 + 3), 4 * 24)


def test_every_window_of_a_region_may_have_channels_of_its_own() -> None:
    counted = count(lambda x: [mean(w) for w in adaptive_windows(x, (3, 2))], (7, 5))
    operands = {"x": (1, 24, 7, 5), "rois": (6, 5)}  # 3 * 2 windows of 4 channels each
    assert operations("ps_roi_avg_pool", operands, (6, 4, 3, 2)) == 6 * 4 * counted
    assert bytes_moved("ps_roi_avg_pool", operands, (6, 4, 3, 2)) == ((840 + 30) * 4, 144 * 4)


@pytest.mark.parametrize(("op", "join"), [("roi_avg_pool", mean), ("roi_max_pool", largest)])
def test_pools_of_regions_take_the_bound_of_the_whole_map(op, join) -> None:
    counted = count(lambda x: [join(w) for w in adaptive_windows(x, (3, 2))], (7, 5))
    operands = {"x": (1, 4, 7, 5), "rois": (6, 5)}
    assert operations(op, operands, (6, 4, 3, 2)) == 6 * 4 * counted
    assert bytes_moved(op, operands, (6, 4, 3, 2)) == ((140 + 30) * 4, 144 * 4)


@pytest.mark.parametrize(("mode", "join"), [("avg", mean), ("max", largest)])
def test_aligned_regions(mode: str, join) -> None:
    counted = count(lambda x: join([bilinear(x, i, j) for i in range(2) for j in range(3)]), (4, 4))
    operands = {"x": (1, 2, 20, 20), "rois": (3, 5)}
    assert operations("roi_align", operands, (3, 2, 2, 2), sampling=(2, 3), mode=mode) == 3 * 2 * 2 * 2 * counted
    assert bytes_moved("roi_align", operands, (3, 2, 2, 2), sampling=(2, 3), mode=mode)[0] == (4 * 6 * 24 + 15) * 4
    assert bytes_moved("roi_align", operands, (30, 2, 2, 2), sampling=(2, 3), mode=mode)[0] == (800 + 15) * 4


def test_every_bin_of_a_region_may_have_channels_of_its_own() -> None:
    counted = count(lambda x: mean([bilinear(x, i, j) for i in range(2) for j in range(3)]), (4, 4))
    operands = {"x": (1, 8, 20, 20), "rois": (3, 5)}  # 2 * 2 bins of 2 channels each
    assert operations("ps_roi_align", operands, (3, 2, 2, 2), sampling=(2, 3)) == 24 * counted
    assert bytes_moved("ps_roi_align", operands, (3, 2, 2, 2), sampling=(2, 3)) == (4 * (4 * 6 * 24 + 15), 4 * 24)


def test_regions_that_choose_their_samples_take_the_bound_of_the_whole_map() -> None:
    operands = {"x": (1, 2, 20, 15), "rois": (3, 5)}
    bound = operations("roi_align", operands, (3, 2, 7, 7), sampling=(3, 3))  # ceil(20 / 7), ceil(15 / 7)
    assert operations("roi_align", operands, (3, 2, 7, 7)) == bound
    assert operations("roi_align", operands, (3, 2, 7, 7), sampling=(0, 0)) == bound


def bilinear(x, i: int, j: int):
    """A sample between four neighbors: three interpolations a + t * (b - a)."""
    top = x[i, j] + 0.25 * (x[i, j + 1] - x[i, j])
    bottom = x[i + 1, j] + 0.25 * (x[i + 1, j + 1] - x[i + 1, j])
    return top + 0.25 * (bottom - top)
