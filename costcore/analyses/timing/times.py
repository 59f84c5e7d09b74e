"""The times of a run on a device, as data, and the calibration that they use.

:class:`Times` bounds groups and the run, at any dtype, and estimates usual times by a sweep or by traces of other runs.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from itertools import chain, compress
from math import fsum, hypot, sqrt
from os import PathLike
from statistics import median
from typing import Any, NamedTuple, TypeVar

from costcore._version import __version__
from costcore.analyses.devices.device import Device, devices, find_device
from costcore.analyses.timing.bound import (
    BOUNDS,
    LEAST,
    OBSERVED,
    Bound,
    GroupTime,
    Work,
    bound_of,
    bytes_from_outside,
    least_seconds,
    timed,
    values_of,
)
from costcore.analyses.timing.calibration import (
    FAR,
    KINDS,
    Calibration,
    Curves,
    Error,
    Errors,
    Estimate,
    Growth,
    OpSignature,
    Point,
    Rates,
    errors_of_runs,
    left_out_errors,
    site_of,
)
from costcore.analyses.topology.communication import Link, communications, links_by_group
from costcore.counting import Pricer, symbols_in
from costcore.errors import CostError, short_repr, subs_call, unknown
from costcore.ir import BITS, Cost, Layer, Tensor, frozen
from costcore.numbers import is_symbolic
from costcore.registry import calculators, specs
from costcore.trace.call import Call
from costcore.trace.interrupts import collector_off
from costcore.trace.run import LEVELS, CallTime, Profile
from costcore.trace.trace import CallCost, Trace


class Times:
    """The times of a run on a device; :class:`costcore.analyses.timing.time_report.TimeReport` adds tables and files.

    Args:
        trace: the captured run, with numbers for all sizes.
        device: the device.
        fusion: the level of fusion.
        tf32: the operators whose float32 products may be rounded to TF32.
        dtype: the dtype of weights and activations; None for those of the run.
        bound: ``least`` or ``observed``; see :mod:`costcore.analyses.timing.bound`.
        links: the links between processes, by group, as
            :func:`costcore.analyses.topology.communication.links_by_group` returns them.

    Attributes:
        trace: the run that is timed, at ``dtype``.
        groups: the groups of calls with the bound of each, in order of execution.
        missing: what groups need and the device file does not state; see :attr:`GroupTime.missing`.
        whole_run: the least time in which weights and inputs come from memory, each once. A group alone may find its
            weights in a cache; not all groups of a run can.
        least_seconds: the least time of the run as far as it is known, by what caches can hold in the course of it; see
            :mod:`costcore.analyses.timing.bound`. 0 if nothing of the device is known.
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


# Calibration from traces: the device itself is not needed.


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


# The run at another dtype.


FLOATING = ("float16", "bfloat16", "float32", "float64")
"""The dtypes of weights and activations to replace; packed and quantized ones stay."""

DTYPES = (*FLOATING, *(name for name in BITS if name.startswith("float8_")), "int8")
"""The dtypes to time a run at."""


def check_dtype(dtype: object) -> None:
    """Check that a run can be timed at a dtype.

    Raises:
        TypeError: if it is not a string.
        ValueError: if it is another dtype than :data:`DTYPES`.
    """
    if not isinstance(dtype, str):
        raise TypeError(f"dtype must be a string such as 'bfloat16' (got {dtype!r})")
    if dtype not in DTYPES:
        raise ValueError(unknown("dtype", dtype, DTYPES))


def retyped(trace: Trace, dtype: str) -> Trace:
    """Return the trace with weights and activations of this dtype; integers, masks and quantized tensors stay.

    The operations stay as they are. Bytes are those that the calculator gives for the new layer, if it gave those of
    the old one; otherwise they change as the sizes of all operands do.
    """
    change = _Retyper(trace, dtype)
    return Trace(tuple(map(change, trace)), trace.run)


