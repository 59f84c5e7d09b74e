"""The least time that a group of calls takes on a device, whatever kernel computes it.

::

    bound = max(seconds of each engine,
                max over places from which bytes come:
                    (max(0, read - C) + max(0, written - C)) / bandwidth of the place)

``C`` is the size of what lies nearer to the engines: so much of what is read can already lie there, and so much of what
is written can stay there. Operations run at the highest clock on all units; engines and memory work at the same time.
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
        binds: what it comes from: ``matrix``, ``vector``, ``special``, ``dram`` or ``cache``; empty if it is 0.
        by: the seconds that each of them needs at least.
    """

    seconds: float
    binds: str
    by: Mapping[str, float]


def bound_of(work: Work, read: float, written: float, device: Device) -> Bound:
    """Return the least time of one execution of a group.

    Args:
        work: the sum of the work of its calls.
        read: bytes that the group reads from outside.
        written: bytes that it writes for others.
        device: the device.
    """
    by = {**work.by_engine(), "dram": 0.0, "cache": 0.0}
    for name, nearer, rate in device.levels():
        by[name] = max(by[name], (max(0.0, read - nearer) + max(0.0, written - nearer)) / rate)
    binds = max(by, key=by.__getitem__)
    return Bound(by[binds], binds if by[binds] > 0 else "", by)
