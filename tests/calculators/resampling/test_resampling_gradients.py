"""Gradients of interpolation against executed definitions."""

from __future__ import annotations

import numpy as np
import pytest

from costcore.ir import Operations
from tests.calculators.counting_scalar import count, dot, total
from tests.calculators.layer_costs import bytes_moved, layer_cost, operations

C = 3


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
    result = layer_cost("grid_sample_backward", shapes, *outputs, mode=mode, needs=needs)
    assert result.flops == count(definition, (n, C, points), (n, C, 3))
    reads_x = "grid" in needs and mode != "nearest"
    assert result.mread == 4 * (n * C * points + 2 * n * points + (n * C * 3 if reads_x else 0))


@pytest.mark.parametrize(("mode", "taps"), [("linear", 4), ("cubic", 16)])
def test_few_samples_read_a_part_of_a_large_map(mode, taps):
    shapes = {"dy": (1, C, 1, 5), "x": (1, C, 30, 30), "grid": (1, 1, 5, 2)}
    result = layer_cost("grid_sample_backward", shapes, (1, 1, 5, 2), mode=mode, needs=("grid",))
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
    result = layer_cost("affine_grid_backward", {"dy": shape, "theta": (n, rank, rank + 1)}, (n, rank, rank + 1))
    assert result.flops == count(definition, (n, points, rank))
    assert result.macs == n * points * rank * (rank + 1)


@pytest.mark.parametrize(("mode", "taps"), [("linear", 4), ("cubic", 16)])
def test_gradient_of_resizing(mode: str, taps: int) -> None:
    def spread(dy):
        dx = [0] * taps
        for value in dy:
            dx = [0.1 * value + element for element in dx]
        return dx

    layer = {"dy": (1, 1, 3, 2), "x": (1, 1, 9, 9)}
    assert operations("resize_backward", layer, (1, 1, 9, 9), mode=mode) == count(spread, (6,))
    assert bytes_moved("resize_backward", layer, (1, 1, 9, 9), mode=mode) == (6 * 4, 81 * 4)


def test_gradient_of_copies() -> None:
    assert operations("resize_backward", {"dy": (1, 1, 4, 4)}, (1, 1, 2, 2), mode="nearest") == Operations(add=16)
