"""The order in which nodes of a graph can run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from costcore.errors import CostError


def in_order(before: Sequence[Collection[int]], describe: Callable[[int], str]) -> Sequence[int]:
    """Return the positions of nodes, ordered so that each comes after those it reads from; as they are if they are so.

    Args:
        before: the positions of the nodes that each reads from, each once.
        describe: returns what a message calls a node.

    Raises:
        CostError: for a cycle; the message has its nodes.
    """
    if all(not earlier or max(earlier) < i for i, earlier in enumerate(before)):
        return range(len(before))
    after: list[list[int]] = [[] for _ in before]
    waiting = [len(earlier) for earlier in before]
    for i, earlier in enumerate(before):
        for j in earlier:
            after[j].append(i)
    ready = [i for i, count in enumerate(waiting) if count == 0]
    for i in ready:  # grows while it is walked
        for j in after[i]:
            waiting[j] -= 1
            if waiting[j] == 0:
                ready.append(j)
    if len(ready) < len(before):
        raise CostError(f"the graph has a cycle: {_cycle(before, waiting, describe)}")
    return ready


def _cycle(before: Sequence[Collection[int]], waiting: Sequence[int], describe: Callable[[int], str]) -> str:
    at = next(i for i, count in enumerate(waiting) if count)
    path: dict[int, None] = {}
    while at not in path:
        path[at] = None
        at = next(j for j in before[at] if waiting[j])
    circle = [*path][[*path].index(at) :]
    shown = [describe(i) for i in reversed(circle)]
    return " -> ".join([*shown[:10], "…"] if len(shown) > 10 else [*shown, shown[0]])
