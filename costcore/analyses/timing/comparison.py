"""Measured time beside the bound and the calibrated time, call by call."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from typing import IO, Any

from costcore.analyses.timing.measured import TimedGroup, key_of, seconds_by_call, sum_of, timed_group
from costcore.analyses.timing.times import Times
from costcore.errors import CostError
from costcore.tables.answer import Answer, Figure
from costcore.tables.columns import by_key, choose
from costcore.tables.result import Result
from costcore.tables.table import Table
from costcore.text.durations import duration
from costcore.text.table import Column
from costcore.trace.trace import Trace

COLUMNS = by_key(
    Column("name", "Layer name"),
    Column("type", "Layer type"),
    Column("family", "Family"),
    Column("module", "Module"),
    Column("n_groups", "# Groups", "count"),
    Column("measured", "Measured", "duration"),
    Column("measured%", "Measured", "percent"),
    Column("predicted", "Calibrated", "duration"),
    Column("predicted/measured%", "Of measured", "percent"),
    Column("bound", "Bound", "duration"),
    Column("bound/measured%", "Of measured", "percent"),
)

CALLS = ("name", "family", "measured", "predicted", "predicted/measured%", "bound", "bound/measured%")
BY_FAMILY = ("family", "n_groups", "measured", "measured%", *CALLS[3:])
"""The columns of the two tables. Those of the calibrated time are left out without a calibration."""


class TimeComparison(Result):
    """Measured time beside the bound and the calibrated time.

    Args:
        times: the bound and the calibrated time.
        measured: runs of the same model, with the time of their calls; of several the median counts.

    Attributes:
        groups: the groups of calls that were measured, in order of execution.
        unmatched: names of the calls that have no measured time, or that have another operator, other shapes
            or other dtypes there.
        unexpected: names of the measured calls that the timed report does not have.

    Raises:
        CostError: if no time was measured, or if no call has the same name.
    """

    def __init__(self, times: Times, measured: Sequence[Trace]) -> None:
        self.times = times
        seconds = seconds_by_call(measured)
        if not seconds:
            raise CostError(
                "the measured report has no times. Measure a run: ComputationalCostHook(measure_time=True)."
            )
        self.groups: list[TimedGroup] = []
        self.unmatched: list[str] = []
        expected: set[str] = set()
        for group in times.groups:
            keys = [key_of(call) for call in group.calls]
            expected.update(call.name for call in group.calls)
            if all(key in seconds for key in keys):
                self.groups.append(timed_group(group, fsum(seconds[key] for key in keys)))
            else:
                self.unmatched += [call.name for call, key in zip(group.calls, keys, strict=True) if key not in seconds]
        self.unexpected = [name for name, _ in seconds if name not in expected]
        if not self.groups:
            raise CostError("no call of the measured report has the name, operator, shapes and dtypes of a timed call")

    def __repr__(self) -> str:
        measured, bound = duration(self.total.measured), duration(self.total.bound)
        return f"<TimeComparison on {self.times.device.name}: measured {measured}, bound {bound}>"

    def _answer(self) -> Answer:
        total = self.total
        figures = [Figure("measured", "Measured", total.measured, "duration", f"{len(self.groups)} groups of calls")]
        if total.predicted is not None:
            share = self._share(total.predicted)
            figures.append(Figure("predicted", "Calibrated", total.predicted, "duration", share, "calibrated"))
        figures.append(Figure("bound", "At least", total.bound, "duration", self._share(total.bound), "bound"))
        title = f"Measured and expected time on {self.times.device.name}"
        return Answer(title, figures, [self._table("family", 0)], self.remarks)

    def _share(self, seconds: float | None) -> str:
        measured = self.total.measured
        return f"{seconds / measured:.1%} of that" if measured and seconds is not None else ""

    def _columns(self, names: Sequence[str]) -> Sequence[str]:
        """Return the columns without those of the calibrated time, if there is none."""
        if self.total.predicted is not None:
            return names
        return [name for name in names if not name.startswith("predicted")]

    @property
    def violations(self) -> list[TimedGroup]:
        """The groups that took less than their bound says. Each is an error of the bound or the device file."""
        return [group for group in self.groups if group.is_below_bound]

    @property
    def total(self) -> TimedGroup:
        """The sum of all measured groups; its bound is that of the whole run if all of its calls were measured."""
        total = sum_of("total", self.groups)
        return total if self.unmatched else total._replace(bound=self.times.bound_seconds)

    def worst(self, n: int = 10) -> list[TimedGroup]:
        """Return the ``n`` groups whose prediction is off by most seconds, the largest first."""
        return sorted(self.groups, key=lambda group: -group.error)[:n]

    def by_family(self) -> dict[str, TimedGroup]:
        """Return the sums by family, the longest measured first."""
        members: dict[str, list[TimedGroup]] = {}
        for group in self.groups:
            members.setdefault(group.family, []).append(group)
        sums = {family: sum_of(family, each) for family, each in members.items()}
        return dict(sorted(sums.items(), key=lambda item: -item[1].measured))

    @property
    def remarks(self) -> list[str]:
        """The lines below a table: calls below their bound, calls that do not match, and how sure the estimate is."""
        calibrated = () if self.times.calibrated is None else self.times.calibrated.remarks
        lines = [*calibrated, *map(_violation, self.violations)]
        if self.total.is_below_bound and not self.violations:
            lines.append(_violation(self.total))
        for names, text in (
            (self.unmatched, "not measured, or with another operator, other shapes or dtypes"),
            (self.unexpected, "measured, but not among the timed calls"),
        ):
            if names:
                more = f" and {len(names) - 5} more" if len(names) > 5 else ""
                lines.append(f"{text}: {', '.join(names[:5])}{more}")
        return lines

    def show(
        self,
        ost: IO[str] | None = None,
        mode: str = "table",
        unit: str | None = "auto",
        n_digits: int | None = None,
        *,
        by: str | None = None,
        top: int = 10,
    ) -> None:
        """Write what ``print`` shows, or one table: by family, or of the calls whose prediction is off by most.

        Args:
            ost: the stream to write to; default: standard output at the time of the call.
            mode: as for every result.
            unit: None for exact seconds; otherwise as for every result.
            n_digits: digits after the decimal point; default: as many as ``print`` shows.
            by: ``family`` or ``call`` for one table; default: all of the result.
            top: number of calls.

        Raises:
            ValueError: if an argument is invalid.
        """
        if by is None:
            super().show(ost, mode, unit, n_digits)
            return
        if by not in ("family", "call"):
            raise ValueError(f"by must be 'family' or 'call' (got {by!r})")
        table = self._table(by, top)
        table.remarks = self.remarks
        table.show(ost, mode, unit, n_digits)

    def _table(self, by: str, top: int) -> Table:
        names = self._columns(BY_FAMILY if by == "family" else CALLS)
        title = "By family, longest first" if by == "family" else "Calls whose prediction is off by most"
        rows = self.by_family().values() if by == "family" else self.worst(top)
        entries, total = [*map(self._entry, rows)], self._entry(self.total)
        return Table(title, choose(COLUMNS, names), entries, total=total, prefix="autoaligned", n_digits=3)

    def to_dict(self) -> dict[str, Any]:
        """Return the total, the sums by family and all groups in plain JSON types; times are in seconds."""
        return {
            **super().to_dict(),
            "device": self.times.device.name,
            "total": self._entry(self.total),
            "families": [self._entry(each) for each in self.by_family().values()],
            "groups": [self._entry(each) for each in self.groups],
            "below_bound": [group.name for group in self.violations],
            "unmatched": self.unmatched,
            "unexpected": self.unexpected,
            "remarks": self.remarks,
        }

    def _entry(self, group: TimedGroup) -> dict[str, Any]:
        entry: dict[str, Any] = {key: value for key, value in group._asdict().items() if value is not None}
        whole = fsum(each.measured for each in self.groups)
        entry["measured%"] = 100 * group.measured / whole if whole else 0.0
        for key in ("predicted", "bound"):
            if key in entry:
                entry[f"{key}/measured%"] = 100 * entry[key] / group.measured if group.measured else 0.0
        return entry


def _violation(group: TimedGroup) -> str:
    return f"below the bound: {group.name} took {duration(group.measured)}, the bound is {duration(group.bound)}"
