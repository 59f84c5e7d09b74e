"""Bars: the sum of a cost per operator."""

from __future__ import annotations

from typing import Any

from costcore.reports.data.report_data import ReportData
from costcore.reports.plots.colors import colors_of
from costcore.tables.pictures.amounts import check_numbers, column_of, in_units
from costcore.tables.pictures.picture import Picture
from costcore.tables.pictures.theme import Theme, axes_of, label
from costcore.tables.quantities import quantity

MOST_BARS = 15
"""The maximum number of bars; one more sums the other operators."""

BAR_HEIGHT = 0.28
"""The height of a bar with the space around it, in inches."""


def operators(report: ReportData, theme: Theme, column: str) -> Picture:
    """Return a bar per operator, the largest first; rows are the operator and its amount.

    Raises:
        CostError: if sizes are symbolic.
    """
    shown = quantity(column)
    sums = [
        (op, (shown.of(report.ledger, calls) or 0) - (entry["n_shared"] if column == "n_params" else 0))
        for (op, calls), entry in zip(report.ledger.groups("op").items(), report.by("op").values(), strict=True)
    ]
    check_numbers([amount for _, amount in sums])
    rows = sorted([row for row in sums if row[1]], key=lambda row: -row[1])
    return Picture(("operator", column), rows, lambda: _bars(report, rows, column, theme))


def _bars(report: ReportData, rows: list[tuple[str, int]], column: str, theme: Theme) -> Any:
    shown, hidden = rows[:MOST_BARS], rows[MOST_BARS:]
    colors = [colors_of(report, theme).get(op, theme.gray) for op, _ in shown]
    if hidden:
        shown, colors = [*shown, (f"{len(hidden)} others", sum(amount for _, amount in hidden))], [*colors, theme.gray]
    total = sum(amount for _, amount in rows)
    lengths, title = in_units(column_of(column, report.trace.run.unit), [amount for _, amount in shown])
    axes = axes_of(theme, height=1 + BAR_HEIGHT * len(shown))
    bars = axes.barh([*range(len(shown))], lengths, color=colors)
    axes.set(yticks=range(len(shown)), yticklabels=[label(name) for name, _ in shown], xlabel=title)
    axes.bar_label(bars, [f"{amount / total:.1%}" for _, amount in shown], padding=3, color=theme.soft)
    axes.margins(x=0.12, y=0.02)
    axes.invert_yaxis()
    axes.grid(axis="x", color=theme.line)
    return axes.figure
