"""Merging groups of calls."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from costcore.analyses.fusion.groups import Cluster, Partition, _successors


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


def reachable(partition):
    """Return which groups depend on which, directly or through others, as the calls say."""
    groups = {id(group): group for group in partition.of.values()}
    follows = {key: {id(each) for each in group.before} for key, group in groups.items()}
    found = {key: set(before) for key, before in follows.items()}
    for middle, key in product(groups, groups):
        found[key] |= found[middle] if middle in found[key] else set()
    return groups, follows, found


@pytest.mark.parametrize("seed", range(30))
def test_paths_are_those_of_the_calls(seed):
    """Groups of a random run are merged where no path through a third group connects them, until none are left."""
    random, partition, follows = Random(seed), Partition(), {}
    for position in range(9):
        follows[position] = frozenset(each for each in range(position) if random.random() < 0.25)
        partition.add(position, Cluster("", 8, None, {"map"}, [position]), follows[position])
    for _ in range(6):
        groups, direct, before = reachable(partition)
        for late, early in product(groups, groups):
            if late == early or late in before[early]:
                continue
            third = any(early in before[middle] for middle in before[late])
            assert partition.has_detour(groups[early], groups[late]) == third
            assert partition.depends(groups[late], groups[early]) == (early in before[late])
        for key, group in groups.items():
            assert group.before == {partition.of[each] for call in group.calls for each in follows[call]} - {group}
            assert all(groups[each].rank < group.rank and group in groups[each].after for each in direct[key])
        free = [
            (groups[early], groups[late])
            for late, early in product(groups, groups)
            if late != early and late not in before[early] and not partition.has_detour(groups[early], groups[late])
        ]
        if free:
            partition.merge(*random.choice(free), 8, None)


def test_a_search_that_is_too_long_assumes_a_path():
    """The search has both ends and 499 groups behind the first: more than 500. With one group less it ends."""
    for n, expected in ((500, True), (499, False)):
        partition = Partition()
        partition.add(0, Cluster("", 8, None, {"map"}, [0]), frozenset())
        for position in range(1, n):
            partition.add(position, Cluster("", 8, None, {"map"}, [position]), frozenset([position - 1]))
        partition.add(n, Cluster("", 8, None, {"map"}, [n]), frozenset([0]))
        partition.of[n].rank = n
        assert partition.has_detour(partition.of[0], partition.of[n]) is expected


def test_calls_that_come_later_are_not_waited_for():
    partition = Partition()
    partition.add(0, Cluster("", 8, None, {"map"}, [0]), frozenset((2,)))  # as an edited report says
    assert partition.of[0].before == set()


def test_the_nearest_of_two_groups_is_the_last():
    first, near, far, last = (Cluster("", 8, None, {"map"}, [i], rank=rank) for i, rank in enumerate((0, 1, 2, 3)))
    for first.after in ({near, far, last}, {far, near, last}):
        assert _successors(first, last) == [near, far]
