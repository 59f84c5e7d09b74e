"""The first sizes at which a network is captured, with a capture that fails below given sizes."""

from __future__ import annotations

import pytest

from costcore.analyses.sizes.capture import Limits, start
from costcore.errors import CostError

STATED, FREE = Limits(5, 50, 5, True), Limits(16, 64, 1, False)


class Runs:
    """A network that runs from the given sizes on, and the points at which it was tried."""

    symbols = ("a", "b")

    def __init__(self, *smallest):
        self.smallest = smallest
        self.failed = []

    def restart(self, point):
        if any(size < least for size, least in zip(point, self.smallest, strict=True)):
            self.failed.append(point)
            raise CostError(f"too small: {point}")

    def text(self, point):
        return str(point)


def test_sizes_without_a_range_are_doubled():
    runs = Runs(5, 60)
    point, limits = start(runs, [STATED, FREE])
    assert point == (5, 64)  # 16, 32, 64
    assert runs.failed == [(5, 16), (5, 32)]
    assert [each.low for each in limits] == [5, 64]


def test_a_network_that_needs_more_is_tried_at_three_doublings():
    runs = Runs(5, 129)
    with pytest.raises(CostError, match=r"too small: \(5, 16\).*state a range"):
        start(runs, [STATED, FREE])
    assert runs.failed == [(5, 16), (5, 32), (5, 64), (5, 128)]


def test_sizes_in_stated_ranges_are_tried_once():
    runs = Runs(6, 6)
    with pytest.raises(CostError, match=r"^too small: \(5, 5\)$"):
        start(runs, [STATED, STATED])
    assert runs.failed == [(5, 5)]
