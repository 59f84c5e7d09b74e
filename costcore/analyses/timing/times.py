"""The times of a run on a device, as data.

:class:`Times` has the bounds of groups and of the run at a dtype, and calibrated times if the device file has a
calibration. :func:`times_of` checks the options of ``report.time``. The module also changes the dtype of a run, and
calibrates a device from profiler traces.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from math import fsum
from os import PathLike
from statistics import median
from typing import NamedTuple, TypeVar

from costcore._version import __version__
from costcore.analyses.devices.device import (
    TF32,
    Communication,
    Device,
    Link,
    communications,
    devices,
    find_device,
    links_by_group,
)
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
from costcore.analyses.timing.calibrated import (
    KERNEL_CLOCK,
    Calibrated,
    Conditions,
    dtype_of,
    estimate_groups,
    float_dtypes,
    plus_minus,
)
from costcore.analyses.timing.calibration import Calibration, Curves, OpSignature, Point, errors_of_runs, signature_of
from costcore.counting import Pricer, symbols_in
from costcore.errors import CostError, subs_call, unknown
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
        trace: the captured run without symbolic sizes.
        device: the device.
        fusion: the level of fusion.
        tf32: the operators whose float32 products may be rounded to TF32.
        dtype: the dtype of weights and activations; None for the dtypes of the run.
        bound: ``least`` or ``observed``; see :mod:`costcore.analyses.timing.bound`.
        links: the links between processes, by group, as
            :func:`costcore.analyses.devices.device.links_by_group` returns them.

    Attributes:
        trace: the run that is timed, at ``dtype``.
        groups: the groups of calls with their bounds, in order of execution.
        missing: rates that groups need and the device file lacks; see :attr:`GroupTime.missing`.
        calibrated: the certainty of the calibrated time; None if the device is not calibrated.
        communications: bytes and seconds of the collectives of each process group. They are not part of the bound,
            because a program may compute at the same time.
        without_effect: a sentence for each option that was given and changes nothing.
    """

    trace: Trace
    tf32: tuple[str, ...]
    missing: frozenset[str]
    without_effect: Sequence[str] = ()

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
        self.communications: list[Communication] = communications(self.trace, links or {})
        self.calibrated: Calibrated | None = None
        if device.calibration:
            self.calibrated = estimate_groups(self.groups, self.trace, device)

    @cached_property
    def _values(self) -> list[tuple[Sequence[tuple[int, int]], Sequence[int]]]:
        return [*values_of(self.trace)]

    @cached_property
    def whole_run(self) -> Bound:
        """The bound from reading weights and inputs from memory once.

        A cache may hold the weights of a single group, but not the weights of all groups.
        """
        return bound_of(Work(), bytes_from_outside(self._values), 0, self.device)

    @cached_property
    def _group_seconds(self) -> float:
        return fsum(group.bound_seconds for group in self.groups)

    @cached_property
    def least_seconds(self) -> float:
        """The minimum time of the run by all known rates, including repeated reads of values that caches cannot hold.

        See :mod:`costcore.analyses.timing.bound`. It is 0 if no rate of the device is known.
        """
        by_residency = least_seconds(self.trace, self._values, self.groups, self.fusion, self.device)
        return max(self._group_seconds, self.whole_run.seconds, by_residency)

    @property
    def beyond_groups(self) -> float:
        """The seconds by which the bound of the whole run exceeds the sum of its groups; at least 0."""
        return self.least_seconds - self._group_seconds

    @property
    def beyond_binds(self) -> str:
        """The bottleneck of :attr:`beyond_groups`: the memory that supplies weights, inputs and evicted values."""
        return self.whole_run.binds or "dram"  # without inputs, evicted values are still read again

    def __repr__(self) -> str:
        seconds = "" if self.seconds is None else f", calibrated {self.seconds:.4g} s {plus_minus(self.error)}"
        partial = "" if self.status == "complete" else f", {self.status}"
        least = "unknown" if self.bound_seconds is None else f"{self.bound_seconds:.4g} s"
        return f"<{type(self).__name__}: {self.device.name}, at least {least}{seconds}{partial}>"

    @property
    def bound_seconds(self) -> float | None:
        """The minimum time of the run: the sum of the bounds of all groups, or the bound of the whole run if larger.

        None if the device file has no rate that limits the run; 0 would be wrong.
        """
        if self.least_seconds or not (self.missing or self.device.unbounded):
            return self.least_seconds
        return None if self.missing or any(group.read + group.written for group in self.groups) else 0.0

    def limit(self, group: GroupTime) -> float | None:
        """Return the bound of a group or, if longer, the time to move all its bytes from and to main memory.

        The group can be faster if a cache holds some of its bytes. None if the bound is unknown.
        """
        if not group.is_bounded:
            return None
        rate = self.device.memory.dram_gbs
        moved = 0.0 if rate is None else (group.read + group.written) / (1e9 * rate)
        return max(group.bound_seconds, moved)

    @property
    def communication_seconds(self) -> float | None:
        """The seconds of collectives without overlap; 0 without collectives, None if the link of a group is unknown."""
        times = [each.seconds for each in self.communications if each.seconds is not None]
        return fsum(times) if len(times) == len(self.communications) else None

    @cached_property
    def seconds(self) -> float | None:
        """The calibrated time of the run; None if the device is not calibrated."""
        times = [group.seconds for group in self.groups if group.seconds is not None]
        return fsum(times) if self.groups and len(times) == len(self.groups) else None

    @property
    def error(self) -> float | None:
        """The relative error of the calibrated time, 0.1 for ± 10 %; None if it is unknown or above 100 %.

        It grows with the distance of calls from measured calls; ``calibrated.remarks`` names calls that are far.
        """
        return None if self.calibrated is None else self.calibrated.error

    @property
    def status(self) -> str:
        """The status of the report, ``complete``, ``assumed`` or ``partial``: calls without a cost have no time.

        It is also ``partial`` if the device file lacks rates that the run needs, unless it is calibrated.
        """
        is_unknown = self.missing or self.bound_seconds is None
        return "partial" if is_unknown and self.seconds is None else self.trace.status


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
            f"bound='observed' is not available for {chosen.name} (available for {seen}, or a device file of your own)"
        )
    if trace.run.unit != "FLOPs":
        raise CostError(f"this report counts {trace.run.unit}. Call time() on the report in costcore's own convention.")
    if trace.run.fusion is not None:
        level = trace.run.fusion.level
        raise CostError(f"this report is already fused. Call time() on the original report, with fusion={level!r}.")
    _check_numbers(trace)
    with collector_off():
        found = kind(trace, chosen, fusion, _tf32(trace, tf32), dtype, by_group, bound)
    found.without_effect = [*_without_effect(found, tf32, by_group)]
    return found


