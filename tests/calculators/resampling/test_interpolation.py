from __future__ import annotations

from itertools import product

import pytest

from costcore.ir import Operations
from tests.calculators.counting_scalar import count, dot, total
from tests.calculators.layer_costs import bytes_moved, layer_cost, operations


def line(values):
    """Between two values: a + t * (b - a)."""
    a, b = values
    return a + 0.25 * (b - a)


def cubic(values):
    """Between four values: their weighted sum, without fused operations."""
    return total(weight * value for weight, value in zip((0.1, 0.4, 0.4, 0.1), values, strict=True))


def sample(x, interpolate):
    """One sample among ``x[a, ..., a]``, one dimension after another."""
    return interpolate([sample(part, interpolate) for part in x] if x.ndim > 1 else x)


@pytest.mark.parametrize(("mode", "interpolate", "taps"), [("linear", line, 2), ("cubic", cubic, 4)])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_sample_of_any_rank(mode: str, interpolate, taps: int, rank: int) -> None:
    counted = count(lambda x: sample(x, interpolate), (taps,) * rank)
    x, y = (1, 2) + (9,) * rank, (1, 2) + (3,) * rank
    assert operations("resize", {"x": x}, y, mode=mode) == 2 * 3**rank * counted
    needed = min(taps**rank * 2 * 3**rank, 2 * 9**rank)
    assert bytes_moved("resize", {"x": x}, y, mode=mode) == (needed * 4, 2 * 3**rank * 4)


# The counting convention: bilinear 3 mul 6 add, trilinear 7 and 14, bicubic 20 and 15.
@pytest.mark.parametrize(
    ("mode", "rank", "expected"),
    [
        ("linear", 2, Operations(mul=3, add=6)),
        ("linear", 3, Operations(mul=7, add=14)),
        ("cubic", 2, Operations(mul=20, add=15)),
        ("nearest", 2, Operations()),
    ],
)
def test_the_counting_table(mode: str, rank: int, expected: Operations) -> None:
    assert operations("resize", {"x": (1, 1) + (4,) * rank}, (1, 1) + (2,) * rank, mode=mode) == 2**rank * expected


def test_enlarging_reads_the_input_once() -> None:
    assert bytes_moved("resize", {"x": (1, 3, 4, 4)}, (1, 3, 8, 8), mode="linear") == (48 * 4, 192 * 4)
    assert bytes_moved("resize", {"x": (1, 3, 4, 4)}, (1, 3, 8, 8), mode="nearest") == (48 * 4, 192 * 4)
    assert bytes_moved("resize", {"x": (1, 3, 8, 8)}, (1, 3, 4, 4), mode="nearest") == (48 * 4, 48 * 4)


def test_the_axes_tell_the_rank_where_they_are_given() -> None:
    assert operations("resize", {"x": (5, 7)}, (3, 3), mode="linear", axes=(0, 1)) == 9 * Operations(mul=3, add=6)


def test_sampling_at_a_grid_reads_the_grid() -> None:
    operands = {"x": (2, 3, 9, 9), "grid": (2, 2, 2, 2)}
    assert operations("grid_sample", operands, (2, 3, 2, 2), mode="linear") == 24 * Operations(mul=3, add=6)
    assert bytes_moved("grid_sample", operands, (2, 3, 2, 2), mode="linear") == ((4 * 24 + 16) * 4, 24 * 4)


def test_affine_grid() -> None:
    def grid(theta):
        places = product((-1, 0, 1), repeat=2)
        return [[dot((*place, 1), row) for row in theta] for place in places]

    result = layer_cost("affine_grid", {"theta": (5, 2, 3)}, (5, 3, 3, 2))
    assert result.flops == 5 * count(grid, (2, 3)) == 5 * 9 * 2 * Operations(mul=1, fma=2)
    assert result.macs == 5 * 9 * 2 * 3
    assert (result.mread, result.mwrite) == (30 * 4, 90 * 4)
