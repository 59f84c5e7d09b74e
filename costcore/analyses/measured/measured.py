"""Where the time of a run goes: measured time, bound and lost time of its calls, and work outside of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from costcore.analyses.measured.rows import (
    MOST_ROWS,
    TITLES,
    MeasuredCall,
    MeasuredGroup,
    grouped,
    keys_of,
    measured_calls,
    summed,
)
from costcore.analyses.timing.times import Times
from costcore.errors import CostError
from costcore.ledger.checks import check_top
from costcore.tables.answer import Answer, Figure
from costcore.tables.result import Result
from costcore.tables.table import Table
from costcore.text.durations import duration
from costcore.text.table import Column
from costcore.trace.profile import Profile
from costcore.trace.trace import Trace

if TYPE_CHECKING:
    from costcore.analyses.measured.against import MeasuredChange

IDLE = "idle"

LOST = (
    "lost: above the bound, and above the time in which main memory moves all bytes of a call; a cache may hold some, "
    "so what memory explains is not lost"
)

COLUMNS = (
    Column("n_layers", "# Calls", "count"),
    Column("seconds", "Measured", "duration"),
    Column("span_seconds", "In span", "duration"),
    Column("span_seconds%", "Of span", "percent"),
    Column("bound_seconds", "Bound", "duration"),
    Column("lost_seconds", "Lost", "duration"),
    Column("of_bound", "At limit", "percent"),
    Column("achieved_flops", "FLOP/s", "flops"),
    Column("achieved_bandwidth", "B/s", "flops"),
)


class Measured(Result):
    """Where the time of a run goes.

    The parts of the span add up to it exactly: the calls, other work, and idle time (:attr:`parts`).

    Args:
        trace: the run.
        profile: what was measured of it.
        times: the bounds on the device; None without a device.
        n_missed: how many calls of the run were not measured.

    Attributes:
        calls: every call that was measured.
    """

    def __init__(self, trace: Trace, profile: Profile, times: Times | None, n_missed: int = 0) -> None:
        self.trace, self.profile, self.times, self.n_missed = trace, profile, times, n_missed
        self.calls: list[MeasuredCall] = measured_calls(trace, profile, times)
        if not self.calls:
            raise CostError("no call of the run was measured")

    def __repr__(self) -> str:
        return f"<Measured: {len(self.calls)} calls, {duration(self.profile.span / 1e9)}>"

    @cached_property
    def total(self) -> MeasuredGroup:
        """All calls together."""
        return summed("total", self.calls)

    @property
    def parts(self) -> dict[str, int]:
        """The nanoseconds of the span by what happened: calls, each kind of other work, and idle time."""
        parts = {"calls": sum(each.alone for each in self.calls)}
        for each in self.profile.elsewhere:
            parts[each.what] = parts.get(each.what, 0) + each.alone
        return {**parts, IDLE: self.profile.idle}

    def by(self, key: str = "class") -> list[MeasuredGroup]:
        """Return the sums by ``call``, ``type``, ``op``, ``module``, ``class`` or ``phase``, the most lost time first.

        Raises:
            ValueError: for another key.
        """
        return grouped(self.calls, self.trace, key)

    @property
    def below_bound(self) -> list[MeasuredCall]:
        """The calls that took less time than their bound: errors of the bound, of the device, or of the trace."""
        return [each for each in self.calls if each.bound is not None and 0 < each.time < each.bound * 1e9]

    def table(self, by: str = "class", top: int | None = None) -> Table:
        """Return a table of the groups, then of other work; the total is the span.

        Args:
            by: see :meth:`by`.
            top: the most groups; the others are one row.

        Raises:
            TypeError, ValueError: for another key, or if ``top`` is not a positive integer.
        """
        check_top(top)
        groups = self.by(by)
        hidden = groups[top:] if top is not None else []
        rows = [self._row(group) for group in groups[:top]]
        if hidden:
            names = {group.name for group in hidden}
            of_call = keys_of(self.trace)[by]
            rows.append(self._row(summed("others", [each for each in self.calls if of_call(each.call) in names])))
        rows += [self._other(what, alone) for what, alone in self.parts.items() if what != "calls" and alone]
        columns = [Column("name", TITLES[by]), *COLUMNS]
        if self.times is None:
            columns = [column for column in columns if column.key not in ("bound_seconds", "lost_seconds", "of_bound")]
        total = self._row(self.total) | {"span_seconds": self.profile.span / 1e9, "span_seconds%": 100.0}
        if not self.profile.span:
            total.pop("span_seconds%")
        return Table(f"By {TITLES[by].lower()}, most lost time first", columns, rows, total=total, remarks=self.remarks)

    def _row(self, group: MeasuredGroup) -> dict[str, Any]:
        row: dict[str, Any] = {
            "name": group.name or "(outside of modules)",
            "n_layers": group.n_calls,
            "seconds": group.seconds,
            "span_seconds": group.alone,
            "bound_seconds": group.bound,
            "lost_seconds": group.lost,
        }
        if self.profile.span:
            row["span_seconds%"] = 100 * group.alone * 1e9 / self.profile.span
        if group.of_bound is not None:
            row["of_bound"] = group.of_bound
        if group.seconds:
            row["achieved_flops"] = round(group.flops / group.seconds)
            row["achieved_bandwidth"] = round(group.n_bytes / group.seconds)
        return row

    def _other(self, what: str, alone: int) -> dict[str, Any]:
        row: dict[str, Any] = {
            "name": what,
            "span_seconds": alone / 1e9,
            "span_seconds%": 100 * alone / self.profile.span,
        }
        work = [each for each in self.profile.elsewhere if each.what == what]
        if work:
            row |= {"n_layers": sum(each.n for each in work), "seconds": sum(each.time for each in work) / 1e9}
        return row

    def _answer(self) -> Answer:
        profile, total = self.profile, self.total
        where = profile.device or "an unnamed device"
        figures = [
            Figure("span", "Span", profile.span / 1e9, "duration", f"of the {profile.clock}, {where}", "measured"),
            Figure("calls", "In calls", total.alone, "duration", self._share(total.alone), "measured"),
            Figure("idle", "Idle", profile.idle / 1e9, "duration", self._idle_note(), "measured"),
        ]
        if self.times is not None and total.bound is not None:
            least = self._least(self.times, total.bound)
            of = f"{least / total.seconds:.0%} of what calls took, on {self.times.device.name}"
            figures.append(Figure("bound", "At least", least, "duration", of if total.seconds else "", "bound"))
            worst = max(self.by("class"), key=lambda group: group.lost or 0.0)
            note = f"most in {worst.name or 'calls outside of modules'}: {duration(worst.lost)}"
            figures.append(Figure("lost", "Lost", total.lost, "duration", note, "bound"))
        by = "class" if any(group.name for group in self.by("class")) else "op"
        return Answer("Where the time goes", figures, [self.table(by, MOST_ROWS)], self.remarks)

    def _least(self, times: Times, bound: float) -> float:
        """Return the least time of the calls: that of the run if all of it was measured."""
        is_whole = not self.n_missed and all(each.bound is not None for each in self.calls)
        return max(bound, times.least_seconds) if is_whole else bound

    def _share(self, seconds: float) -> str:
        return f"{seconds * 1e9 / self.profile.span:.1%} of the span" if self.profile.span else ""

    def _idle_note(self) -> str:
        gaps = [stream.longest for stream in self.profile.streams]
        longest = f", longest gap of a stream {duration(max(gaps) / 1e9)}" if gaps else ""
        return self._share(self.profile.idle / 1e9) + longest

    def against(self, other: Measured, by: str = "class") -> MeasuredChange:
        """Return the measured time of another run beside that of this one, which is the first of the two.

        Args:
            other: the measured view of the second run.
            by: see :meth:`by`.

        Raises:
            TypeError: if ``other`` is not a measured view.
            ValueError: for another key.
        """
        from costcore.analyses.measured.against import MeasuredChange  # few runs are compared

        if not isinstance(other, Measured):
            raise TypeError(f"against expects what report.measured() returns (got {type(other).__name__})")
        self.by(by)
        return MeasuredChange(self, other, by)

    @property
    def remarks(self) -> list[str]:
        """The lines below a table: calls below their bound, what was not counted or matched, and TF32."""
        profile = self.profile
        lines = [*profile.remarks, *([f"no bound: {profile.no_bound}"] if profile.no_bound else [])]
        if self.times is not None:
            lines.append(LOST)
        lines += [
            f"below the bound: {each.call.name} took {duration(each.time / 1e9)}, the bound is {duration(each.bound)}"
            for each in self.below_bound[:5]
        ]
        uncounted = Counter[str]()
        for record, each in ((self._records[each.call.name], each) for each in self.calls):
            if record.cost is None:
                uncounted[each.call.native] += each.time
        whole = sum(each.time for each in self.calls)
        for native, time in uncounted.most_common(5):
            lines.append(f"not counted: {native}, {time / whole:.1%} of the time of calls" if whole else native)
        if profile.inside:
            lines.append(f"{len(profile.inside)} calls have no kernel of their own: computed by another, or before")
        if self.n_missed:
            lines.append(f"{self.n_missed} calls of the run are not in the profile")
        if profile.tf32:
            lines.append("names of kernels say that products of float32 were rounded to TF32")
        return lines

    @cached_property
    def _records(self) -> Mapping[str, Any]:
        return {record.call.name: record for record in self.trace}
