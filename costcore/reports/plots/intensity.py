"""FLOPs against bytes of every call."""

from __future__ import annotations

from typing import Any

from costcore.reports.plots.amounts import check_numbers
from costcore.reports.plots.colors import colors_of, keys
from costcore.reports.plots.picture import Picture
from costcore.reports.plots.theme import Theme, add_legend, axes_of
from costcore.reports.report_data import ReportData

POWERS = range(-2, 6)
"""The decimal logarithms of the intensities with a line, in FLOPs per byte."""


def intensity(report: ReportData, theme: Theme) -> Picture:
    """Return a dot per call with FLOPs and bytes; rows are name, operator, FLOPs and bytes.

    Raises:
        CostError: if sizes are symbolic.
    """
    entries = report.ledger.entries
    check_numbers([entry[key] for entry in entries.values() for key in ("flops", "mrw")])
    rows = [(name, each["op"], each["flops"], each["mrw"]) for name, each in entries.items()]
    rows = [row for row in rows if row[2] > 0 and row[3] > 0]
    return Picture(("name", "op", "flops", "mrw"), rows, lambda: _dots(report, rows, theme))


def _dots(report: ReportData, rows: list[tuple[str, str, int, int]], theme: Theme) -> Any:
    from matplotlib.ticker import EngFormatter

    axes, colors = axes_of(theme), colors_of(report, theme)
    xs, ys = ([float(row[i]) for row in rows] for i in (3, 2))
    axes.set(xscale="log", yscale="log", xlabel="Bytes read and written", ylabel=report.trace.run.unit)
    size = max(6, 40 - len(rows) // 50)
    axes.scatter(xs, ys, s=size, c=[colors.get(row[1], theme.gray) for row in rows], alpha=0.8, linewidths=0)
    axes.margins(0.08)
    limits = axes.get_xlim(), axes.get_ylim()
    for power in POWERS:
        _line_of(axes, 10.0**power, limits, theme)
    axes.set(xlim=limits[0], ylim=limits[1])
    axes.xaxis.set_major_formatter(EngFormatter("B"))
    axes.yaxis.set_major_formatter(EngFormatter())
    axes.grid(color=theme.line)
    add_legend(axes, theme, keys(colors, {row[1] for row in rows}, theme))
    return axes.figure


def _line_of(axes: Any, ratio: float, limits: Any, theme: Theme) -> None:
    """Draw the line of one arithmetic intensity, with its name where it leaves the picture."""
    (x0, x1), (y0, y1) = limits
    if not (y0 < ratio * x1 and ratio * x0 < y1):
        return
    axes.plot([x0, x1], [ratio * x0, ratio * x1], color=theme.soft, linewidth=0.7, linestyle=":")
    at_top = ratio * x1 > y1
    x, y = (y1 / ratio, y1) if at_top else (x1, ratio * x1)
    axes.annotate(
        f"{ratio:g} FLOP/B",
        (x, y),
        textcoords="offset points",
        xytext=(0, 2) if at_top else (-2, 2),
        ha="center" if at_top else "right",
        fontsize=7,
        color=theme.soft,
    )