def _without_effect(times: Times, tf32: Collection[str] | None, links: Mapping[str, Link]) -> Iterator[str]:
    if tf32 and TF32 not in times.device.peak.get("matrix", {}):
        yield f"--tf32 {','.join(times.tf32)} changes nothing: {times.device.name} has no TF32"
    if links and not times.communications:
        yield "--links changes nothing: the run sends nothing to other ranks. One rank of several: --mesh, --plan"


def _check_numbers(trace: Trace) -> None:
    # Check equal layers only once.
    distinct = {(id(record.call.layer), id(record.cost), record.call.times): record for record in trace}
    if symbols := sorted(str(symbol) for symbol in symbols_in(Trace(tuple(distinct.values()), trace.run))):
        raise CostError(f"time needs numbers for the symbolic sizes. Substitute them first: {subs_call(symbols)}")


def _part_of(device: Device, cores: int) -> Device:
    if isinstance(cores, bool) or not isinstance(cores, int):
        raise TypeError(f"cores must be a whole number (got {cores!r})")
    if device.kind != "cpu":
        raise ValueError(f"cores applies to a CPU ({device.name} is a {device.kind})")
    return device.with_units(cores)


def _tf32(trace: Trace, tf32: Collection[str] | None) -> tuple[str, ...]:
    # Default: the operators in the profile, or those for which all frameworks of the run allow TF32.
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


# The run at another dtype.


FLOATING = ("float16", "bfloat16", "float32", "float64")
"""The dtypes that are replaced; packed and quantized tensors keep their dtype."""

DTYPES = (*FLOATING, *(name for name in BITS if name.startswith("float8_")), "int8")
"""The dtypes at which a run can be timed."""


