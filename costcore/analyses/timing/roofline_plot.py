"""The roofline of a timed run: a dot per group of calls, and the roofs of the device."""

from __future__ import annotations

from math import sqrt
from typing import Any

from costcore.analyses.analysis import Analyzed
from costcore.analyses.timing.request import times_of
from costcore.analyses.timing.roofline import Dot, dots_of, rate_of, roofs_of
from costcore.analyses.timing.times import Times
from costcore.ledger.intensity import MULTIPLY_ADD
from costcore.tables.pictures.picture import Picture
from costcore.tables.pictures.theme import Theme, add_legend, axes_of, label

DECADES = 1000.0
"""The least ratio of the ends of both axes, so that roofs look like roofs."""

COLORS = {"matrix": 0, "vector": 1, "special": 5, "dram": 2, "cache": 4}
"""The color of what binds, as on the page."""


def roofline_of(report: Analyzed, theme: Theme, device: Any, **options: Any) -> Picture:
    """Return the roofline of a report on a device; options as for :meth:`costcore.Report.time`."""
    return roofline(times_of(Times, report.trace, device, **options), theme)


def roofline(times: Times, theme: Theme) -> Picture:
    """Return the dots, the largest first; rows are name, FLOP per byte, FLOP per second, what binds, and seconds."""
    dots = dots_of(times)[::-1]
    rows: list[tuple[Any, ...]] = [
        (dot.group.name, dot.intensity, dot.rate, dot.group.binds, dot.group.bound_seconds) for dot in dots
    ]
    columns = ["name", "flop_per_byte", "flop_per_second", "binds", "bound_seconds"]
    if dots and dots[0].measured is not None:
        rows = [(*row, dot.measured) for row, dot in zip(rows, dots, strict=True)]
        columns.append("measured_seconds")
    return Picture(columns, rows, lambda: _drawn(times, dots, theme))


def _drawn(times: Times, dots: list[Dot], theme: Theme) -> Any:
    from matplotlib.ticker import EngFormatter

    axes = axes_of(theme)
    axes.set(xscale="log", yscale="log", xlabel=f"FLOP per byte from memory ({MULTIPLY_ADD})", ylabel=rate_of(dots))
    longest = dots[0].seconds
    for binds in dict.fromkeys(dot.group.binds for dot in dots):
        some = [dot for dot in dots if dot.group.binds == binds]
        sizes = [12 + 240 * sqrt(dot.seconds / longest) for dot in some]
        xs, ys = [dot.intensity for dot in some], [dot.rate for dot in some]
        axes.scatter(xs, ys, s=sizes, color=_color(binds, theme), alpha=0.7, linewidths=0, label=f"bound by {binds}")
    axes.margins(0.1)
    _draw_roofs(axes, times, theme)
    axes.yaxis.set_major_formatter(EngFormatter())
    axes.set_title(label(times.device.name), fontsize=10)
    axes.grid(color=theme.line)
    add_legend(axes, theme)
    return axes.figure


def _draw_roofs(axes: Any, times: Times, theme: Theme) -> None:
    """Draw the roofs as lines through the whole picture, which is extended to the highest one."""
    roofs = roofs_of(times)
    (x0, x1), (y0, y1) = axes.get_xlim(), axes.get_ylim()
    y1 = max([y1, *(1.5 * roof.rate for roof in roofs if not roof.is_memory)])
    x0, y0 = min(x0, x1 / DECADES), min(y0, y1 / DECADES)
    for roof in roofs:
        ends = [roof.rate * x for x in (x0, x1)] if roof.is_memory else [roof.rate, roof.rate]
        axes.plot([x0, x1], ends, color=_color(roof.binds, theme), linewidth=1.5, label=f"{roof.binds} {roof.label}")
    axes.set(xlim=(x0, x1), ylim=(y0, y1))


def _color(binds: str, theme: Theme) -> str:
    return theme.colors[COLORS[binds]] if binds in COLORS else theme.gray
