"""Reductions of segments and bags, by hand: bags of 2 and 3 rows of 4 features."""

from __future__ import annotations

import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.counting import count, dot, fma
from tests.calculators.layers import cost, moved, operations

INDICES = Tensor((5,), "int64")
DATA = {"x": (5, 4), "lengths": Tensor((2,), "int64")}


@pytest.mark.parametrize(
    ("reduction", "forward", "backward"),
    [
        ("sum", Operations(add=20), Operations()),
        ("mean", Operations(add=20, div=8), Operations(div=20)),
        ("max", Operations(cmp=20), Operations(cmp=20)),
        ("min", Operations(cmp=20), Operations(cmp=20)),
        ("prod", Operations(mul=20), Operations(mul=20, div=20)),
    ],
)
def test_segments(reduction, forward, backward):
    assert operations("segment_reduce", DATA, (2, 4), reduction=reduction) == forward
    given = {"dy": (2, 4), "y": (2, 4), **DATA}
    assert operations("segment_reduce_backward", given, (5, 4), reduction=reduction) == backward
    assert moved("segment_reduce", DATA, (2, 4), reduction=reduction) == (4 * 20 + 16, 4 * 8)


def test_gradients_of_bags():
    def added(dy, weights):
        for bag, rows in ((0, (0, 1)), (1, (2, 3, 4))):
            for i in rows:
                [fma(slope, weights[i], 0.0) for slope in dy[bag]]

    given = {"dy": (2, 4), "x": INDICES}
    back = "embedding_bag_backward"
    assert operations(back, given, (9, 4), mode="sum") == Operations(add=20)
    assert operations(back, given, (9, 4), mode="mean") == Operations(add=20, div=8)
    assert operations(back, given, (9, 4), mode="max") == Operations(add=8)
    weighted = given | {"per_sample_weights": (5,)}
    assert operations(back, weighted, (9, 4), mode="sum") == count(added, (2, 4), (5,))


def test_gradient_of_the_weights_of_a_bag():
    def slopes(dy, w):
        for bag, rows in ((0, (0, 1)), (1, (2, 3, 4))):
            [dot(dy[bag], w[i]) for i in rows]

    result = cost("embedding_bag_weights_backward", {"dy": (2, 4), "w": (9, 4), "x": INDICES}, (5,))
    assert result[:3] == (count(slopes, (2, 4), (9, 4)), 4 * 8 + 4 * 20 + 8 * 5, 4 * 5)


def test_an_embedding_scaled_by_frequency():
    """5 counts; 20 divisions and additions."""
    result = cost("scaled_embedding_backward", {"dy": (5, 4), "x": INDICES}, (9, 4))
    assert result[:3] == (Operations(add=25, div=20), 4 * 20 + 40, 4 * 36)
