"""What was measured of a run: how long each call took, and what else happened meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class CallTime(NamedTuple):
    """The measured time of one call, in nanoseconds.

    Attributes:
        device: how long the device worked for it.
        host: how long the host was in it, without calls inside of it.
        alone: its part of the span. Every instant of the span belongs to one call, to something else, or is idle: of
            several kernels that run at once, to the one that computes and began first.
        n_kernels: how many pieces of work the device did for it.
    """

    device: int
    host: int
    alone: int
    n_kernels: int


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
    """

    device: str
    clock: str
    span: int
    idle: int
    calls: Mapping[int, CallTime]
    elsewhere: tuple[Elsewhere, ...] = ()
    streams: tuple[Stream, ...] = ()
    tf32: bool = False
