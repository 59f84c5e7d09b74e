"""Graphs of kernels that one launch starts, with the operators that the trace of their capture has.

While a graph is captured, its launches are recorded without kernels, in the order in which a replay runs them. Where
launches name their kernels (ROCm), a replay is found by names; otherwise a capture that has as many launches is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from .nesting import innermost, is_graph, nest
from .places import place
from .records import Kernel, Launch, Op, Recorded

GRAPH = "graph::"
"""The beginning of the names of operators that stand for the launch of a graph."""

EQUAL = 0.98
"""So many names of kernels of a replay are those of its capture at least: libraries choose some kernels again."""

_STARTS_WORK = re.compile(r"[lL]aunch|[mM]em(cpy|set).*Async")
_ENDS_CAPTURE = re.compile(r"EndCapture|GraphInstantiate")


class Captured(NamedTuple):
    """A launch that was captured: the kernel if the file names it, and the operator around it if there is one."""

    kernel: str
    op: Op | None


class Captures:
    """The launches of the trace of captures.

    Args:
        recorded: the trace.
    """

    def __init__(self, recorded: Recorded) -> None:
        threads = nest(recorded.ops)
        place(recorded, threads)
        starts = {thread: [op.start for op in ops] for thread, ops in threads.items()}
        ran = {kernel.correlation for kernel in recorded.kernels}
        self._captures: list[list[Captured]] = [[]]
        self._at = 0
        for number, launch in sorted(recorded.launches.items(), key=lambda item: (item[1].start, item[0])):
            if ends_capture(launch):
                self._captures.append([])
            elif number not in ran and is_start(launch):
                op = innermost(threads.get(launch.thread, ()), starts.get(launch.thread, ()), launch.start)
                self._captures[-1].append(Captured(_plain(launch.kernel), op))
        self._captures = [each for each in self._captures if each]

    def of(self, kernels: Sequence[Kernel]) -> Sequence[Captured] | None:
        """Return the launches of a replay, one for each of its kernels in their order; None if none fits.

        Replays usually follow in the order of the captures, so that the search begins behind the last one.
        """
        names = [_plain(kernel.name) for kernel in kernels]
        order = [*range(self._at, len(self._captures)), *range(self._at)]
        for i in order:
            found = _fitting(names, self._captures[i])
            if found is not None:
                self._at = i
                return found
        return None


def ends_capture(launch: Launch) -> bool:
    """Return whether a call of the host ends the capture of a graph."""
    return _ENDS_CAPTURE.search(launch.name) is not None


def is_start(launch: Launch) -> bool:
    """Return whether a call of the host starts one piece of work, and not a whole graph."""
    return _STARTS_WORK.search(launch.name) is not None and not is_graph(launch)


def _fitting(names: Sequence[str], captured: Sequence[Captured]) -> Sequence[Captured] | None:
    """Return the launches of a capture that are those of a replay."""
    if not any(each.kernel for each in captured):
        return captured if len(captured) == len(names) else None
    for start in range(len(captured) - len(names) + 1):
        some = captured[start : start + len(names)]
        if sum(name == each.kernel for name, each in zip(names, some, strict=True)) >= EQUAL * len(names):
            return some
    return None


def _plain(kernel: str) -> str:
    return kernel.replace("[clone .kd]", "").strip()


def expanded(ops: Iterable[Op], captures: Captures) -> tuple[list[Op], int]:
    """Return operators with those of its capture inside of every launch of a graph, and how many have none.

    Those of a replay have a thread of their own, in the order of the capture.

    Args:
        ops: all operators, each after those around it.
        captures: the captures.
    """
    found: list[Op] = []
    n_unknown = 0
    for op in ops:
        found.append(op)
        if not op.name.startswith(GRAPH) or not op.kernels:
            continue
        op.kernels.sort(key=lambda kernel: kernel.start)
        captured = captures.of(op.kernels)
        if captured is None:
            n_unknown += 1
            continue
        copies: dict[Op, Op] = {}
        kernels, op.kernels = op.kernels, []
        for kernel, each in zip(kernels, captured, strict=True):
            owner = op if each.op is None else _copy(each.op, op, copies)
            owner.kernels.append(kernel)
        found += _below(op)
    return found, n_unknown


def _copy(op: Op, graph: Op, copies: dict[Op, Op]) -> Op:
    """Return the copy of a captured operator in a replay, inside of the copies of those around it."""
    if op not in copies:
        around = graph if op.parent is None else _copy(op.parent, graph, copies)
        copies[op] = replace(
            op,
            start=graph.start,
            end=graph.end,
            thread=(graph.thread, graph.start),
            sequence=-1,
            parent=around,
            children=[],
            kernels=[],
            phase=graph.phase,
        )
        around.children.append(copies[op])
    return copies[op]


def _below(op: Op) -> Iterator[Op]:
    for child in op.children:
        yield child
        yield from _below(child)
