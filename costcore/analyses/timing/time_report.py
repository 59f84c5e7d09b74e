"""The time of a run on a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from costcore.analyses.analysis import Analyzed
from costcore.analyses.timing.calibrated import plus_minus
from costcore.analyses.timing.remarks import time_remarks
from costcore.analyses.timing.request import times_of
from costcore.analyses.timing.time_rows import (
    TIMES,
    TIMES_BY_TYPE,
    TimeColumns,
    TimeSummaryColumns,
    arranged,
    entries,
    others_of,
    summary,
    total_of,
)
from costcore.analyses.timing.times import Times
from costcore.tables.answer import Answer, Figure
from costcore.tables.columns import choose
from costcore.tables.fit import dropped_first
from costcore.tables.result import Result
from costcore.tables.table import Table
from costcore.tables.table_method import writes_table
from costcore.text.table import Column
from costcore.text.targets import Target, save
from costcore.trace.trace import Trace

if TYPE_CHECKING:
    from costcore.analyses.devices.device import Device
    from costcore.analyses.timing.comparison import TimeComparison

MOST_TYPES = 5
"""The number of types that ``print`` and notebooks show; a row sums the others."""


class TimeReport(Result, Times):
    """The time of a run on a device: a lower bound for every group of calls.

    A bound says that no program with these groups takes less, whatever its kernels are. Usual programs take several
    times as long: see the documentation page "How long will it take". Groups run one after the other.

    Attributes:
        make_report: makes the report of a trace, whose page :meth:`to_html` writes.
    """

    make_report: Callable[[Trace], Any]

    @property
    def remarks(self) -> list[str]:
        """The lines below a table: what the figures are, what is unknown of the device, and what is not counted."""
        return time_remarks(self)

    def _answer(self) -> Answer:
        binds = "" if self.bound_seconds is None else f"bound by {total_of(self)['binds'] or 'nothing'}"
        figures = [Figure("bound_seconds", "At least", self.bound_seconds, "duration", binds, "bound")]
        if self.seconds is not None:
            error = plus_minus(self.error)
            figures.append(Figure("seconds", "Calibrated", self.seconds, "duration", error, "calibrated"))
        columns = choose(TIMES_BY_TYPE, TimeSummaryColumns.of(self))
        types = Table("By type, largest bound first", columns, summary(self), n_digits=3)
        types.others = others_of
        groups = Table("By group of calls", choose(TIMES, TimeColumns.of(self)), entries(self), total=total_of(self))
        shown = types.sorted(TIMES_BY_TYPE["bound_seconds"]).top(MOST_TYPES)
        title = f"Time on {self.device.name}, {self.status}"
        return Answer(title, figures, [shown, groups.part([])], self.remarks)

    def by_type(self) -> dict[str, dict[str, Any]]:
        """Return sums over groups by the type of their main call, and an entry ``total``."""
        return {entry["type"]: entry for entry in (*summary(self), total_of(self))}

    def layers(self) -> list[dict[str, Any]]:
        """Return one entry per group, in order of execution."""
        return entries(self)

    @writes_table(elsewhere="csv")
    def show_report(self, top: int | None, columns: Sequence[str] | None = None, sort: str | None = None) -> Table:
        """Write a table with one row per group of calls, and the total.

        Args:
            ost: the stream to write to; default: standard output at the time of the call.
            mode: ``csv``, ``md``, ``table``, ``color``, or a mode registered by a plug-in.
            unit: None for exact numbers (seconds, bytes); otherwise as in :meth:`costcore.Report.show_report`.
            columns: names of the columns to show; see :class:`costcore.analyses.timing.time_rows.TimeColumns`.
            n_digits: digits after the decimal point, 0 to 10; None for 10.
            sort: the column to sort by: numbers from the largest, text alphabetically.
            top: the maximum number of rows; a row ``others`` sums the remaining ones.

        Raises:
            TypeError, ValueError: if an argument is invalid.
        """
        order = None if sort is None else choose(TIMES, [sort])[0]
        rows = arranged(entries(self), order, top)
        chosen = choose(TIMES, columns or TimeColumns.of(self))
        return self._table(chosen, rows, TimeColumns.SETS)

    @writes_table(elsewhere="csv")
    def show_summary_report(
        self, top: int | None, columns: Sequence[str] | None = None, sort: str | None = None
    ) -> Table:
        """Write a table with one row per type of the main call of a group; arguments as for :meth:`show_report`."""
        order = None if sort is None else choose(TIMES_BY_TYPE, [sort])[0]
        rows = arranged(summary(self), order, top)
        chosen = choose(TIMES_BY_TYPE, columns or TimeSummaryColumns.of(self))
        return self._table(chosen, rows, TimeSummaryColumns.SETS)

    def _table(self, columns: Sequence[Column], rows: Sequence[Any], sets: Sequence[Sequence[str]]) -> Table:
        dropped = dropped_first(columns, sets)
        return Table("Time", columns, rows, total=total_of(self), remarks=self.remarks, dropped_first=dropped)

    def compare(self, *measured: Analyzed) -> TimeComparison:
        """Return the measured time of runs of the same model beside the bound and the calibrated time.

        ::

            with ComputationalCostHook(measure_time=True) as hook:
                net(x)
            estimate(net, x).time("mine.toml").compare(hook.report).show()

        Calls are matched by their name. Of several runs, the median of each call counts. A call that took less than its
        bound is an error of the bound or of the device file; they are :attr:`TimeComparison.violations`.

        Args:
            measured: reports of runs whose time was measured on this device.

        Raises:
            CostError: if no time was measured, or if no call matches.
            TypeError: if an argument is not a report.
        """
        from costcore.analyses.timing.comparison import TimeComparison

        for report in measured:
            if not hasattr(report, "trace"):
                raise TypeError(f"compare expects reports, as a hook returns them (got {type(report).__name__})")
        return TimeComparison(self, [report.trace for report in measured])

    def to_dict(self) -> dict[str, Any]:
        """Return the device, the options, the totals and the groups in plain JSON types; times are in seconds."""
        return {
            **super().to_dict(),
            "device": self.device.name,
            "dtype": self.dtype,
            "fusion": self.fusion,
            "tf32": list(self.tf32),
            "status": self.status,
            "total": total_of(self) if self.error is None else {**total_of(self), "error": self.error},
            **self._communication(),
            "types": summary(self),
            "groups": entries(self),
            "remarks": self.remarks,
        }

    def _communication(self) -> dict[str, Any]:
        """Return the entry of communication; empty for a run without collectives."""
        groups = [
            {**each._asdict(), "link": None if each.link is None else each.link._asdict()}
            for each in self.communications
        ]
        return {"communication": {"seconds": self.communication_seconds, "groups": groups}} if groups else {}

    def to_html(self, target: Target = None, title: str = "") -> str:
        """Return the page of the report with a roofline of the run, and write it to ``target`` if given.

        The costs on the page are those at ``dtype``.

        Args:
            target: a path, which is replaced atomically, or a stream.
            title: heading of the page; default: the type of the model.

        Raises:
            OSError: if the path cannot be written.
        """
        from costcore.analyses.timing.section import time_section

        page: str = self.make_report(self.trace).export("page", target, title=title, time=time_section(self))
        return page

    def to_svg(self, target: Target = None) -> str:
        """Return the roofline as an SVG picture, and write it to ``target`` (a path or a stream) if given.

        Raises:
            CostError: if no group of the run has operations and bytes.
            OSError: if the path cannot be written.
        """
        from costcore.analyses.timing.roofline_svg import roofline_svg

        return save(roofline_svg(self), target)


def time_of(report: Analyzed, device: str | PathLike[str] | Device, **options: Any) -> TimeReport:
    """Return how long a run takes on a device at least; arguments as for :meth:`costcore.Report.time`."""
    times = times_of(TimeReport, report.trace, device, **options)
    times.make_report = type(report)
    return times
