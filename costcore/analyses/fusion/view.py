"""A report with the bytes after fusion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from costcore.analyses.fusion.group_rows import FUSED, UNFUSED, FusedColumns, group_rows, unfused
from costcore.analyses.fusion.groups import Group, groups_of, traffic_of_calls
from costcore.errors import CostError
from costcore.numbers.symbolic import as_text, expanded_sum
from costcore.tables.answer import Answer
from costcore.tables.arranged import Arranged
from costcore.tables.cells import TableRow
from costcore.tables.columns import in_unit
from costcore.tables.fit import dropped_first
from costcore.tables.quantity import Quantity
from costcore.tables.result import OfReport
from costcore.tables.table import Table
from costcore.tables.table_method import writes_table
from costcore.text.targets import Target
from costcore.trace.run import Fusion
from costcore.trace.trace import Trace


class FusedView(OfReport):
    """A report with the bytes after fusion; :meth:`costcore.Report.fused` returns it.

    The report does not change. :meth:`show_report` shows the groups. Every other property and method is that of
    :attr:`report`, whose calls have the bytes after fusion: within a group, the first call that reads a value is
    charged with reading it, and the call that produces a value with writing it.

    Args:
        original: the report, a :class:`costcore.Report`.
        level: the level of fusion.

    Attributes:
        original: the report without fusion.
        level: the level of fusion.
        report: the report with the bytes after fusion, a :class:`costcore.Report`.
    """

    def __init__(self, original: Any, level: str = "pointwise") -> None:
        self.original = original
        self.level = level
        self.report: Any = type(original)(fused_trace(original.trace, level))

    def __repr__(self) -> str:
        return f"<{self}>"

    def _text(self, *_: Any, **options: Any) -> str:
        total = self.total_report
        before, after = as_text(total[UNFUSED]), as_text(total["mrw"])
        return f"{total['n_groups']} groups at level {self.level}: {after} bytes read and written, {before} unfused"

    def _answer(self) -> Answer:
        answer: Answer = self.report._answer()
        return answer

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "report":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.report, name)

    @cached_property
    def groups(self) -> list[Group]:
        """All groups, also those of free calls, which read and write nothing; positions are those of ``calls``."""
        return groups_of(self.original.trace, self.level)

    @property
    def total_report(self) -> dict[str, Any]:
        """The total, with ``n_groups`` (without groups of free calls) and ``unfused_mrw``, the bytes without fusion."""
        return {**self.report.total_report, "n_groups": len(self._rows), UNFUSED: self.original.ledger.total["mrw"]}

    def subs(self, values: Mapping[str, Any] | None = None, /, **named: Any) -> FusedView:
        """Return this view with values for symbolic dimensions; arguments as for :meth:`costcore.Report.subs`."""
        return FusedView(self.original.subs(values, **named), self.level)

    @writes_table(FusedColumns.DEFAULT, elsewhere="csv")
    def show_report(self, columns: Sequence[str], top: int | None, sort: str | None = None) -> Table:
        """Write a table with one row per group, and the total; arguments as for :meth:`costcore.Report.show_report`.

        Groups of free calls (views) are omitted. ``unfused_mrw`` are the bytes that the calls of a group read and write
        if each runs by itself.
        """
        report = self.report
        arranged = Arranged(report.ledger, FUSED, columns, sort, [unfused(self.original)])
        rows = arranged.rows(self._rows, top, "names")
        shown = in_unit(arranged.columns, report.trace.run.unit)
        return Table(
            *("Groups", shown, rows[:-1]),
            total=rows[-1],
            remarks=[*arranged.remarks, *report.remarks],
            unit=report.trace.run.unit,
            dropped_first=dropped_first(shown, FusedColumns.SETS),
        )

    def to_html(self, target: Target = None, title: str = "", columns: Sequence[str | Quantity] = ()) -> str:
        """Return a page as :meth:`costcore.Report.to_html` does, with a column of bytes without fusion."""
        page: str = self.report.to_html(target, title, [unfused(self.original), *columns])
        return page

    @cached_property
    def _rows(self) -> list[TableRow]:
        return group_rows(self.report)


def fused_trace(trace: Trace, level: str) -> Trace:
    """Return the trace with the bytes after fusion as costs, and the groups in the run.

    Within a group, the first call that reads a value is charged with reading it, and the call that produces a value
    with writing it. All other amounts of the costs are unchanged.

    Raises:
        ValueError: if the level is unknown.
        CostError: if the bytes of the trace are already those after fusion, or if a calculator states an invalid
            pattern.
    """
    if trace.run.fusion is not None:
        raise CostError(
            f"this report is already fused at level {trace.run.fusion.level!r}. Fuse the report from which it was made."
        )
    groups, amounts = traffic_of_calls(trace, level)
    records = tuple(
        record if record.cost is None else record._replace(cost=record.cost._replace(mread=read, mwrite=written))
        for record, (read, written) in zip(trace, amounts, strict=True)
    )
    unfused = expanded_sum((cost.mread + cost.mwrite) * call.times for call, cost, *_ in trace if cost is not None)
    return Trace(records, trace.run.recording(fusion=Fusion(level, tuple(groups), unfused)))
