"""FLOPs, as peaks of devices count them, against bytes of every call."""

from __future__ import annotations

from typing import Any

from costcore.ledger.intensity import multiply_add, peak_flops
from costcore.reports.data.report_data import ReportData
from costcore.reports.plots.colors import colors_of, keys
from costcore.tables.pictures.amounts import check_numbers
from costcore.tables.pictures.picture import Picture
from costcore.tables.pictures.theme import Theme, add_legend, axes_of
from costcore.text.counted_units import per_byte

MOST_TICKS = 7
"""The maximum number of labels of the axis of bytes."""

MANY = 2000
"""More dots than this are pixels in an SVG or PDF file too, which keeps it small."""

POWERS = range(-2, 6)
"""The decimal logarithms of the intensities with a line, in FLOPs per byte."""


def intensity(report: ReportData, theme: Theme) -> Picture:
    """Return a dot per call with FLOPs and bytes; rows are name, operator, FLOPs (a multiply-add is two) and bytes.

    Raises:
        CostError: if sizes are symbolic.
    """
    ledger = report.ledger
    check_numbers([entry[key] for entry in ledger.entries.values() for key in ("flops", "mrw")])
    amounts = [(call.name, call.layer.op, peak_flops(call, cost)) for call, cost in ledger.counted]
    rows = [(*each, ledger.entries[each[0]]["mrw"]) for each in amounts]
    rows = [row for row in rows if row[2] > 0 and row[3] > 0]
    return Picture(("name", "op", "peak_flops", "mrw"), rows, lambda: _dots(report, rows, theme))


def _dots(report: ReportData, rows: list[tuple[str, str, int, int]], theme: Theme) -> Any:
    from matplotlib.ticker import EngFormatter, LogLocator

    axes, colors = axes_of(theme), colors_of(report, theme)
    points = [*dict.fromkeys((float(nbytes), float(flops), op) for _, op, flops, nbytes in rows)]
    xs, ys, ops = zip(*points, strict=True)
    unit = report.trace.run.unit
    x_title = f"Bytes read and written (dotted lines: {per_byte(unit)})"
    axes.set(xscale="log", yscale="log", xlabel=x_title, ylabel=unit + multiply_add(report.trace.run.unit))
    size, is_many = max(6, 40 - len(points) // 50), len(points) > MANY
    found = [colors.get(op, theme.gray) for op in ops]
    axes.scatter(xs, ys, s=size, c=found, alpha=0.8, linewidths=0, rasterized=is_many)
    axes.margins(0.08)
    limits = axes.get_xlim(), axes.get_ylim()
    for power in POWERS:
        _line_of(axes, 10.0**power, limits, theme)
    axes.set(xlim=limits[0], ylim=limits[1])
    axes.xaxis.set_major_locator(LogLocator(numticks=MOST_TICKS))
    axes.xaxis.set_major_formatter(EngFormatter("B"))
    axes.yaxis.set_major_formatter(EngFormatter())
    axes.grid(color=theme.line)
    add_legend(axes, theme, keys(colors, {*ops}, theme))
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
        f"{ratio / 1000:g}k" if ratio >= 1000 else f"{ratio:g}",
        (x, y),
        textcoords="offset points",
        xytext=(0, 2) if at_top else (-2, 2),
        ha="center" if at_top else "right",
        fontsize=7,
        color=theme.soft,
    )
