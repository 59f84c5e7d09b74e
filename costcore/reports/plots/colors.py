"""The color of every operator, the same in all pictures of a report."""

from __future__ import annotations

from typing import Any

from costcore.numbers.symbolic import magnitude
from costcore.reports.data.report_data import ReportData
from costcore.tables.pictures.theme import Theme


def colors_of(report: ReportData, theme: Theme) -> dict[str, str]:
    """Return a color for the operators with the most FLOPs and those with the most bytes; all others are gray."""
    sums = report.by("op")

    def largest(key: str) -> list[str]:
        return sorted(sums, key=lambda op: -magnitude(sums[op][key]))

    first = dict.fromkeys([*largest("flops")[:4], *largest("mrw"), *largest("flops")])
    return dict(zip(first, theme.colors, strict=False))


def keys(colors: dict[str, str], drawn: set[str], theme: Theme) -> list[Any]:
    """Return the entries of a legend: the operators with a color that are drawn, and the others."""
    from matplotlib.lines import Line2D

    from costcore.tables.pictures.theme import label

    found = [(op, color) for op, color in colors.items() if op in drawn]
    found += [("others", theme.gray)] if drawn - {op for op, _ in found} else []
    return [Line2D([], [], linestyle="", marker="s", color=color, label=label(op)) for op, color in found]
