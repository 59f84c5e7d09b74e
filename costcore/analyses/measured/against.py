"""Two measured runs beside each other: which groups changed, and whether their work or their speed did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from costcore.analyses.measured.rows import MOST_ROWS, TITLES, MeasuredGroup
from costcore.tables.answer import Answer, Figure
from costcore.tables.result import Result
from costcore.tables.table import Table
from costcore.text.durations import duration
from costcore.text.table import Column
from costcore.trace.profile import Profile

SAME = 0.02
"""Work and speed that differ by less than this part are called the same: clocks and kernels vary by as much."""


class View(Protocol):
    """A measured view of a run: :class:`costcore.analyses.measured.measured.Measured`."""

    profile: Profile

    @property
    def total(self) -> MeasuredGroup:
        """All calls together."""

    def by(self, key: str = ...) -> Sequence[MeasuredGroup]:
        """Return the sums by a key."""


class MeasuredChange(Result):
    """The measured time of two runs, group by group.

    Args:
        before: the measured view of the first run.
        after: that of the second.
        by: by what calls are grouped; see :meth:`Measured.by`.
    """

    def __init__(self, before: View, after: View, by: str = "class") -> None:
        self.before, self.after, self.by = before, after, by

    def __repr__(self) -> str:
        return f"<MeasuredChange: {duration(self.before.total.seconds)} to {duration(self.after.total.seconds)}>"

    def table(self) -> Table:
        """Return a table of the groups, the largest change of time first."""
        before = {group.name: group for group in self.before.by(self.by)}
        after = {group.name: group for group in self.after.by(self.by)}
        names = dict.fromkeys([*before, *after])
        rows = [_row(name or "(outside of modules)", before.get(name), after.get(name)) for name in names]
        rows.sort(key=lambda row: -abs(row["change"]))
        columns = [
            Column("name", TITLES[self.by]),
            Column("before", "Before", "duration"),
            Column("after", "After", "duration"),
            Column("change", "Change", "duration"),
            Column("work", "Work", "percent"),
            Column("speed", "Speed", "percent"),
            Column("why", "What changed"),
        ]
        total = _row("total", self.before.total, self.after.total)
        remarks = [
            "work: operations, or bytes of a group without any, after as a share of before; speed: work per second"
        ]
        return Table("Largest change of time first", columns, rows, total=total, remarks=remarks)

    def _answer(self) -> Answer:
        before, after = self.before.total.seconds, self.after.total.seconds
        share = f"{after / before - 1:+.1%}" if before else ""
        figures = [
            Figure("before", "Before", before, "duration", self.before.profile.device, "measured"),
            Figure("after", "After", after, "duration", self.after.profile.device, "measured"),
            Figure("change", "Change", after - before, "duration", share, "measured"),
        ]
        table = self.table()
        return Answer("Measured time of two runs", figures, [table.top(MOST_ROWS)], table.remarks)


def _row(name: str, before: MeasuredGroup | None, after: MeasuredGroup | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": name,
        "before": 0.0 if before is None else before.seconds,
        "after": 0.0 if after is None else after.seconds,
    }
    row["change"] = row["after"] - row["before"]
    if before is None or after is None:
        return row | {"why": "only after" if before is None else "only before"}
    work = _ratio(after.flops, before.flops) if before.flops else _ratio(after.n_bytes, before.n_bytes)
    if work is None or not before.seconds or not after.seconds:
        return row
    speed = work * before.seconds / after.seconds
    changed = [name for name, value in (("work", work), ("speed", speed)) if abs(value - 1) > SAME]
    return row | {"work": 100 * work, "speed": 100 * speed, "why": " and ".join(changed)}


def _ratio(after: int, before: int) -> float | None:
    return after / before if before else None
