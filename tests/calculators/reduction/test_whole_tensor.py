from __future__ import annotations

import math

import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.counting_scalar import count
from tests.calculators.layer_costs import bytes_moved, operations


def test_all_equal_and_all_close():
    def close(a, b):
        answers = [abs(x - y) <= 1e-8 + 1e-5 * abs(y) for x, y in zip(a, b, strict=True)]
        assert len(answers) == 6

    assert operations("all_close", {"x0": (6,), "x1": (6,)}) == count(close, (6,), (6,)) + Operations(cmp=5)
    assert operations("all_equal", {"x0": (2, 3), "x1": (2, 3)}) == Operations(cmp=6 + 5)
    assert operations("all_equal", {"x0": (2, 3), "x1": (3, 2)}) == Operations()
    assert bytes_moved("all_equal", {"x0": (2, 3), "x1": (2,)}) == (0, 0)
    assert operations("all_true", {"x": (2, 3)}) == Operations(cmp=6)


@pytest.mark.parametrize(
    ("settings", "test"),
    [
        ({}, lambda x: abs(x) < math.inf),
        ({"test": "isinf"}, lambda x: abs(x) == math.inf),
        ({"test": "isnan"}, lambda x: x != x),
    ],
)
def test_whether_all_are_finite(settings, test) -> None:
    given = {"x0": (2, 3), "x1": (4,)}
    joined = Operations(cmp=9)
    expected = count(lambda x0, x1: [test(x) for x in (*x0.flat, *x1.flat)], *given.values()) + joined
    assert operations("all_finite", given, Tensor((), "bool"), **settings) == expected
    assert bytes_moved("all_finite", given, Tensor((), "bool"), **settings) == (4 * 10, 1)