class _Retyper:
    # Equal layers are changed once.

    def __init__(self, trace: Trace, dtype: str) -> None:
        self._dtype = dtype
        self._price = Pricer(calculators(), trace.run.layout)
        self._done: dict[tuple[int, int], tuple[Layer, Cost | None, Layer, Cost | None]] = {}

    def __call__(self, record: CallCost) -> CallCost:
        layer, cost = record.call.layer, record.cost
        key = id(layer), id(cost)
        if key not in self._done:
            self._done[key] = (layer, cost, *self._change(record.call, cost))
        new_layer, new_cost = self._done[key][2:]
        call = tuple.__new__(Call, (new_layer, *record.call[1:]))  # _replace takes as long as all the rest
        return tuple.__new__(CallCost, (call, new_cost, *record[2:]))

    def _change(self, call: Call, cost: Cost | None) -> tuple[Layer, Cost | None]:
        new = layer_at(call.layer, self._dtype)
        if cost is None or new is call.layer:
            return call.layer if cost is not None else new, cost
        old_price, new_price = self._price(call).cost, self._price(call._replace(layer=new)).cost
        if old_price is not None and new_price is not None and _bytes(old_price) == _bytes(cost):
            return new, cost._replace(mread=new_price.mread, mwrite=new_price.mwrite, mcomm=new_price.mcomm)
        read, written = _ratio(new.read, call.layer.read), _ratio(new.written, call.layer.written)
        return new, cost._replace(mread=round(cost.mread * read), mwrite=round(cost.mwrite * written))


def layer_at(layer: Layer, dtype: str) -> Layer:
    """Return the layer with floating-point tensors of this dtype; the same object if it has none of another."""
    inputs = {name: _tensor_at(tensor, dtype) for name, tensor in layer.inputs.items()}
    outputs = tuple(_tensor_at(tensor, dtype) for tensor in layer.outputs)
    return layer if inputs == layer.inputs and outputs == layer.outputs else replace_tensors(layer, inputs, outputs)


def replace_tensors(layer: Layer, inputs: dict[str, Tensor], outputs: tuple[Tensor, ...]) -> Layer:
    """Return the layer with other tensors."""
    return Layer(layer.op, frozen(inputs), outputs, layer.attrs)


def _tensor_at(tensor: Tensor, dtype: str) -> Tensor:
    return replace(tensor, dtype=dtype) if tensor.dtype in FLOATING else tensor


def _bytes(cost: Cost) -> tuple[object, object]:
    return cost.mread, cost.mwrite


def _ratio(new: object, old: object) -> float:
    if is_symbolic(new) or is_symbolic(old) or not old:
        return 1.0
    return new / old  # type: ignore[operator, no-any-return]


# Calibrated time of groups.


FLOATS = ("float", "bfloat", "complex")
"""Prefixes of the names of dtypes other than integers."""


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
    site: OpSignature
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
        site = _site_of_group(group)
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


def _site_of_group(group: GroupTime) -> OpSignature:
    # A fused group has the family of its main call, but all of its operations and bytes.
    sites = {id(record.call): site_of(record.call, record.cost) for record in group.records if record.cost is not None}
    main = sites[id(group.main)]
    if len(sites) == 1:
        return main
    flops = fsum(site.flops for site in sites.values())
    return main._replace(flops=flops, nbytes=(group.read + group.written) / group.times)


def float_dtypes(group: GroupTime) -> set[str]:
    """Return the dtypes in which a group computes: floating dtypes, or for products of integers their dtypes."""
    tensors = [t for call in group.calls for t in (*call.layer.inputs.values(), *call.layer.outputs) if not t.is_scalar]
    floats = {tensor.dtype for tensor in tensors if tensor.dtype.startswith(FLOATS)}
    is_integer_product = not floats and any(cost.macs for cost in group.costs())
    return {tensor.dtype for tensor in tensors} if is_integer_product else floats


def dtype_of(layer: Layer, dtypes: Collection[str]) -> str:
    """Return the dtype in which a layer computes: that of its first input with one of ``dtypes``."""
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
            yield f"{text} ({_share_of_time(estimates, chosen)} of the time): {', '.join(operators)}"
    if error is None and not any(unknown):
        yield "without ±, because it would be more than 100%"
    if any(len(each.group.calls) > 1 for each in estimates):
        yield "calibrated on single calls: the time of fused groups is approximate"


def _share_of_time(estimates: Sequence[Estimated], chosen: Sequence[bool]) -> str:
    seconds = fsum(each.seconds for each in compress(estimates, chosen))
    total = fsum(each.seconds for each in estimates)
    return f"{seconds / total:.0%}" if seconds >= total / 100 else "less than 1%"


def _version_remarks(frameworks: Mapping[str, str], conditions: Conditions) -> Iterable[str]:
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


