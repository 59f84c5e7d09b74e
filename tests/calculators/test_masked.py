from __future__ import annotations

from costcore.ir import Operations, Tensor
from tests.calculators.layers import cost, moved, operations

MASK, INDICES = Tensor((6,), "bool"), Tensor((6,), "int64")


def test_gather_and_scatter():
    given = {"x": (10, 4), "mask": MASK, "indices0": INDICES, "indices1": INDICES}
    assert cost("masked_gather", given, (6,))[:3] == (Operations(cmp=6), 4 * 6 + 6 + 96, 24)
    added = cost("masked_scatter_add", given | {"updates": (6,)}, (10, 4))
    assert added[:3] == (Operations(add=6, cmp=6), 160 + 6 + 96 + 24, 160)
    assert moved("masked_scatter_backward", {"dy": (6,), "mask": MASK}, (4,)) == (24 + 6, 16)


def test_softmax():
    plain = operations("softmax", {"x": (2, 3)}, (2, 3), axis=1)
    masked = operations("masked_softmax", {"x": (2, 3), "mask": Tensor((2, 3), "bool")}, (2, 3), axis=1)
    assert masked == plain + Operations(cmp=6)


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
    assert cost("bin_edges", {"x": (10, 2)}, (5,), (9,), ranged=True)[:3] == (Operations(), 0, 4 * 14)
