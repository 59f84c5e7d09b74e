"""The calibrated time of groups of calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import fsum
from typing import NamedTuple

from costcore.devices.device import Device
from costcore.timing.calibration import Estimate
from costcore.timing.calibration_table import Conditions, from_table
from costcore.timing.families import Site, site_of
from costcore.timing.group_time import GroupTime
from costcore.trace.trace import Trace

FLOATS = ("float", "bfloat", "complex")
"""How the names of dtypes begin that are not integers."""


class Calibrated(NamedTuple):
    """How sure the calibrated time of a run is.

    Attributes:
        error: the relative error of its sum, if all its calls erred in the same direction; None without a time.
        remarks: under which conditions the device was measured, and what is uncertain.
    """

    error: float | None
    remarks: tuple[str, ...]


def estimate_groups(groups: Sequence[GroupTime], trace: Trace, device: Device) -> Calibrated:
    """Set the ``seconds`` of every group by the calibration of a device, and return how sure they are.

    A group of another dtype than that of the calibration has no time. A group of several calls is estimated as its main
    call with the operations and bytes of the group.

    Raises:
        CostError: if the calibration is invalid.
    """
    calibration, conditions = from_table(device.calibration, device.name)
    if conditions.threads and device.units not in (None, conditions.threads):
        return Calibrated(None, (f"no calibrated time: measured with {_threads(conditions)}, not {device.units}",))
    estimates: list[tuple[GroupTime, Estimate]] = []
    foreign: dict[str, None] = {}
    for group in groups:
        if dtypes := _float_dtypes(group) - {conditions.dtype}:
            foreign |= dict.fromkeys(sorted(dtypes))
            continue
        estimate = calibration.estimate(_site(group))
        group.seconds = max(estimate.seconds * group.times, group.bound_seconds)
        estimates.append((group, estimate))
    if foreign:
        return Calibrated(None, (f"no calibrated time: measured in {conditions.dtype}, not {', '.join(foreign)}",))
    if not estimates:
        return Calibrated(None, ())
    return Calibrated(_error(estimates), tuple(_remarks(estimates, conditions, trace)))


def _site(group: GroupTime) -> Site:
    """Return the family of the main call of a group, with the operations and bytes of the group."""
    sites = {id(record.call): site_of(record.call, record.cost) for record in group.records if record.cost is not None}
    main = sites[id(group.main)]
    if len(sites) == 1:
        return main
    flops = fsum(site.flops for site in sites.values())
    return main._replace(flops=flops, nbytes=(group.read + group.written) / group.times)


def _float_dtypes(group: GroupTime) -> set[str]:
    """Return the dtypes in which a group computes: the floating ones, or those of products of integers."""
    tensors = [t for call in group.calls for t in (*call.layer.inputs.values(), *call.layer.outputs) if not t.is_scalar]
    floats = {tensor.dtype for tensor in tensors if tensor.dtype.startswith(FLOATS)}
    is_integer_product = not floats and any(cost.macs for cost in group.costs())
    return {tensor.dtype for tensor in tensors} if is_integer_product else floats


def _error(estimates: Iterable[tuple[GroupTime, Estimate]]) -> float:
    """Return the relative error of a sum, if all estimates err in the same direction."""
    parts = [(group.seconds or 0.0, estimate.error) for group, estimate in estimates]
    total = fsum(seconds for seconds, _ in parts)
    return fsum(seconds * error for seconds, error in parts) / total if total else 0.0


def _remarks(estimates: Sequence[tuple[GroupTime, Estimate]], conditions: Conditions, trace: Trace) -> Iterable[str]:
    libraries = f"{conditions.framework} {conditions.versions.get(conditions.framework, '?')}"
    place = ", ".join(filter(None, (conditions.device, _threads(conditions), conditions.dtype, libraries)))
    yield (
        f"calibrated: an estimate ± {_error(estimates):.0%}, measured on {conditions.date} on {place}; "
        f"the times of the sweep themselves differed by {conditions.noise:.0%}"
    )
    yield from _version_remarks(trace.run.frameworks, conditions)
    unseen = {group.main.layer.op: None for group, estimate in estimates if not estimate.is_seen}
    if unseen:
        seconds = fsum(group.seconds or 0.0 for group, estimate in estimates if not estimate.is_seen)
        total = fsum(group.seconds or 0.0 for group, _ in estimates)
        part = f"{seconds / total:.0%}" if seconds >= total / 100 else "less than 1%"
        yield f"estimated from other operators ({part} of the time): {', '.join(unseen)}"
    if any(len(group.calls) > 1 for group, _ in estimates):
        yield "calibrated on single calls: the time of fused groups is approximate"


def _version_remarks(frameworks: Mapping[str, str], conditions: Conditions) -> Iterable[str]:
    """Yield what differs between the libraries of the run and those of the calibration."""
    measured = conditions.versions
    if conditions.framework not in frameworks:
        runtime = ", ".join(frameworks) or "another framework"
        yield f"calibrated with {conditions.framework}: a runtime of {runtime} has other kernels"
    for name in frameworks.keys() & measured.keys():
        if frameworks[name] != measured[name]:
            yield f"calibrated with {name} {measured[name]}, but the run is of {name} {frameworks[name]}"


def _threads(conditions: Conditions) -> str:
    threads = conditions.threads
    return f"{threads} thread{'s' * (threads != 1)}" if threads else ""
