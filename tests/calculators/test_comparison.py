from __future__ import annotations

from costcore.ir import Operations
from tests.calculators.counting import count
from tests.calculators.layers import moved, operations


def test_all_equal_and_all_close():
    def close(a, b):
        answers = [abs(x - y) <= 1e-8 + 1e-5 * abs(y) for x, y in zip(a, b, strict=True)]
        assert len(answers) == 6

    assert operations("all_close", {"x0": (6,), "x1": (6,)}) == count(close, (6,), (6,)) + Operations(cmp=5)
    assert operations("all_equal", {"x0": (2, 3), "x1": (2, 3)}) == Operations(cmp=6 + 5)
    assert operations("all_true", {"x": (2, 3)}) == Operations(cmp=6)


def test_membership():
    # 8 values: a sort of 8 * 3, a search of 4 and a comparison for each of 100
    assert operations("is_in", {"x": (100,), "values": (8,)}, (100,)) == Operations(cmp=24 + 100 * 5)
    # 2 elements are compared with all 8 faster than that
    assert operations("is_in", {"x": (2,), "values": (8,)}, (2,)) == Operations(cmp=16)
    assert operations("is_in", {"x": (7,), "values": None}, (7,)) == Operations(cmp=7)


def test_exclusive_or():
    def fold(x):
        for row in x:
            y = row[0]
            for value in row[1:]:
                y = y ^ value

    assert operations("reduce_xor", {"x": (3, 5)}, (3,)) == count(fold, (3, 5))
    assert moved("reduce_xor", {"x": (3, 5)}, (3,)) == (60, 12)
