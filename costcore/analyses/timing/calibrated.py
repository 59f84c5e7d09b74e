"""Calibrated times of groups of calls, from the calibration in a device file.

:func:`estimate_groups` sets the times and returns their error. :func:`to_toml` and :func:`from_toml` write and read
calibrations in device files, with the :class:`Conditions` of the measurement.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import compress
from math import fsum, hypot, sqrt
from typing import Any, NamedTuple

from costcore.analyses.devices.device import Device
from costcore.analyses.timing.bound import GroupTime
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
    left_out_errors,
    signature_of,
)
from costcore.errors import CostError, short_repr, unknown
from costcore.ir import BITS, Layer
from costcore.trace.trace import Trace

FLOATS = ("float", "bfloat", "complex")
"""Prefixes of floating-point and complex dtypes."""


class Calibrated(NamedTuple):
    """The certainty of the calibrated time of a run.

    Attributes:
        error: the relative error of the total time; None without a time, or if the error is unknown or above 100 %.
        remarks: the conditions of the measurement, and uncertain parts.
    """

    error: float | None
    remarks: tuple[str, ...]


class Estimated(NamedTuple):
    """A group of calls with its calibrated time.

    Attributes:
        group: the group.
        seconds: seconds of all its executions.
        signature: its signature in the calibration.
        estimate: the estimate of one execution.
    """

    group: GroupTime
    seconds: float
    signature: OpSignature
    estimate: Estimate


def estimate_groups(groups: Sequence[GroupTime], trace: Trace, device: Device) -> Calibrated:
    """Set the ``seconds`` of every group from the calibration of a device, and return their error.

    If a product has a dtype for which no product was measured, there is no calibrated time. A group of several calls is
    estimated as its main call with the operations and bytes of the group.

    Raises:
        CostError: if the calibration is invalid.
    """
    calibration, conditions = from_toml(device.calibration, device.name, device)
    if conditions.threads and device.units not in (None, conditions.threads):
        return Calibrated(None, (f"no calibrated time: measured with {_threads(conditions)}, not {device.units}",))
    estimates: list[Estimated] = []
    unmeasured: dict[str, None] = {}
    for group in groups:
        signature = _signature_of_group(group)
        dtypes = float_dtypes(group)
        if signature.kind == "product" and (unknown := dtypes - calibration.dtypes):
            unmeasured |= dict.fromkeys(sorted(unknown))
            continue
        if dtypes:
            signature = signature._replace(dtype=dtype_of(group.main.layer, dtypes))
        estimate = calibration.estimate(signature)
        group.seconds = max(estimate.seconds * group.times, group.bound_seconds)
        estimates.append(Estimated(group, group.seconds, signature, estimate))
    if unmeasured:
        return Calibrated(None, (f"no calibrated time: measured in {conditions.dtype}, not {', '.join(unmeasured)}",))
    if not estimates:
        return Calibrated(None, ())
    error = error_of_sum(estimates, conditions.noise)
    return Calibrated(error, tuple(_remarks(estimates, error, conditions, trace)))


def _signature_of_group(group: GroupTime) -> OpSignature:
    # A fused group has the family of its main call, but all of its operations and bytes.
    signatures = {
        id(record.call): signature_of(record.call, record.cost) for record in group.records if record.cost is not None
    }
    main = signatures[id(group.main)]
    if len(signatures) == 1:
        return main
    flops = fsum(signature.flops for signature in signatures.values())
    return main._replace(flops=flops, nbytes=(group.read + group.written) / group.times)


def float_dtypes(group: GroupTime) -> set[str]:
    """Return the dtypes in which a group computes: its floating dtypes, or all dtypes of an integer product."""
    tensors = [t for call in group.calls for t in (*call.layer.inputs.values(), *call.layer.outputs) if not t.is_scalar]
    floats = {tensor.dtype for tensor in tensors if tensor.dtype.startswith(FLOATS)}
    is_integer_product = not floats and any(cost.macs for cost in group.costs())
    return {tensor.dtype for tensor in tensors} if is_integer_product else floats


def dtype_of(layer: Layer, dtypes: Collection[str]) -> str:
    """Return the compute dtype of a layer: the first dtype of its inputs that is in ``dtypes``."""
    tensors = (*layer.inputs.values(), *layer.outputs)
    return next(tensor.dtype for tensor in tensors if tensor.dtype in dtypes)


def plus_minus(error: float | None) -> str:
    """Return the error as text: ``± 12%``."""
    return "without ±" if error is None else f"± {error:.0%}"


def error_of_sum(estimates: Iterable[Estimated], noise: float) -> float | None:
    """Return the relative error of a sum of estimates; None if an error is unknown, or if the result exceeds 100 %.

    The mean error of a family is systematic: it may have the same sign in all calls of the family, so it adds up. The
    rest of the 90th percentile adds up over equal calls, and is independent between calls of different sizes. Errors of
    families are independent. The result is at least the noise of the sweep.
    """
    total = 0.0
    misses: dict[object, float] = {}
    for _, seconds, signature, estimate in estimates:
        if estimate.error is None:
            return None
        total += seconds
        mean, most = estimate.error
        for what, error in ((signature.family, mean), (signature, sqrt(max(0.0, most**2 - mean**2)))):
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
        return  # traces have no versions
    for name in frameworks.keys() & measured.keys():
        if frameworks[name] != measured[name]:
            yield f"calibrated with {name} {measured[name]}, but the run is of {name} {frameworks[name]}"


def _threads(conditions: Conditions) -> str:
    threads = conditions.threads
    return f"{threads} thread{'s' * (threads != 1)}" if threads else ""


# The table [calibration] of device files.


FORMAT = 2
"""The version of the families and coordinates."""

FAMILY_KEYS: Mapping[int, Sequence[str]] = {
    1: ("name", "kind", "error", "points"),
    FORMAT: ("name", "kind", "errors", "points"),
}
"""The keys of a family by format. Errors of format 1 do not depend on the distance, so they are recomputed."""


OTHER_FAMILIES: Mapping[int, str] = {1: "error_of_other_families", FORMAT: "errors_of_other_families"}
"""The key for errors of families without points, by format."""

KERNEL_CLOCK = "kernel"
"""The clock of calibrations from traces: the time of kernels without launches."""


MOST, LEAST_SECONDS = 1e30, 1e-15
"""The maximum of a number and the minimum of a time in a calibration, so that estimates do not overflow."""


MOST_COORDINATE = 200
"""The maximum coordinate of a point; most are base-2 logarithms of sizes."""


class CalibrationError(CostError):
    """An invalid calibration; the message includes the device and the key."""


@dataclass(frozen=True)
class Conditions:
    """The conditions of a sweep.

    Attributes:
        device: the name of the processor as reported by the machine.
        dtype: the dtype of weights and activations.
        threads: number of threads of a CPU; 0 for other devices.
        clock: the clock: ``cpu_time`` of one thread, ``wall`` time, ``events`` on the device, or ``kernel``: times of
            kernels in traces.
        date: the day, ``2026-11-22``.
        noise: the relative difference of times of the same chains at start, middle and end of the sweep; for traces, of
            equal calls of a run.
        sweep_seconds: the duration of the sweep.
        clock_mhz: the clock rate of the processor at the end of the sweep; 0 if unknown.
        units: multiprocessors of a GPU; 0 if unknown.
        versions: versions of the libraries, by name.
        flags: settings that select kernels, by name.
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
        """The framework of the sweep, ``torch``: the first of the versions other than costcore."""
        return next((name for name in self.versions if name != "costcore"), "an unknown framework")


