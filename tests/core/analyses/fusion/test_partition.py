"""Merging groups of calls."""

from __future__ import annotations

import pytest

from costcore.analyses.fusion.partition import Cluster, Partition


@pytest.mark.parametrize("is_larger_first", [False, True])
def test_the_larger_group_takes_in_the_smaller(is_larger_first):
    large, small = Cluster("", 8, None, {"map"}, [0, 1]), Cluster("", 8, 4, {"reduce"}, [2])
    partition = Partition()
    for cluster in (large, small):
        for position in cluster.calls:
            partition.of[position] = cluster
    pair = (large, small) if is_larger_first else (small, large)
    assert partition.merge(*pair, 8, 4) is large
    assert (large.calls, large.rows, large.patterns) == ([0, 1, 2], 4, {"map", "reduce"})
    assert set(partition.of.values()) == {large}
