"""Gradients of pooling over windows and regions against executed definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.counting_scalar import count, largest, total
from tests.calculators.layer_costs import bytes_moved, layer_cost, operations
from tests.calculators.reference import square_windows

IMAGE = (1, 1, 6, 6)

R, C = 2, 3
POOLED, MAP = (R, C, 2, 3), (1, C, 7, 8)
PLACES = {"rois": (R, 4), "roi_indices": Tensor((R,), "int32")}
INDICES = {"indices": Tensor(POOLED, "int32")}


def adaptive_ranges(size, bins):
    """Ranges of adaptive pooling, which may overlap by one."""
    return [range(i * size // bins, math.ceil((i + 1) * size / bins)) for i in range(bins)]


def test_max_pool():
    def definition(dy):
        dx = np.zeros(MAP, object)
        for index in np.ndindex(POOLED):
            dx[0, index[1], 0, 0] = dx[0, index[1], 0, 0] + dy[index]

    result = layer_cost("roi_max_pool_backward", {"dy": POOLED, **PLACES, **INDICES}, MAP)
    assert result.flops == count(definition, POOLED)
    assert (result.mread, result.mwrite) == (4 * (36 + 8 + 2 + 36), 4 * 168)


def test_avg_pool():
    def definition(dy):
        dx = np.zeros(MAP, object)
        for r, c, i, j in np.ndindex(POOLED):
            places = [(h, w) for h in adaptive_ranges(7, 2)[i] for w in adaptive_ranges(8, 3)[j]]
            share = dy[r, c, i, j] / len(places)
            for h, w in places:
                dx[0, c, h, w] = dx[0, c, h, w] + share

    result = layer_cost("roi_avg_pool_backward", {"dy": POOLED, **PLACES}, MAP)
    assert result.flops == count(definition, POOLED)
    assert layer_cost("ps_roi_avg_pool_backward", {"dy": POOLED, **PLACES}, (1, 24, *MAP[2:])).flops == result.flops


@pytest.mark.parametrize(("sampling", "samples"), [((2, 2), 4), ((0, 2), 4 * 2), (None, 4 * 3)])
def test_align(sampling, samples):
    """A region over the whole map takes ceil(7 / 2) = 4 and ceil(8 / 3) = 3 samples along the axes."""

    def definition(dy):
        dx = np.zeros(4, object)
        for g in dy.ravel():
            share = g / samples
            for _ in range(samples):
                for tap in range(4):
                    dx[tap] = dx[tap] + share * 0.25

    result = layer_cost("roi_align_backward", {"dy": POOLED, **PLACES}, MAP, sampling=sampling)
    assert result.flops == count(definition, POOLED)
    wide = layer_cost("ps_roi_align_backward", {"dy": POOLED, **PLACES}, (1, 24, *MAP[2:]), sampling=sampling)
    assert wide.flops == result.flops
    # of the maximum of samples only that one
    result = layer_cost("roi_align_backward", {"dy": POOLED, **PLACES}, MAP, sampling=sampling, mode="max")
    assert (result.flops.mul, result.flops.add, result.flops.div) == (4 * 36, 4 * 36, 0)


def test_gradient_of_max_pooling() -> None:
    def put(dy):
        dx = [0] * 36
        for i, value in enumerate(dy.ravel()):
            dx[2 * i] = value + dx[2 * i]
        return dx

    operands = {"dy": (1, 1, 3, 3), "x": IMAGE, "indices": Tensor((1, 1, 3, 3), "int64")}
    counted = count(put, (3, 3))
    assert operations("max_pool_backward", operands, IMAGE, kernel=(2, 2)) == counted
    assert bytes_moved("max_pool_backward", operands, IMAGE, kernel=(2, 2)) == (9 * 4 + 9 * 8, 36 * 4)
    assert operations("adaptive_max_pool_backward", operands, IMAGE) == counted
    assert bytes_moved("adaptive_max_pool_backward", operands, IMAGE) == (9 * 4 + 9 * 8, 36 * 4)
    del operands["indices"]
    searched = counted + count(lambda x: [largest(w) for w in square_windows(x, 2, 2)], (6, 6))
    assert operations("max_pool_backward", operands, IMAGE, kernel=(2, 2)) == searched
    assert bytes_moved("max_pool_backward", operands, IMAGE, kernel=(2, 2)) == ((9 + 36) * 4, 36 * 4)


def test_gradient_of_average_pooling() -> None:
    def spread(dy):
        dx = [[0] * 6 for _ in range(6)]
        for i in range(4):
            for j in range(4):
                share = dy[i, j] / 9
                for p in range(3):
                    for q in range(3):
                        dx[i + p][j + q] = share + dx[i + p][j + q]
        return dx

    settings = {"kernel": (3, 3), "stride": (1, 1)}
    assert operations("avg_pool_backward", {"dy": (1, 1, 4, 4), "x": IMAGE}, IMAGE, **settings) == count(spread, (4, 4))
    assert bytes_moved("avg_pool_backward", {"dy": (1, 1, 4, 4), "x": IMAGE}, IMAGE, **settings) == (16 * 4, 36 * 4)
    # Windows of 6 elements cut into 4: 2 each along an axis, 8 in all.
    unequal = operations("adaptive_avg_pool_backward", {"dy": (1, 1, 4, 4)}, IMAGE)
    assert unequal == Operations(add=8 * 8, div=16)


def test_gradient_of_unpooling() -> None:
    windows = count(lambda dy: [total(window) for window in dy], (4, 4))
    assert operations("unpool_backward", {"dy": (1, 1, 4, 4)}, (1, 1, 2, 2)) == windows
    indexed = {"dy": (1, 1, 4, 4), "indices": (1, 1, 2, 2)}
    assert operations("unpool_backward", indexed, (1, 1, 2, 2)) == Operations()
    assert bytes_moved("unpool_backward", indexed, (1, 1, 2, 2)) == ((4 + 4) * 4, 4 * 4)
