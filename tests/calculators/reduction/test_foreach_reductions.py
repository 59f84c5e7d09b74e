"""Reductions of every tensor of a list against executed definitions."""

from __future__ import annotations

from costcore.ir import Operations
from tests.calculators.counting_scalar import count, dot, sqrt, total
from tests.calculators.layer_costs import operations


def test_norms() -> None:
    def euclidean(x):
        return sqrt(dot(x, x))

    def absolutes(x):
        return total(abs(v) for v in x)

    def cubic(x):
        return total((e := abs(v)) * e * e for v in x) ** (1 / 3)

    tensors = {"x0": (2, 3), "x1": (4,)}
    for p, norm in ((2, euclidean), (1, absolutes), (3, cubic)):
        assert operations("foreach_norm", tensors, (), (), p=p) == count(norm, (6,)) + count(norm, (4,))
    assert operations("foreach_norm", tensors, (), ()) == Operations(mul=2, fma=8, special=2)


def test_other_norms_and_sums_of_powers() -> None:
    tensors = {"x0": (2, 3), "x1": (4,)}
    # 10 absolute values, 8 comparisons
    assert operations("foreach_norm", tensors, (), (), p=float("inf")) == Operations(add=10, cmp=8)
    assert operations("foreach_powsum", tensors, (), (), p=2) == Operations(mul=2, fma=8)
    assert operations("foreach_powsum", tensors, (), (), p=1) == Operations(add=10 + 8)
    assert operations("foreach_powsum", tensors, (), (), p=3) == Operations(add=10 + 8, mul=20)
    assert operations("foreach_powsum", tensors, (), (), p=4) == Operations(add=10 + 8, special=10)


def test_largest_elements() -> None:
    assert operations("foreach_max", {"x0": (2, 3), "x1": (4,)}, (), ()) == Operations(cmp=8)
