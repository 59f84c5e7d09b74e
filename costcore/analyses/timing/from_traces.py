"""Calibrate a device from profiler traces of runs on it: the device itself is not needed."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Mapping, Sequence
from math import fsum
from statistics import median
from typing import NamedTuple

from costcore._version import __version__
from costcore.analyses.devices.device import Device
from costcore.analyses.timing.bound import GroupTime
from costcore.analyses.timing.calibrated import KERNEL_CLOCK, Conditions, dtype_of, float_dtypes
from costcore.analyses.timing.calibration import Calibration, Curves, Point, errors_of_runs
from costcore.analyses.timing.families import OpSignature, site_of
from costcore.analyses.timing.times import Times, times_of
from costcore.errors import CostError
from costcore.trace.run import CallTime, Profile
from costcore.trace.trace import Trace

FEWEST = 8
"""Of fewer points nothing follows."""

BELOW = "below their bound"

WITHOUT_KERNEL = "without a kernel"

COPIED = "filled, or copied from or to the host"

SENT = "communication, which waits for others"

ROUNDED = "products of float32 that were rounded to TF32"


class FromTraces(NamedTuple):
    """A calibration from runs.

    Attributes:
        calibration: the points with their errors, each found from the points of the other runs.
        conditions: what was measured.
        left_out: how many calls were left out, by the reason.
    """

    calibration: Calibration
    conditions: Conditions
    left_out: Mapping[str, int]


def calibration_of(traces: Sequence[Trace], names: Sequence[str], device: Device) -> FromTraces:
    """Return the calibration of a device from runs on it.

    A point is the median of the calls of a run with equal sizes. Calls that took less than their bound are refused: of
    them, the device, the dtype or the time is not what the trace says.

    Args:
        traces: the runs, with what the profiler measured on the device.
        names: what they are, for the conditions.
        device: the device, with whose bounds they are compared.

    Raises:
        CostError: if a run has no times of a device, or if there are too few points.
    """
    seconds: dict[tuple[int, OpSignature], list[float]] = {}
    left_out: Counter[str] = Counter()
    for source, (trace, name) in enumerate(zip(traces, names, strict=True)):
        profile = trace.run.profile
        if profile is None or profile.clock != "device":
            raise CostError(f"{name} has no times of kernels. Record with the activity of the GPU.")
        for group in times_of(Times, trace, device).groups:
            _add_point(seconds, left_out, source, group, profile, _position(trace))
    points = [Point(site, median(each)) for (_, site), each in seconds.items()]
    if len(points) < FEWEST:
        raise CostError(f"the traces have {len(points)} different calls with kernels (at least {FEWEST})")
    sources = [source for source, _ in seconds]
    errors = errors_of_runs(points, sources, device)
    calibration = Calibration(points, errors, device.units or 0, curves=Curves(points, device))
    return FromTraces(calibration, _conditions(traces, names, device, seconds, calibration), dict(left_out))


def _position(trace: Trace) -> Mapping[str, int]:
    return {record.call.name: i for i, record in enumerate(trace)}


def _add_point(
    seconds: dict[tuple[int, OpSignature], list[float]],
    left_out: Counter[str],
    source: int,
    group: GroupTime,
    profile: Profile,
    positions: Mapping[str, int],
) -> None:
    call, cost = group.main, group.records[0].cost
    time = profile.calls.get(positions[call.name])
    assert cost is not None  # groups have a cost
    site = site_of(call, cost)
    reason = SENT if cost.mcomm else _refused(site, time, group, profile)
    if reason == "" and time is not None and site.kind != "free":
        dtypes = float_dtypes(group)
        dtype = dtype_of(call.layer, dtypes) if dtypes else ""
        seconds.setdefault((source, site._replace(dtype=dtype)), []).append(time.device / 1e9 / group.times)
    elif reason and site.kind != "free":
        left_out[reason] += 1


def _refused(site: OpSignature, time: CallTime | None, group: GroupTime, profile: Profile) -> str:
    if time is None or not time.device:
        return WITHOUT_KERNEL
    if 2 * time.aside > time.device:
        return COPIED
    if time.device / 1e9 < group.bound_seconds:
        return BELOW
    if profile.tf32 and site.kind == "product" and "float32" in float_dtypes(group):
        return ROUNDED
    return ""


def _conditions(
    traces: Sequence[Trace],
    names: Sequence[str],
    device: Device,
    seconds: Mapping[tuple[int, OpSignature], Sequence[float]],
    calibration: Calibration,
) -> Conditions:
    # Noise: how much equal calls of a run differ from their median.
    spread = [abs(x / median(each) - 1) for each in seconds.values() if len(each) > 2 for x in each]
    profiles = [trace.run.profile for trace in traces]
    where = next((profile.device for profile in profiles if profile is not None and profile.device), device.name)
    return Conditions(
        device=where,
        dtype=", ".join(sorted(calibration.dtypes)),
        threads=0,
        clock=KERNEL_CLOCK,
        date=datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat(),
        noise=median(spread) if spread else 0.0,
        sweep_seconds=fsum(fsum(each) for each in seconds.values()),
        units=device.units or 0,
        versions={"torch": "of the traces", "costcore": __version__},
        flags={"traces": ", ".join(names)},
    )
