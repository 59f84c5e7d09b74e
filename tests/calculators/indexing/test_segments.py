"""Reductions of segments and bags, by hand: bags of 2 and 3 rows of 4 features."""

from __future__ import annotations

import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.layer_costs import bytes_moved, operations

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
    assert bytes_moved("segment_reduce", DATA, (2, 4), reduction=reduction) == (4 * 20 + 16, 4 * 8)