def check_dtype(dtype: object) -> None:
    """Check that a run can be timed at a dtype.

    Raises:
        TypeError: if it is not a string.
        ValueError: if it is not in :data:`DTYPES`.
    """
    if not isinstance(dtype, str):
        raise TypeError(f"dtype must be a string such as 'bfloat16' (got {dtype!r})")
    if dtype not in DTYPES:
        raise ValueError(unknown("dtype", dtype, DTYPES))


def retyped(trace: Trace, dtype: str) -> Trace:
    """Return the trace with weights and activations in another dtype; integers, masks and quantized tensors stay.

    Operations do not change. The calculator recomputes the bytes if it reproduces the bytes of the old layer; otherwise
    they scale with the bytes of all operands.
    """
    change = _Retyper(trace, dtype)
    return Trace(tuple(map(change, trace)), trace.run)


class _Retyper:
    # Caches equal layers.

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
        call = tuple.__new__(Call, (new_layer, *record.call[1:]))  # _replace would double the total time
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
    """Return the layer with floating-point tensors in another dtype; the same object if nothing changes."""
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


# Calibration of a device from profiler traces.


FEWEST = 8
"""The minimum number of points of a calibration."""

BELOW = "below their bound"

WITHOUT_KERNEL = "without a kernel"

COPIED = "filled, or copied from or to the host"

SENT = "communication, which waits for others"

ROUNDED = "products of float32 that were rounded to TF32"


class FromTraces(NamedTuple):
    """A calibration from traces.

    Attributes:
        calibration: the points, and errors by cross-validation between runs.
        conditions: the conditions of the runs.
        left_out: the number of excluded calls by reason.
    """

    calibration: Calibration
    conditions: Conditions
    left_out: Mapping[str, int]


def calibration_of(traces: Sequence[Trace], names: Sequence[str], device: Device) -> FromTraces:
    """Return the calibration of a device from runs on it.

    A point is the median of calls of a run with equal sizes. Calls faster than their bound are rejected, because the
    trace has a wrong device, dtype or time for them.

    Args:
        traces: the runs, with times measured by the profiler on the device.
        names: the names of the runs, for the conditions.
        device: the device; calls below its bounds are rejected.

    Raises:
        CostError: if a run has no device times, or if there are too few points.
    """
    seconds: dict[tuple[int, OpSignature], list[float]] = {}
    left_out: Counter[str] = Counter()
    for source, (trace, name) in enumerate(zip(traces, names, strict=True)):
        profile = trace.run.profile
        if profile is None or profile.clock != "device":
            raise CostError(f"{name} has no times of kernels. Record with the activity of the GPU.")
        positions = {call.name: i for i, call in enumerate(trace.calls)}
        for group in times_of(Times, trace, device).groups:
            _add_point(seconds, left_out, source, group, profile, positions)
    points = [Point(signature, median(each)) for (_, signature), each in seconds.items()]
    if len(points) < FEWEST:
        raise CostError(f"the traces have {len(points)} different calls with kernels (at least {FEWEST})")
    sources = [source for source, _ in seconds]
    errors = errors_of_runs(points, sources, device)
    calibration = Calibration(points, errors, device.units or 0, curves=Curves(points, device))
    return FromTraces(calibration, _conditions(traces, names, device, seconds, calibration), dict(left_out))


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
    signature = signature_of(call, cost)
    reason = SENT if cost.mcomm else _refused(signature, time, group, profile)
    if reason == "" and time is not None and signature.kind != "free":
        dtypes = float_dtypes(group)
        dtype = dtype_of(call.layer, dtypes) if dtypes else ""
        seconds.setdefault((source, signature._replace(dtype=dtype)), []).append(time.device / 1e9 / group.times)
    elif reason and signature.kind != "free":
        left_out[reason] += 1


def _refused(signature: OpSignature, time: CallTime | None, group: GroupTime, profile: Profile) -> str:
    if time is None or not time.device:
        return WITHOUT_KERNEL
    if 2 * time.aside > time.device:
        return COPIED
    if time.device / 1e9 < group.bound_seconds:
        return BELOW
    if profile.tf32 and signature.kind == "product" and "float32" in float_dtypes(group):
        return ROUNDED
    return ""


def _conditions(
    traces: Sequence[Trace],
    names: Sequence[str],
    device: Device,
    seconds: Mapping[tuple[int, OpSignature], Sequence[float]],
    calibration: Calibration,
) -> Conditions:
    # Noise: the deviation of equal calls of a run from their median.
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
