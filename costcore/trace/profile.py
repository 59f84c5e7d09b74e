"""What was measured of a run: how long each call took, and what else happened meanwhile."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple


class CallTime(NamedTuple):
    """The measured time of one call, in nanoseconds.

    Attributes:
        device: how long the device worked for it.
        host: how long the host was in it, without calls inside of it.
        alone: its part of the span. Every instant of the span belongs to one call, to something else, or is idle: of
            several kernels that run at once, to the one that computes and began first.
        n_kernels: how many pieces of work the device did for it.
        aside: how much of ``device`` it filled memory, or copied from or to the host.
    """

    device: int
    host: int
    alone: int
    n_kernels: int
    aside: int = 0


class Elsewhere(NamedTuple):
    """Work that belongs to no call, in nanoseconds.

    Attributes:
        what: what kind of work it is, ``launched before the window``.
        name: its name.
        time: how long it took.
        alone: its part of the span; see :attr:`CallTime.alone`.
        n: how many pieces of work.
    """

    what: str
    name: str
    time: int
    alone: int
    n: int


class Stream(NamedTuple):
    """A stream of the device, in nanoseconds.

    Attributes:
        name: its device and number.
        busy: how long it worked.
        idle: how long it did not, of the span.
        longest: its longest gap.
        n_gaps: how many gaps it has.
    """

    name: str
    busy: int
    idle: int
    longest: int
    n_gaps: int


class Profile(NamedTuple):
    """What was measured of a run.

    The parts of the span add up exactly: ``alone`` of all calls and of what is elsewhere, and ``idle``, are ``span``.

    Attributes:
        device: the name of the device that ran it; empty if unknown.
        clock: ``device`` if its work was recorded, else ``host``.
        span: nanoseconds from the start of the step, or of its first work, to the end.
        idle: nanoseconds of the span in which nothing ran.
        calls: the time of every call by its position.
        elsewhere: work of no call.
        streams: the streams of the device.
        tf32: whether the names of kernels say that products of float32 were rounded to TF32.
        inside: calls that have no kernel of their own: the position of the call whose kernel computes them, by theirs.
        no_bound: why the times say nothing about the speed of the device, as a sentence on the file; empty if they do.
        remarks: what is wrong with the file, as sentences.
    """

    device: str
    clock: str
    span: int
    idle: int
    calls: Mapping[int, CallTime]
    elsewhere: tuple[Elsewhere, ...] = ()
    streams: tuple[Stream, ...] = ()
    tf32: bool = False
    inside: Mapping[int, int] = MappingProxyType({})
    no_bound: str = ""
    remarks: tuple[str, ...] = ()


class Interval(NamedTuple):
    """A span of time with its owner; of several at once, the one with the least rank counts."""

    start: int
    end: int
    rank: tuple[int, int]
    owner: Any


def divide(intervals: Iterable[Interval], start: int, end: int) -> tuple[dict[Any, int], int]:
    """Return how much of a span each owner has, and how much nobody has; the parts add up to the span."""
    found = sorted((max(x.start, start), min(x.end, end), x.rank, i, x.owner) for i, x in enumerate(intervals))
    times = sorted({start, end, *(x[0] for x in found if x[0] < x[1]), *(x[1] for x in found if x[0] < x[1])})
    owned: dict[Any, int] = defaultdict(int)
    idle, at = 0, 0
    active: list[tuple[tuple[int, int], int, int, Any]] = []
    for begin, stop in pairwise(times):
        while at < len(found) and found[at][0] <= begin:
            first, last, rank, i, owner = found[at]
            if first < last:
                heapq.heappush(active, (rank, i, last, owner))
            at += 1
        while active and active[0][2] <= begin:
            heapq.heappop(active)
        if active:
            owned[active[0][3]] += stop - begin
        else:
            idle += stop - begin
    return dict(owned), idle
