"""The longest common subsequence of two sequences, in time that grows with how much they differ."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

MOST_DIFFERENCES = 3000
"""The most items of both sequences together that may be in one only; beyond, equal items are paired in order."""


def aligned(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return positions of equal items, ascending in both sequences, as many as there are.

    Source: E. W. Myers, An O(ND) difference algorithm and its variations, Algorithmica 1 (1986).
    """
    start = 0
    while start < len(a) and start < len(b) and a[start] == b[start]:
        start += 1
    end_a, end_b = len(a), len(b)
    while end_a > start and end_b > start and a[end_a - 1] == b[end_b - 1]:
        end_a, end_b = end_a - 1, end_b - 1
    head = [(i, i) for i in range(start)]
    tail = [(end_a + i, end_b + i) for i in range(len(a) - end_a)]
    middle = _middle(a[start:end_a], b[start:end_b])
    return [*head, *((start + i, start + j) for i, j in middle), *tail]


def _middle(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    if not a or not b:
        return []
    farthest = {1: 0}
    steps: list[dict[int, int]] = []
    for d in range(min(len(a) + len(b), MOST_DIFFERENCES) + 1):
        steps.append(dict(farthest))
        for k in range(-d, d + 1, 2):
            down = k == -d or (k != d and farthest[k - 1] < farthest[k + 1])
            x = farthest[k + 1] if down else farthest[k - 1] + 1
            while x < len(a) and x - k < len(b) and a[x] == b[x - k]:
                x += 1
            farthest[k] = x
            if x >= len(a) and x - k >= len(b):
                return _traced(steps, len(a), len(b))
    return []


def _traced(steps: Sequence[dict[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    """Return the pairs along the way that was found, from the reach of every number of differences."""
    pairs: list[tuple[int, int]] = []
    for d in range(len(steps) - 1, -1, -1):
        reach, k = steps[d], x - y
        down = k == -d or (k != d and reach[k - 1] < reach[k + 1])
        before_k = k + 1 if down else k - 1
        before_x = reach[before_k]
        before_y = before_x - before_k
        while x > before_x and y > before_y and (x - 1, y - 1) >= (0, 0) and x > 0 and y > 0:
            x, y = x - 1, y - 1
            pairs.append((x, y))
        if d:
            x, y = before_x, before_y
    return pairs[::-1]