# Calibrations as a table of device files.


FORMAT = 2
"""The version of families and coordinates."""

FAMILY_KEYS: Mapping[int, Sequence[str]] = {
    1: ("name", "kind", "error", "points"),
    FORMAT: ("name", "kind", "errors", "points"),
}
"""The keys of a family by format. The errors of format 1 do not depend on the distance: they are found again."""

OTHER_FAMILIES: Mapping[int, str] = {1: "error_of_other_families", FORMAT: "errors_of_other_families"}
"""The key of the errors of families without points."""

KERNEL_CLOCK = "kernel"
"""The clock of times of kernels alone, as traces have them."""

MOST, LEAST_SECONDS = 1e30, 1e-15
"""The largest number and the shortest time of a calibration; outside, estimates overflow."""

MOST_COORDINATE = 200
"""The largest coordinate of a point: most are binary logarithms of sizes."""


class CalibrationError(CostError):
    """An invalid calibration; the message includes the device and the key."""


@dataclass(frozen=True)
class Conditions:
    """Under which conditions a sweep was measured.

    Attributes:
        device: name of the processor, as the machine reports it.
        dtype: the dtype of weights and activations.
        threads: number of threads of a CPU; 0 for other devices.
        clock: what was measured: ``cpu_time`` of one thread, ``wall`` time, ``events`` on the device, or
            ``kernel``: of kernels alone, as traces have it.
        date: the day, as ``2026-11-22``.
        noise: by how much the time of the same chains differed between start, middle and end of the sweep.
        sweep_seconds: how long the sweep took.
        clock_mhz: clock of the processor at the end of the sweep; 0 if unknown.
        units: multiprocessors of a GPU; 0 if unknown.
        versions: versions of the libraries, by name.
        flags: settings that choose kernels, by name.
    """

    device: str
    dtype: str
    threads: int
    clock: str
    date: str
    noise: float
    sweep_seconds: float
    clock_mhz: float = 0.0
    units: int = 0
    versions: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, str] = field(default_factory=dict)

    @property
    def framework(self) -> str:
        """The framework that ran the sweep, ``torch``: the first of the versions that is not costcore's."""
        return next((name for name in self.versions if name != "costcore"), "an unknown framework")


def to_table(calibration: Calibration, conditions: Conditions) -> dict[str, Any]:
    """Return the table that :func:`from_table` reads."""
    by_family: dict[tuple[str, str, str], list[Point]] = {}
    for point in calibration.points:
        by_family.setdefault((point.site.family, point.site.dtype, point.site.kind), []).append(point)
    families = [
        {
            "name": name,
            "kind": kind,
            **({"dtype": dtype} if dtype else {}),
            "errors": [
                [_rounded(distance), *map(_rounded, error)]
                for distance, error in calibration.errors.families[points[0].site.key]
            ],
            "points": [_row(each) for each in points],
        }
        for (name, dtype, kind), points in sorted(by_family.items())
    ]
    return {
        "format": FORMAT,
        **asdict(conditions),
        OTHER_FAMILIES[FORMAT]: {kind: _rounded(error) for kind, error in calibration.errors.kinds.items()},
        "family": families,
    }


def _row(point: Point) -> list[float]:
    site = point.site
    return [_rounded(value) for value in (point.seconds, site.flops, site.nbytes, *site.axes)]


def _rounded(value: float) -> float:
    # Keeps files small.
    return float(f"{value:.6g}")


def from_table(table: Mapping[str, Any], source: str, device: Device | None = None) -> tuple[Calibration, Conditions]:
    """Return the calibration in a device file.

    Args:
        table: the table ``[calibration]``.
        source: name of the device or file, for messages.
        device: the device, whose published rates times of kernels need.

    Raises:
        CalibrationError: if it is invalid.
    """
    return _Reader(source, device).read(table)


