"""Match the calls of a run with those of the same network at other sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from costcore.analyses.sizes.limits import how_to_state
from costcore.analyses.sizes.outline import Outline, Sample
from costcore.errors import CostError


class OtherOperatorsError(CostError):
    """A network that runs other operators at other sizes."""


def matched(base: Sample, other: Sample, where: Mapping[str, int], base_at: Mapping[str, int]) -> list[int | None]:
    """Return for every call of ``base`` the index of the same call of ``other``.

    Calls that cost nothing come and go with the size, as no slice of a whole axis is taken. Those that ``other`` lacks
    have None.

    Raises:
        OtherOperatorsError: if the calls that cost something differ; names the first and both sizes.
    """
    if base.outlines == other.outlines:
        return list(range(len(base.outlines)))
    found: list[int | None] = [None] * len(base.outlines)
    for (priced, free), (other_priced, other_free) in _pairs(base.outlines, other.outlines):
        outline = None if priced is None else base.outlines[priced]
        other_outline = None if other_priced is None else other.outlines[other_priced]
        if priced is not None and outline == other_outline:
            found[priced] = other_priced
        elif outline != other_outline:
            raise OtherOperatorsError(_difference(base, priced, base_at, other, other_priced, where))
        matcher = SequenceMatcher(None, *_keys(base, free, other, other_free), autojunk=False)
        for at, other_at, length in matcher.get_matching_blocks():
            for k in range(length):
                found[free[at + k]] = other_free[other_at + k]
    return found


def _keys(base: Sample, free: Sequence[int], other: Sample, other_free: Sequence[int]) -> tuple[list[Any], list[Any]]:
    """Return what free calls of two runs are matched by: outlines, and integers that a call of each run has.

    Of two slices in a row, the one that the other run lacks is the one that has other integers there.
    """
    of_base, of_other = (
        [(run.outlines[i], run.integers[i]) for i in calls] for run, calls in ((base, free), (other, other_free))
    )
    if [outline for outline, _ in of_base] == [outline for outline, _ in of_other]:
        return [*range(len(free))], [*range(len(free))]
    both = set(of_base) & set(of_other)
    base_keys, other_keys = ([each if each in both else each[:1] for each in found] for found in (of_base, of_other))
    return base_keys, other_keys


Group = tuple[int | None, list[int]]


def _pairs(base: Sequence[Outline], other: Sequence[Outline]) -> Iterator[tuple[Group, Group]]:
    """Yield every call that costs something, with the free calls before it, of both runs side by side."""
    groups, others = _groups(base), _groups(other)
    for i in range(max(len(groups), len(others))):
        yield (groups[i] if i < len(groups) else (None, [])), (others[i] if i < len(others) else (None, []))


def _groups(outlines: Sequence[Outline]) -> list[Group]:
    groups: list[Group] = []
    free: list[int] = []
    for i, outline in enumerate(outlines):
        if outline.is_free:
            free.append(i)
        else:
            groups.append((i, free))
            free = []
    return [*groups, (None, free)]


def _difference(
    base: Sample,
    i: int | None,
    base_at: Mapping[str, int],
    other: Sample,
    j: int | None,
    other_at: Mapping[str, int],
) -> str:
    varied = [name for name, size in other_at.items() if size != base_at[name]]
    return (
        f"the network runs other operators at other sizes: at {text_of(base_at)} {_name(base, i)}, "
        f"at {text_of(other_at)} {_name(other, j)}. State a range in which it runs the same: {how_to_state(varied)}. "
        f"If it pads to a multiple, write the size as one, such as '16*{varied[0]}'."
    )


def _name(sample: Sample, i: int | None) -> str:
    if i is None:
        return "it ends there"
    call = sample.trace.records[i].call
    where = f" in module {call.module!r}" if call.module else ""
    return f"call {i + 1} of {len(sample.trace)} is {call.type}{where}"


def text_of(values: Mapping[str, int]) -> str:
    """Return the values of symbols as text: ``batch=2, seq=16``."""
    return ", ".join(f"{name}={value}" for name, value in values.items())
