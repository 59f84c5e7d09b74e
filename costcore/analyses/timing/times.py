"""The times of a run on a device as data."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from itertools import chain
from math import fsum

from costcore.analyses.devices.device import Device
from costcore.analyses.timing.bound import LEAST, OBSERVED, Bound, bound_of
from costcore.analyses.timing.calibrated import Calibrated, estimate_groups, plus_minus
from costcore.analyses.timing.group_time import GroupTime, timed
from costcore.analyses.timing.residency import bytes_from_outside, least_seconds, values_of
from costcore.analyses.timing.retyped import retyped
from costcore.analyses.timing.work import Work
from costcore.analyses.topology.communication import communications
from costcore.analyses.topology.link import Link
from costcore.trace.trace import Trace


class Times:
    """The times of a run on a device; :class:`costcore.analyses.timing.time_report.TimeReport` adds tables and files.

    Args:
        trace: the captured run, with numbers for all sizes.
        device: the device.
        fusion: the level of fusion.
        tf32: the operators whose float32 products may be rounded to TF32.
        dtype: the dtype of weights and activations; None for those of the run.
        bound: ``least`` or ``observed``; see :mod:`costcore.analyses.timing.bound`.
        links: the links between processes, by group; see :func:`costcore.analyses.topology.link.links_by_group`.

    Attributes:
        trace: the run that is timed, at ``dtype``.
        groups: the groups of calls with the bound of each, in order of execution.
        missing: what groups need and the device file does not state; see :attr:`GroupTime.missing`.
        whole_run: the least time in which weights and inputs come from memory, each once. A group alone may find its
            weights in a cache; not all groups of a run can.
        least_seconds: the least time of the run as far as it is known, by what caches can hold in the course of it; see
            :mod:`costcore.analyses.timing.residency`. 0 if nothing of the device is known.
        beyond_groups: how much longer the whole run takes at least than its groups; 0 if their bounds add up to more.
        calibrated: how sure the calibrated time is; None if the device was never calibrated.
        communications: what each group of processes communicates, and how long that takes over its link. It is not part
            of the bound, because a program may compute meanwhile.
    """

    def __init__(
        self,
        trace: Trace,
        device: Device,
        fusion: str,
        tf32: Collection[str],
        dtype: str | None = None,
        links: Mapping[str, Link] | None = None,
        bound: str = LEAST,
    ) -> None:
        self.trace = trace if dtype is None else retyped(trace, dtype)
        self.device = device
        self.fusion = fusion
        self.tf32 = tuple(tf32)
        self.dtype = dtype
        self.bound_kind = bound
        self.groups: list[GroupTime] = timed(self.trace, fusion, device, tf32, bound == OBSERVED)
        self.missing = frozenset(chain.from_iterable(group.missing for group in self.groups))
        values = [*values_of(self.trace)]
        self.whole_run: Bound = bound_of(Work(), bytes_from_outside(values), 0, device)
        in_groups = fsum(group.bound_seconds for group in self.groups)
        by_residency = least_seconds(self.trace, values, self.groups, fusion, device)
        self.least_seconds = max(in_groups, self.whole_run.seconds, by_residency)
        self.beyond_groups = self.least_seconds - in_groups
        self.communications = communications(self.trace, links or {})
        self.calibrated: Calibrated | None = None
        if device.calibration:
            self.calibrated = estimate_groups(self.groups, self.trace, device)

    def __repr__(self) -> str:
        seconds = "" if self.seconds is None else f", calibrated {self.seconds:.4g} s {plus_minus(self.error)}"
        partial = "" if self.status == "complete" else f", {self.status}"
        least = "unknown" if self.bound_seconds is None else f"{self.bound_seconds:.4g} s"
        return f"<{type(self).__name__}: {self.device.name}, at least {least}{seconds}{partial}>"

    @property
    def bound_seconds(self) -> float | None:
        """The least time of the run: the bounds of all groups, or that of the whole run if it is larger.

        None if the device file states nothing that the run needs, or all that it does is free there: that is not a time
        of 0.
        """
        if self.least_seconds or not (self.missing or self.device.unbounded):
            return self.least_seconds
        return None if self.missing or any(group.read + group.written for group in self.groups) else 0.0

    def limit(self, group: GroupTime) -> float | None:
        """Return the bound of a group, or the time in which main memory moves all of its bytes if that is longer.

        A cache may hold some of them, so a group can be faster. None if the bound is unknown.
        """
        if not group.is_bounded:
            return None
        rate = self.device.memory.dram_gbs
        moved = 0.0 if rate is None else (group.read + group.written) / (1e9 * rate)
        return max(group.bound_seconds, moved)

    @property
    def communication_seconds(self) -> float | None:
        """How long collectives take if nothing overlaps them: 0 without any, None if the link of a group is unknown."""
        times = [each.seconds for each in self.communications if each.seconds is not None]
        return fsum(times) if len(times) == len(self.communications) else None

    @cached_property
    def seconds(self) -> float | None:
        """The calibrated time of the run; None if the device was never calibrated."""
        times = [group.seconds for group in self.groups if group.seconds is not None]
        return fsum(times) if self.groups and len(times) == len(self.groups) else None

    @property
    def error(self) -> float | None:
        """The relative error of the calibrated time, 0.1 for ± 10 %; None if it is unknown or more than 100 %.

        It grows with the distance of calls from those that the sweep measured; ``calibrated.remarks`` name them.
        """
        return None if self.calibrated is None else self.calibrated.error

    @property
    def status(self) -> str:
        """``complete``, ``assumed`` or ``partial``, as the status of the report: a call without a cost has no time.

        It is also ``partial`` if the device file does not state all that the run needs, unless it is calibrated.
        """
        is_unknown = self.missing or self.bound_seconds is None
        return "partial" if is_unknown and self.seconds is None else self.trace.status