class _Reader:
    def __init__(self, source: str, device: Device | None) -> None:
        self._source, self._device = source, device

    def read(self, table: Mapping[str, Any]) -> tuple[Calibration, Conditions]:
        version = table.get("format")
        if not isinstance(version, int) or version not in FAMILY_KEYS:
            raise self._error(
                f"format {version!r} is that of another version (expected {FORMAT}). Calibrate the device again."
            )
        names = [each.name for each in fields(Conditions)]
        expected = ("format", *names, OTHER_FAMILIES[version], "family")
        if wrong := [key for key in table if key not in expected]:
            raise self._error(unknown("key", wrong, expected))
        conditions = Conditions(**{name: self._condition(table, name) for name in names})
        growths: dict[str, Growth] = {}
        points: list[Point] = []
        for i, family in enumerate(self._list(table, "family", "")):
            place = f"family {i + 1}: "
            points += self._family(family, place, FAMILY_KEYS[version])
            if version == FORMAT:
                growths[points[-1].site.key] = self._growth(family, place)
        if not any(point.site.kind != "free" for point in points):
            raise self._error("there are no measured points")
        if version == FORMAT:
            errors = Errors(growths, self._errors_of_kinds(table.get(OTHER_FAMILIES[FORMAT])))
        else:
            errors = left_out_errors(points, Rates.of(points, conditions.units))
        if conditions.clock != KERNEL_CLOCK:
            return Calibration(points, errors, conditions.units, conditions.dtype), conditions
        if self._device is None:
            raise self._error("times of kernels need the rates of their device")
        return Calibration(points, errors, conditions.units, curves=Curves(points, self._device)), conditions

    def _condition(self, table: Mapping[str, Any], name: str) -> Any:
        kind = Conditions.__dataclass_fields__[name].type
        if kind == "float":
            return self._number(table, name, "")
        expected = {"str": str, "int": int}.get(str(kind), Mapping)
        value = table.get(name)
        if not isinstance(value, expected) or isinstance(value, bool):
            words = {str: "a text", int: "a whole number", Mapping: "a table"}
            raise self._error(f"{name} must be {words[expected]} (got {short_repr(value)})")
        return value

    def _growth(self, family: Mapping[str, Any], place: str) -> Growth:
        rows = [self._error_row(row, place) for row in self._list(family, "errors", place)]
        distances = [row[0] for row in rows]
        if distances != sorted({*distances}):
            raise self._error(f"{place}errors must be of rising distances (got {short_repr(distances)})")
        return tuple((row[0], Error(*row[1:])) for row in rows)

    def _errors_of_kinds(self, table: Any) -> dict[str, float]:
        place = f"{OTHER_FAMILIES[FORMAT]}: "
        if not isinstance(table, Mapping):
            raise self._error(f"{place}expected a table (got {short_repr(table)})")
        if wrong := [kind for kind in table if kind not in KINDS]:
            raise self._error(f"{place}{unknown('kind', wrong, KINDS)}")
        return {kind: self._number(table, kind, place) for kind in table}

    def _error_row(self, row: Any, place: str) -> list[float]:
        if not isinstance(row, Sequence) or len(row) != 3 or not all(map(_is_number, row)):
            raise self._error(f"{place}errors must be numbers [distance, mean, most] (got {short_repr(row)})")
        return [float(value) for value in row]

    def _family(self, table: Any, place: str, keys: Sequence[str]) -> list[Point]:
        if not isinstance(table, Mapping) or sorted({*table} - {"dtype"}) != sorted(keys):
            raise self._error(f"{place}expected a table with {', '.join(keys)} (got {short_repr(table)})")
        name, kind, dtype = table["name"], table["kind"], table.get("dtype", "")
        if not isinstance(dtype, str) or dtype not in ("", *BITS):
            raise self._error(f"{place}{unknown('dtype', dtype, BITS)}")
        if not isinstance(name, str) or kind not in KINDS:
            raise self._error(f"{place}{unknown('kind', kind, KINDS)}")
        rows = [self._numbers(row, place) for row in self._list(table, "points", place)]
        if not rows or any(each > MOST_COORDINATE for row in rows for each in row[3:]):
            raise self._error(f"{place}{name!r} needs points, whose coordinates are at most {MOST_COORDINATE}")
        if len({len(row) for row in rows}) > 1:
            raise self._error(f"{place}all points of {name!r} need equally many coordinates")
        return [Point(OpSignature(name, kind, tuple(row[3:]), row[1], row[2], dtype), row[0]) for row in rows]

    def _numbers(self, row: Any, place: str) -> list[float]:
        if not isinstance(row, Sequence) or len(row) < 3 or not all(map(_is_number, row)) or row[0] < LEAST_SECONDS:
            raise self._error(f"{place}a point must be [seconds, flops, bytes, coordinates …] (got {short_repr(row)})")
        return [float(value) for value in row]

    def _list(self, table: Mapping[str, Any], key: str, place: str) -> Iterable[Any]:
        value = table.get(key)
        if not isinstance(value, list):
            raise self._error(f"{place}{key} must be a list (got {short_repr(value)})")
        return value

    def _number(self, table: Mapping[str, Any], key: str, place: str) -> float:
        value = table.get(key)
        if not _is_number(value):
            raise self._error(f"{place}{key} must be a number of at least 0 (got {short_repr(value)})")
        return float(value)  # type: ignore[arg-type]

    def _error(self, problem: str) -> CalibrationError:
        return CalibrationError(f"{self._source}: calibration: {problem}")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= MOST


