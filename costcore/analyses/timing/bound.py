"""The least time that a group of calls takes on a device, whatever kernel computes it.

::

    bound = max(seconds of each engine,
                max over places from which bytes come:
                    (max(0, read - C) + max(0, written - C)) / bandwidth of the place)

``C`` is the size of what lies nearer to the engines: so much of what is read can already lie there, and so much of what
is written can stay there. Operations run at the highest clock on all units; engines and memory work at the same time.

The observed bound is larger, and less certain: of 36,983 calls on six devices, in 22 public traces, none ran faster::

    max(bound, 0.9 * shortest kernel that was seen on the device, max(0, read + written - C) / bandwidth of main memory)

A kernel that finds all that it reads in the cache, and leaves all that it writes there, may refute it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from costcore.analyses.devices.device import Device
from costcore.analyses.timing.work import Work


class Bound(NamedTuple):
    """The least time of a group of calls.

    Attributes:
        seconds: the bound.
        binds: what it comes from: ``matrix``, ``vector``, ``special``, ``dram`` or ``cache``, of the
            observed one also ``kernel``; empty if it is 0.
        by: the seconds that each of them needs at least.
    """

    seconds: float
    binds: str
    by: Mapping[str, float]


LEAST = "least"
OBSERVED = "observed"
BOUNDS = (LEAST, OBSERVED)
"""What a time is at least: by what the device can do, or also by what was seen on it."""

KERNEL = "kernel"
"""What a bound comes from that is the shortest kernel."""

MARGIN = 0.9
"""The part of the shortest kernel that was seen which another one takes at least: clocks differ."""


def bound_of(work: Work, read: float, written: float, device: Device, is_observed: bool = False) -> Bound:
    """Return the least time of one execution of a group.

    Args:
        work: the sum of the work of its calls.
        read: bytes that the group reads from outside.
        written: bytes that it writes for others.
        device: the device.
        is_observed: whether the bound is the observed one.
    """
    by = {**work.by_engine(), "dram": 0.0, "cache": 0.0}
    for name, nearer, rate in device.levels():
        moved = max(0.0, read - nearer) + max(0.0, written - nearer)
        if is_observed and name == "dram":
            moved = max(0.0, read + written - nearer)
        by[name] = max(by[name], moved / rate)
    if is_observed and (read or written or any(by.values())):
        by[KERNEL] = MARGIN * 1e-6 * (device.least_kernel_us or 0.0)
    binds = max(by, key=by.__getitem__)
    return Bound(by[binds], binds if by[binds] > 0 else "", by)
