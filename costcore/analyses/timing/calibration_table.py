"""A calibration as the table ``[calibration]`` of a device file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from costcore.analyses.devices.device import Device
from costcore.analyses.timing.calibration import Calibration, Error, Errors, Growth, Point, Rates
from costcore.analyses.timing.families import KINDS, Site
from costcore.analyses.timing.kernel_curves import Curves
from costcore.analyses.timing.left_out import left_out_errors
from costcore.errors import CostError
from costcore.ir import BITS
from costcore.messages import short_repr, unknown

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
                [_short(distance), *map(_short, error)]
                for distance, error in calibration.errors.families[points[0].site.key]
            ],
            "points": [_row(each) for each in points],
        }
        for (name, dtype, kind), points in sorted(by_family.items())
    ]
    return {
        "format": FORMAT,
        **asdict(conditions),
        OTHER_FAMILIES[FORMAT]: {kind: _short(error) for kind, error in calibration.errors.kinds.items()},
        "family": families,
    }


def _row(point: Point) -> list[float]:
    site = point.site
    return [_short(value) for value in (point.seconds, site.flops, site.nbytes, *site.axes)]


def _short(value: float) -> float:
    """Return a number with 6 significant digits, so that files stay small."""
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
        return [Point(Site(name, kind, tuple(row[3:]), row[1], row[2], dtype), row[0]) for row in rows]

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
