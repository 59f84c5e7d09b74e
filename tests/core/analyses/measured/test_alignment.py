"""The longest common subsequence, against the textbook's table."""

from __future__ import annotations

import random
from itertools import pairwise

from costcore.analyses.measured.join import aligned


def longest(a, b):
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1][j + 1] = table[i][j] + 1 if x == y else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


def test_as_many_pairs_as_there_are_and_in_order():
    rng = random.Random(1)
    for _ in range(1000):
        a = [rng.randrange(4) for _ in range(rng.randrange(12))]
        b = [x for x in a if rng.random() > 0.2] + [rng.randrange(4) for _ in range(rng.randrange(4))]
        pairs = aligned(a, b)
        assert all(a[i] == b[j] for i, j in pairs)
        assert all(x < y for (x, _), (y, _) in pairwise(pairs))
        assert all(x < y for (_, x), (_, y) in pairwise(pairs))
        assert len(pairs) == longest(a, b)


def test_long_sequences_that_have_nothing_in_common_take_no_time():
    assert aligned(range(100_000), range(100_000, 200_000)) == []