# Options of ``report.time``.


AnyTimes = TypeVar("AnyTimes", bound=Times)

TF32_OPERATORS = ("conv", "matmul")
"""The operators named by ``tf32``; ``matmul`` are all products except convolutions."""


def times_of(
    kind: type[AnyTimes],
    trace: Trace,
    device: str | PathLike[str] | Device,
    dtype: str | None = None,
    fusion: str = "none",
    cores: int | None = None,
    tf32: Collection[str] | None = None,
    links: object = None,
    bound: str = LEAST,
) -> AnyTimes:
    """Return the times of a run on a device as an object of this class; options as for :meth:`costcore.Report.time`."""
    chosen = find_device(device)
    by_group = {} if links is None else links_by_group(links)
    if dtype is not None:
        check_dtype(dtype)
    if fusion not in LEVELS:
        raise ValueError(unknown("level of fusion", fusion, LEVELS))
    if cores is not None:
        chosen = _part_of(chosen, cores)
    if bound not in BOUNDS:
        raise ValueError(unknown("bound", bound, BOUNDS))
    if bound == OBSERVED and chosen.least_kernel_us is None:
        seen = ", ".join(name for name, each in devices().items() if each.least_kernel_us is not None)
        raise CostError(
            f"no kernel was seen on {chosen.name}: bound='observed' is known of {seen}, and of a file of your own"
        )
    if trace.run.unit != "FLOPs":
        raise CostError(f"FLOPs of this report are {trace.run.unit}. Time the report of costcore's own convention.")
    if trace.run.fusion is not None:
        level = trace.run.fusion.level
        raise CostError(
            f"the bytes of this report are those after fusion. Time the report that was fused, with fusion={level!r}."
        )
    _check_numbers(trace)
    with collector_off():
        return kind(trace, chosen, fusion, _tf32(trace, tf32), dtype, by_group, bound)


def _check_numbers(trace: Trace) -> None:
    # Equal layers are checked once.
    distinct = {(id(call.layer), id(cost), call.times): record for record in trace for call, cost, *_ in (record,)}
    if symbols := sorted(str(symbol) for symbol in symbols_in(Trace(tuple(distinct.values()), trace.run))):
        raise CostError(f"time needs numbers for the symbolic sizes. Substitute them first: {subs_call(symbols)}")


def _part_of(device: Device, cores: int) -> Device:
    if isinstance(cores, bool) or not isinstance(cores, int):
        raise TypeError(f"cores must be a whole number (got {cores!r})")
    if device.kind != "cpu":
        raise ValueError(f"cores applies to a CPU ({device.name} is a {device.kind})")
    return device.with_units(cores)


def _tf32(trace: Trace, tf32: Collection[str] | None) -> tuple[str, ...]:
    # Default: what the profile shows, or what all frameworks of the run allow.
    if tf32 is None and trace.run.profile is not None and trace.run.profile.tf32:
        return TF32_OPERATORS
    if tf32 is None:
        defaults = [spec.tf32 for spec in specs().values() if spec.framework in trace.run.frameworks]
        return tuple(name for name in TF32_OPERATORS if all(name in default for default in defaults))
    if isinstance(tf32, str) or not isinstance(tf32, Collection):
        raise TypeError(f"tf32 must be a set of operators such as {{'conv'}} (got {tf32!r})")
    if wrong := [name for name in tf32 if name not in TF32_OPERATORS]:
        raise ValueError(unknown("operator of tf32", wrong, TF32_OPERATORS))
    return tuple(name for name in TF32_OPERATORS if name in tf32)
