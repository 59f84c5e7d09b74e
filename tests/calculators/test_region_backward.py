"""Gradients of pooling over regions and of sampling against executed definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from costcore.ir import Tensor
from tests.calculators.counting import count, dot, total
from tests.calculators.layers import cost

R, C = 2, 3
POOLED, MAP = (R, C, 2, 3), (1, C, 7, 8)
PLACES = {"rois": (R, 4), "roi_indices": Tensor((R,), "int32")}
INDICES = {"indices": Tensor(POOLED, "int32")}


def windows(size, bins):
    """Ranges of adaptive pooling, which may overlap by one."""
    return [range(i * size // bins, math.ceil((i + 1) * size / bins)) for i in range(bins)]


def test_max_pool():
    def definition(dy):
        dx = np.zeros(MAP, object)
        for index in np.ndindex(POOLED):
            dx[0, index[1], 0, 0] = dx[0, index[1], 0, 0] + dy[index]

    result = cost("roi_max_pool_backward", {"dy": POOLED, **PLACES, **INDICES}, MAP)
    assert result.flops == count(definition, POOLED)
    assert (result.mread, result.mwrite) == (4 * (36 + 8 + 2 + 36), 4 * 168)


def test_avg_pool():
    def definition(dy):
        dx = np.zeros(MAP, object)
        for r, c, i, j in np.ndindex(POOLED):
            places = [(h, w) for h in windows(7, 2)[i] for w in windows(8, 3)[j]]
            share = dy[r, c, i, j] / len(places)
            for h, w in places:
                dx[0, c, h, w] = dx[0, c, h, w] + share

    result = cost("roi_avg_pool_backward", {"dy": POOLED, **PLACES}, MAP)
    assert result.flops == count(definition, POOLED)


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

    result = cost("roi_align_backward", {"dy": POOLED, **PLACES}, MAP, sampling=sampling)
    assert result.flops == count(definition, POOLED)
    # of the maximum of samples only that one
    result = cost("roi_align_backward", {"dy": POOLED, **PLACES}, MAP, sampling=sampling, mode="max")
    assert (result.flops.mul, result.flops.add, result.flops.div) == (4 * 36, 4 * 36, 0)


@pytest.mark.parametrize("needs", [("x",), ("grid",), ("x", "grid")])
@pytest.mark.parametrize(("mode", "taps"), [("nearest", 1), ("linear", 4), ("cubic", 16)])
def test_samples(mode, taps, needs):
    n, points = 2, 5

    def definition(dy, x):
        dx = np.zeros(taps, object)
        for i in range(n):
            slopes = [[[], []] for _ in range(points)]
            for c in range(C):
                for p in range(points):
                    for tap in range(taps if "x" in needs else 0):
                        dx[tap] = dx[tap] + (dy[i, c, p] if mode == "nearest" else dy[i, c, p] * 0.25)
                    for axis in range(2 if "grid" in needs and mode != "nearest" else 0):
                        slopes[p][axis].append(total(x[i, c, tap % 3] * 0.5 for tap in range(taps)))
            for p in range(points):
                for axis in range(2 if "grid" in needs and mode != "nearest" else 0):
                    dot(slopes[p][axis], dy[i, :, p]) * 3.5

    shapes = {"dy": (n, C, 1, points), "x": (n, C, 3, 1), "grid": (n, 1, points, 2)}
    outputs = [shapes[name] for name in needs]
    result = cost("grid_sample_backward", shapes, *outputs, mode=mode, needs=needs)
    assert result.flops == count(definition, (n, C, points), (n, C, 3))
    reads_x = "grid" in needs and mode != "nearest"
    assert result.mread == 4 * (n * C * points + 2 * n * points + (n * C * 3 if reads_x else 0))


@pytest.mark.parametrize(("mode", "taps"), [("linear", 4), ("cubic", 16)])
def test_few_samples_read_a_part_of_a_large_map(mode, taps):
    shapes = {"dy": (1, C, 1, 5), "x": (1, C, 30, 30), "grid": (1, 1, 5, 2)}
    result = cost("grid_sample_backward", shapes, (1, 1, 5, 2), mode=mode, needs=("grid",))
    assert result.mread == 4 * (5 * C + 10 + 5 * C * taps)


@pytest.mark.parametrize("rank", [2, 3])
def test_affine_grid(rank):
    n, points = 2, 5

    def definition(dy):
        for i in range(n):
            for row in range(rank):
                for _ in range(rank + 1):
                    dot(dy[i, :, row], [0.5] * points)

    shape = (n, *(1,) * (rank - 1), points, rank)
    result = cost("affine_grid_backward", {"dy": shape, "theta": (n, rank, rank + 1)}, (n, rank, rank + 1))
    assert result.flops == count(definition, (n, points, rank))
    assert result.macs == n * points * rank * (rank + 1)
