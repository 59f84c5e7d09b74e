"""Counts of integers and histograms of points."""

from __future__ import annotations

from costcore.ir import Operations, Tensor
from tests.calculators.layer_costs import layer_cost, operations


def test_counting():
    assert operations("bin_count", {"x": Tensor((9,), "int64")}, (4,)) == Operations(add=9)
    assert operations("histogram", {"x": (9,)}, (4,)) == 9 * Operations(add=2, mul=1, cmp=1)


def test_histograms():
    # 20 points: 2 add, 1 mul, 1 cmp for a bin, 1 add to count
    assert operations("binned_histogram", {"x": (20,)}, (8,), (9,), bins=(8,), equal=True) == Operations(
        mul=20, add=60, cmp=20
    )
    # 10 points with 2 coordinates among 4 and 8 bins: 3 and 4 steps of bisection
    given = {"x": (10, 2), "edges0": (5,), "edges1": (9,)}
    assert operations("binned_histogram", given, (4, 8), bins=(4, 8)) == Operations(cmp=10 * (3 + 4), add=10)
    dense = operations("binned_histogram", given, (4, 8), bins=(4, 8), density=True)
    assert dense == Operations(cmp=70, add=10 + 32, div=32, mul=64)


def test_edges_of_bins():
    assert operations("bin_edges", {"x": (10, 2)}, (5,), (9,)) == Operations(cmp=2 * 18)
    assert layer_cost("bin_edges", {"x": (10, 2)}, (5,), (9,), ranged=True)[:3] == (Operations(), 0, 4 * 14)