def to_toml(calibration: Calibration, conditions: Conditions) -> dict[str, Any]:
    """Return the table that :func:`from_toml` reads."""
    by_family: dict[tuple[str, str, str], list[Point]] = {}
    for point in calibration.points:
        by_family.setdefault((point.signature.family, point.signature.dtype, point.signature.kind), []).append(point)
    families = [
        {
            "name": name,
            "kind": kind,
            **({"dtype": dtype} if dtype else {}),
            "errors": [
                [_rounded(distance), *map(_rounded, error)]
                for distance, error in calibration.errors.families[points[0].signature.key]
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
    signature = point.signature
    return [_rounded(value) for value in (point.seconds, signature.flops, signature.nbytes, *signature.axes)]


def _rounded(value: float) -> float:
    # Six digits keep files small.
    return float(f"{value:.6g}")


def from_toml(table: Mapping[str, Any], source: str, device: Device | None = None) -> tuple[Calibration, Conditions]:
    """Return the calibration in a device file.

    Args:
        table: the table ``[calibration]``.
        source: the name of the device or file, for errors.
        device: the device; a calibration from traces needs its published rates.

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
                f"format {version!r} belongs to another version (expected {FORMAT}). Calibrate the device again."
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
                growths[points[-1].signature.key] = self._growth(family, place)
        if not any(point.signature.kind != "free" for point in points):
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
            raise self._error(f"{place}{name!r} needs points with coordinates of at most {MOST_COORDINATE}")
        if kind != "free" and not all(row[1] or row[2] for row in rows):
            raise self._error(f"{place}all points of {name!r} need FLOPs or bytes")
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
