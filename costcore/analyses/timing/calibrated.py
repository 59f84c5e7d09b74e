"""The calibrated time of groups of calls."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import compress
from math import fsum, hypot, sqrt
from typing import NamedTuple

from costcore.analyses.devices.device import Device
from costcore.analyses.timing.calibration import FAR, Estimate
from costcore.analyses.timing.calibration_table import KERNEL_CLOCK, Conditions, from_table
from costcore.analyses.timing.families import Site, site_of
from costcore.analyses.timing.group_time import GroupTime
from costcore.ir import Layer
from costcore.trace.trace import Trace

FLOATS = ("float", "bfloat", "complex")
"""How the names of dtypes begin that are not integers."""


class Calibrated(NamedTuple):
    """How sure the calibrated time of a run is.

    Attributes:
        error: the relative error of its sum; None without a time, or if it is unknown or more than 100 %.
        remarks: under which conditions the device was measured, and what is uncertain.
    """

    error: float | None
    remarks: tuple[str, ...]


class Estimated(NamedTuple):
    """A group of calls with its calibrated time.

    Attributes:
        group: the group.
        seconds: of all its executions.
        site: its place in the calibration.
        estimate: of one execution.
    """

    group: GroupTime
    seconds: float
    site: Site
    estimate: Estimate


def estimate_groups(groups: Sequence[GroupTime], trace: Trace, device: Device) -> Calibrated:
    """Set the ``seconds`` of every group by the calibration of a device, and return how sure they are.

    A product of a dtype of which no product was measured has no time. A group of several calls is estimated as its main
    call with the operations and bytes of the group.

    Raises:
        CostError: if the calibration is invalid.
    """
    calibration, conditions = from_table(device.calibration, device.name, device)
    if conditions.threads and device.units not in (None, conditions.threads):
        return Calibrated(None, (f"no calibrated time: measured with {_threads(conditions)}, not {device.units}",))
    estimates: list[Estimated] = []
    foreign: dict[str, None] = {}
    for group in groups:
        site = _site(group)
        dtypes = float_dtypes(group)
        if site.kind == "product" and (unknown := dtypes - calibration.dtypes):
            foreign |= dict.fromkeys(sorted(unknown))
            continue
        if dtypes:
            site = site._replace(dtype=dtype_of(group.main.layer, dtypes))
        estimate = calibration.estimate(site)
        group.seconds = max(estimate.seconds * group.times, group.bound_seconds)
        estimates.append(Estimated(group, group.seconds, site, estimate))
    if foreign:
        return Calibrated(None, (f"no calibrated time: measured in {conditions.dtype}, not {', '.join(foreign)}",))
    if not estimates:
        return Calibrated(None, ())
    error = error_of_sum(estimates, conditions.noise)
    return Calibrated(error, tuple(_remarks(estimates, error, conditions, trace)))


def _site(group: GroupTime) -> Site:
    """Return the family of the main call of a group, with the operations and bytes of the group."""
    sites = {id(record.call): site_of(record.call, record.cost) for record in group.records if record.cost is not None}
    main = sites[id(group.main)]
    if len(sites) == 1:
        return main
    flops = fsum(site.flops for site in sites.values())
    return main._replace(flops=flops, nbytes=(group.read + group.written) / group.times)


def float_dtypes(group: GroupTime) -> set[str]:
    """Return the dtypes in which a group computes: the floating ones, or those of products of integers."""
    tensors = [t for call in group.calls for t in (*call.layer.inputs.values(), *call.layer.outputs) if not t.is_scalar]
    floats = {tensor.dtype for tensor in tensors if tensor.dtype.startswith(FLOATS)}
    is_integer_product = not floats and any(cost.macs for cost in group.costs())
    return {tensor.dtype for tensor in tensors} if is_integer_product else floats


def dtype_of(layer: Layer, dtypes: Collection[str]) -> str:
    """Return the dtype in which a layer computes, of those that it has: that of its first input of one of them."""
    tensors = (*layer.inputs.values(), *layer.outputs)
    return next(tensor.dtype for tensor in tensors if tensor.dtype in dtypes)


def plus_minus(error: float | None) -> str:
    """Return the error as text: ``± 12%``."""
    return "without ±" if error is None else f"± {error:.0%}"


def error_of_sum(estimates: Iterable[Estimated], noise: float) -> float | None:
    """Return the relative error of a sum of estimates; None if one of them has none, or if it is more than 100 %.

    Calls of a family may all err as its mean call does, in the same direction. Beyond that, calls of other sizes err
    independently of each other, so that a run of equal calls errs as much as nine calls in ten do at most. So do
    families. No sum is surer than the sweep.
    """
    total = 0.0
    misses: dict[object, float] = {}
    for _, seconds, site, estimate in estimates:
        if estimate.error is None:
            return None
        total += seconds
        mean, most = estimate.error
        for what, error in ((site.family, mean), (site, sqrt(max(0.0, most**2 - mean**2)))):
            misses[what] = misses.get(what, 0.0) + seconds * error
    error = max(noise, hypot(*misses.values()) / total) if total else 0.0
    return error if error <= 1 else None


def _remarks(
    estimates: Sequence[Estimated], error: float | None, conditions: Conditions, trace: Trace
) -> Iterable[str]:
    of_traces = conditions.clock == KERNEL_CLOCK
    libraries = "" if of_traces else f"{conditions.framework} {conditions.versions.get(conditions.framework, '?')}"
    place = ", ".join(filter(None, (conditions.device, _threads(conditions), conditions.dtype, libraries)))
    how, times = f"measured on {conditions.date} on {place}", "the times of the sweep themselves"
    if of_traces:
        how, times = f"from traces of {place}, read on {conditions.date}", "the times of equal calls of a trace"
    yield f"calibrated: an estimate {plus_minus(error)}, {how}; {times} differed by {conditions.noise:.0%}"
    yield from _version_remarks(trace.run.frameworks, conditions)
    found = [each.estimate for each in estimates]
    unknown = [each.error is None for each in found]
    for text, chosen in (
        ("estimated from other operators", [each.distance is None for each in found]),
        ("far from the measured calls", [each.distance is not None and each.distance > FAR for each in found]),
        ("without ±, because nothing like it was measured", unknown),
    ):
        if any(chosen):
            operators = dict.fromkeys(each.group.main.layer.op for each in compress(estimates, chosen))
            yield f"{text} ({_part(estimates, chosen)} of the time): {', '.join(operators)}"
    if error is None and not any(unknown):
        yield "without ±, because it would be more than 100%"
    if any(len(each.group.calls) > 1 for each in estimates):
        yield "calibrated on single calls: the time of fused groups is approximate"


def _part(estimates: Sequence[Estimated], chosen: Sequence[bool]) -> str:
    """Return the share of the time of some of the estimates."""
    seconds = fsum(each.seconds for each in compress(estimates, chosen))
    total = fsum(each.seconds for each in estimates)
    return f"{seconds / total:.0%}" if seconds >= total / 100 else "less than 1%"


def _version_remarks(frameworks: Mapping[str, str], conditions: Conditions) -> Iterable[str]:
    """Yield what differs between the libraries of the run and those of the calibration."""
    measured = conditions.versions
    if conditions.framework not in frameworks:
        runtime = ", ".join(frameworks) or "another framework"
        yield f"calibrated with {conditions.framework}: a runtime of {runtime} has other kernels"
    if conditions.clock == KERNEL_CLOCK:
        return  # traces state no versions
    for name in frameworks.keys() & measured.keys():
        if frameworks[name] != measured[name]:
            yield f"calibrated with {name} {measured[name]}, but the run is of {name} {frameworks[name]}"


def _threads(conditions: Conditions) -> str:
    threads = conditions.threads
    return f"{threads} thread{'s' * (threads != 1)}" if threads else ""
