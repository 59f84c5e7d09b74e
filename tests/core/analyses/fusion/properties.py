"""What holds for the groups of every run, tested without the code that forms them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from costcore import Trace
from costcore.ir import Dim
from tests.core.analyses.fusion.runs import LEVELS, groups_of


def check_groups(trace: Trace) -> dict[str, list[Any]]:
    """Assert what every run promises, and return its groups by level."""
    by_level = {level: groups_of(trace, level) for level in LEVELS}
    for level, groups in by_level.items():
        assert sorted(position for group in groups for position in group.calls) == list(range(len(trace))), level
        assert has_order(trace, groups), f"{level}: the groups form a cycle"
    none, pointwise, compiler = (total(by_level[level]) for level in LEVELS)
    again = sum((group.read_again + group.copied) * group.times for group in by_level["pointwise"])
    assert compiler <= pointwise <= none + again
    assert none == sum((cost.mread + cost.mwrite) * call.times for call, cost, *_ in trace if cost is not None)
    return by_level


def total(groups: Sequence[Any]) -> Dim:
    """The bytes that all groups read and write."""
    return sum((group.read + group.written) * group.times for group in groups)


def kernels(groups: Sequence[Any]) -> int:
    """The number of groups that read or write anything."""
    return sum(1 for group in groups if group.read != 0 or group.written != 0)


def has_order(trace: Trace, groups: Sequence[Any]) -> bool:
    """Whether the groups can run one after the other; views are their operand by another name."""
    group_of = {position: i for i, group in enumerate(groups) for position in group.calls}
    name: dict[int, int] = {}
    maker: dict[int, int] = {}
    needs: dict[int, set[int]] = {i: set() for i in range(len(groups))}
    for position, (call, cost, *_) in enumerate(trace):
        is_free = cost is not None and not cost.mread and not cost.mwrite
        read = [name.get(value, value) for value in call.inputs if value]
        if is_free and read:
            name.update((value, read[0]) for value in call.outputs if value not in call.inputs)
            continue
        needs[group_of[position]] |= {group_of[maker[value]] for value in read if value in maker}
        maker.update((value, position) for value in call.outputs if value)
    for i, others in needs.items():
        others.discard(i)
    done: set[int] = set()
    ready = [i for i in needs if not needs[i]]
    waiting = {i: set(others) for i, others in needs.items() if others}
    while ready:
        done.update(ready)
        ready = [i for i, others in waiting.items() if others <= done]
        for i in ready:
            del waiting[i]
    return not waiting
