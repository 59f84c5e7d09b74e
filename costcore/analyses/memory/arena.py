"""The planner: an offset for every block, so that blocks alive at the same time do not overlap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

MOST_CONFLICTS = 2_000_000
"""With more pairs of blocks that live at the same time, only the strategy ``birth`` is tried."""


class Life(NamedTuple):
    """A block to place.

    Attributes:
        nbytes: its size.
        born: index of the first step that needs it.
        dies: index of the last step that needs it.
    """

    nbytes: int
    born: int
    dies: int


class Plan(NamedTuple):
    """A static memory layout.

    Attributes:
        size: the bytes that it takes.
        offsets: the offset of each block.
        strategy: the order in which the blocks were placed: ``size``, ``conflicts``, ``birth`` or ``micro``.
        sizes: the size by strategy, of all that were tried.
    """

    size: int
    offsets: list[int]
    strategy: str
    sizes: dict[str, int]


def plan(lives: Sequence[Life], align: int) -> Plan:
    """Return the smallest layout of several greedy ones.

    Each block gets the lowest offset at which it meets no placed block whose life overlaps with its own. Blocks are
    placed in order of falling size (Pisarchyk and Lee 2020, arXiv:2001.03288, the planner of TensorFlow Lite), of
    falling number of conflicts, and in order of birth. ``micro`` is the planner of TensorFlow Lite for
    microcontrollers: falling size, and of equal blocks the last one first.

    Args:
        lives: the blocks.
        align: offsets and sizes are rounded up to multiples of this.
    """
    rounded = [-(-life.nbytes // align) * align for life in lives]
    by_birth = sorted(range(len(lives)), key=lambda i: (lives[i].born, -rounded[i], i))
    placed = _by_birth(lives, rounded, by_birth)
    found = {"birth": (_extent(placed, rounded), placed)}
    if _count_conflicts(lives) <= MOST_CONFLICTS:
        conflicts = _conflicts(lives, rounded, by_birth)
        keys: dict[str, Callable[[int], tuple[int, ...]]] = {
            "size": lambda i: (-rounded[i], lives[i].born, i),
            "conflicts": lambda i: (-len(conflicts[i]), -rounded[i], lives[i].born, i),
            "micro": lambda i: (-rounded[i], -lives[i].born, -i),
        }
        for name, key in keys.items():
            placed = _greedy(sorted(range(len(lives)), key=key), rounded, conflicts)
            found[name] = _extent(placed, rounded), placed
    names = [name for name in ("size", "conflicts", "birth", "micro") if name in found]
    best = min(names, key=lambda name: found[name][0])
    return Plan(*found[best], best, {name: found[name][0] for name in names})


def _extent(offsets: Sequence[int], sizes: Sequence[int]) -> int:
    return max((offset + size for offset, size in zip(offsets, sizes, strict=True)), default=0)


def _count_conflicts(lives: Sequence[Life]) -> int:
    """Return the number of pairs of blocks that live at the same time."""
    n_steps = max((life.dies for life in lives), default=0) + 2
    born, died = [0] * n_steps, [0] * n_steps
    for life in lives:
        born[life.born] += 1
        died[life.dies + 1] += 1
    pairs = alive = 0
    for new, gone in zip(born, died, strict=True):
        alive -= gone
        pairs += alive * new + new * (new - 1) // 2
        alive += new
    return pairs


def _conflicts(lives: Sequence[Life], sizes: Sequence[int], by_birth: Sequence[int]) -> list[list[int]]:
    """Return for each block those that live at the same time; blocks without bytes conflict with none."""
    found: list[list[int]] = [[] for _ in lives]
    alive: list[int] = []
    for i in by_birth:
        if not sizes[i]:
            continue
        alive = [j for j in alive if lives[j].dies >= lives[i].born]
        for j in alive:
            found[j].append(i)
        found[i] += alive
        alive.append(i)
    return found


def _greedy(order: Sequence[int], sizes: Sequence[int], conflicts: Sequence[Sequence[int]]) -> list[int]:
    """Place the blocks in this order, each at the lowest offset that is free during its life."""
    offsets: dict[int, int] = {}
    for i in order:
        size, offset = sizes[i], 0
        for start, end in sorted([(offsets[j], offsets[j] + sizes[j]) for j in conflicts[i] if j in offsets]):
            if start - offset >= size:
                break
            offset = max(offset, end)
        offsets[i] = offset
    return [offsets[i] for i in range(len(sizes))]


def _by_birth(lives: Sequence[Life], sizes: Sequence[int], by_birth: Sequence[int]) -> list[int]:
    """Place the blocks as an allocator that takes the lowest gap would while the model runs."""
    offsets = [0] * len(sizes)
    leaving: dict[int, list[int]] = {}
    for i in by_birth:
        if sizes[i]:
            leaving.setdefault(lives[i].dies + 1, []).append(i)
    ends = sorted(leaving)
    gone = 0
    gaps: list[tuple[int, int]] = []
    top = 0
    for i in by_birth:
        size = sizes[i]
        if not size:
            continue
        while gone < len(ends) and ends[gone] <= lives[i].born:
            freed = [(offsets[j], offsets[j] + sizes[j]) for j in leaving[ends[gone]]]
            gaps = _joined(gaps, freed)
            gone += 1
        if gaps and gaps[-1][1] == top:  # free up to the end of what is used
            top = gaps.pop()[0]
        for k, (start, end) in enumerate(gaps):
            if end - start >= size:
                offsets[i], gaps[k] = start, (start + size, end)
                break
        else:
            offsets[i], top = top, top + size
    return offsets


def _joined(gaps: Sequence[tuple[int, int]], freed: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return all gaps in order, neighbors as one."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted([*gaps, *freed]):
        if joined and joined[-1][1] == start:
            joined[-1] = joined[-1][0], end
        else:
            joined.append((start, end))
    return joined
