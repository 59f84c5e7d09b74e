"""The kinds of pictures of a report."""

from __future__ import annotations

from typing import Any, NamedTuple

from costcore.analyses.timing.times import Times
from costcore.messages import unknown
from costcore.reports.data.report_data import ReportData
from costcore.reports.plots.intensity import intensity
from costcore.reports.plots.memory import memory
from costcore.reports.plots.modules import modules
from costcore.reports.plots.operators import operators
from costcore.reports.plots.roofline import roofline
from costcore.tables.pictures.picture import Picture
from costcore.tables.pictures.theme import theme_of
from costcore.tables.quantities import is_quantity, numeric, registered

KINDS = ("operators", "modules", "intensity", "memory", "roofline", "sizes")
"""The kinds of pictures."""

OF_A_COST = ("operators", "modules", "sizes")
"""The kinds that show one cost."""


class Request(NamedTuple):
    """What a call of ``plot`` asks for.

    Attributes:
        kind: one of :data:`KINDS`.
        column: the cost that it shows, if it is one of those :data:`OF_A_COST`.
    """

    kind: str
    column: str


def request(kind: str | None, column: str | None, over: str | None, device: Any = None) -> Request:
    """Return what the arguments of ``plot`` ask for: ``plot("macs", over="seq")`` is a plot of sizes.

    Raises:
        ValueError: if a name is unknown, or two arguments contradict each other.
    """
    if kind is not None and kind not in KINDS and is_quantity(kind) and column is None:
        kind, column = None, kind
    kind = kind or ("operators" if over is None else "sizes")
    if kind not in KINDS:
        raise ValueError(unknown("kind of plot", kind, (*KINDS, *registered())))
    if column is not None:
        adds_up = numeric(column).has_share or column == "n_params"
        if kind != "sizes" and not adds_up:
            raise ValueError(f"kind {kind!r} shows parts of a total, but values of {column} do not add up")
    if column is not None and kind not in OF_A_COST:
        raise ValueError(f"a plot of kind {kind!r} has no column (those of {', '.join(OF_A_COST)} have)")
    for name, value, of in (("over", over, "sizes"), ("device", device, "roofline")):
        if (value is None) == (kind == of):
            problem = "is needed for" if kind == of else f"is for kind {of!r}, not for"
            raise ValueError(f"{name}=… {problem} kind {kind!r}")
    return Request(kind, column or "flops")


def picture_of(report: ReportData, asked: Request, theme: str, times: Times | None = None) -> Picture:
    """Return a picture of any kind but sizes.

    Args:
        report: the report.
        asked: the kind and the cost.
        theme: ``light`` or ``dark``.
        times: the time of the run on a device, for a roofline.

    Raises:
        CostError: if sizes are symbolic, or the run does not have what the picture shows.
        ValueError: if the theme is unknown.
    """
    look = theme_of(theme)
    if times is not None:
        return roofline(times, look)
    if asked.kind in OF_A_COST:
        return {"operators": operators, "modules": modules}[asked.kind](report, asked.column, look)
    return {"intensity": intensity, "memory": memory}[asked.kind](report, look)
