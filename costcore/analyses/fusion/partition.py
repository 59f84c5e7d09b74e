"""Groups of calls that are merged step by step, without a cycle among them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from costcore.ir import Pattern
from costcore.numbers.dims import Dim

SEARCH_LIMIT = 500
"""The number of groups after which the search for a path between two groups stops and assumes that there is one."""


@dataclass(slots=True, eq=False)
class Cluster:
    """A group that may still grow.

    Attributes:
        place: what all its calls have in common: phase, loop body, number of executions.
        elements: the number of elements that it runs over.
        rows: the number of rows that its reductions have; None without a reduction.
        patterns: the patterns of its calls.
        calls: positions of its calls.
        waits: positions of calls whose results must be complete before it starts.
        rank: larger than that of every group it depends on.
        before, after: the groups that it depends on, and that depend on it.
    """

    place: Any
    elements: Dim
    rows: Dim | None
    patterns: set[Pattern]
    calls: list[int]
    waits: frozenset[int] = frozenset()
    rank: int = 0
    before: set[Cluster] = field(default_factory=set)
    after: set[Cluster] = field(default_factory=set)


class Partition:
    """The groups of the calls of a run, which are added in order.

    Attributes:
        of: the group of each call, by position.
    """

    def __init__(self) -> None:
        self.of: dict[int, Cluster] = {}

    def add(self, position: int, cluster: Cluster, follows: frozenset[int]) -> None:
        """Add a group of one call that depends on the calls at these positions, of which later ones do not count."""
        self.of[position] = cluster
        cluster.before = {self.of[each] for each in follows if each < position}
        for each in cluster.before:
            each.after.add(cluster)
            cluster.rank = max(cluster.rank, each.rank + 1)

    def depends(self, late: Cluster, early: Cluster) -> bool:
        """Return whether a group depends on another one, directly or through others."""
        return early in late.before or self.has_detour(early, late)

    def has_detour(self, early: Cluster, late: Cluster) -> bool:
        """Return whether there is a path from one group to another through a third; merging them makes it a cycle."""
        stack, seen = _next(early, late), {early, late}
        while stack:
            cluster = stack.pop()
            if late in cluster.after:
                return True
            if cluster not in seen:
                seen.add(cluster)
                stack += _next(cluster, late)
                if len(seen) > SEARCH_LIMIT:
                    return True
        return False

    def merge(self, into: Cluster, other: Cluster, elements: Dim, rows: Dim | None) -> Cluster:
        """Merge two groups that no path through a third connects; return the merged group, the larger of the two."""
        if len(into.calls) < len(other.calls):
            into, other = other, into
        into.elements, into.rows = elements, rows
        into.patterns |= other.patterns
        into.calls += other.calls
        into.waits |= other.waits
        for position in other.calls:
            self.of[position] = into
        for each in other.before:
            each.after.discard(other)
            each.after.add(into)
        for each in other.after:
            each.before.discard(other)
            each.before.add(into)
        into.before = (into.before | other.before) - {into, other}
        into.after = (into.after | other.after) - {into, other}
        into.rank = max(into.rank, other.rank)
        _raise_ranks(into)
        return into


def _next(cluster: Cluster, late: Cluster) -> list[Cluster]:
    """Return the groups behind ``cluster`` through which a path to ``late`` may lead, the nearest to it last."""
    found = [each for each in cluster.after if each.rank < late.rank and each is not late]
    return sorted(found, key=lambda each: each.rank) if len(found) > 1 else found


def _raise_ranks(cluster: Cluster) -> None:
    stack = [cluster]
    while stack:
        early = stack.pop()
        for late in early.after:
            if late.rank <= early.rank:
                late.rank = early.rank + 1
                stack.append(late)
