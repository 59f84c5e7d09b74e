"""The kinds of pictures of a report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from costcore.analyses.registered import drawn_by
from costcore.import_paths import imported
from costcore.messages import unknown
from costcore.plugins import with_left_out
from costcore.reports.data.report_data import ReportData
from costcore.tables.pictures.picture import Picture
from costcore.tables.pictures.theme import theme_of
from costcore.tables.quantities import is_quantity, numeric, registered

OWN = {
    "operators": "costcore.reports.plots.operators:operators",
    "modules": "costcore.reports.plots.modules:modules",
    "intensity": "costcore.reports.plots.intensity:intensity",
}
"""The functions that draw the costs of a report, by kind; analyses have further kinds."""

OF_A_COST = ("operators", "modules", "sizes")
"""The kinds that show one cost."""


def kinds() -> tuple[str, ...]:
    """Return the kinds of pictures: of the costs of a report, then those of analyses."""
    return (*OWN, *drawn_by())


class Request(NamedTuple):
    """What a call of ``plot`` asks for.

    Attributes:
        kind: one of :func:`kinds`.
        column: the cost that it shows, if it is one of those :data:`OF_A_COST`.
    """

    kind: str
    column: str


def request(kind: str | None, column: str | None, over: str | None, device: Any = None) -> Request:
    """Return what the arguments of ``plot`` ask for: ``plot("macs", over="seq")`` is a plot of sizes.

    Raises:
        ValueError: if a name is unknown, or two arguments contradict each other.
    """
    if kind is not None and kind not in kinds() and is_quantity(kind) and column is None:
        kind, column = None, kind
    kind = kind or ("operators" if over is None else "sizes")
    if kind not in kinds():
        raise ValueError(with_left_out(unknown("kind of plot", kind, (*kinds(), *registered()))))
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


def picture_of(report: ReportData, asked: Request, theme: str, options: Mapping[str, Any]) -> Picture:
    """Return a picture of any kind.

    Args:
        report: the report.
        asked: the kind and the cost.
        theme: ``light`` or ``dark``.
        options: the options of the kind, if an analysis draws it.

    Raises:
        TypeError: if the kind has no such option.
        CostError: if sizes are symbolic, or the run does not have what the picture shows.
        ValueError: if the theme is unknown.
    """
    look = theme_of(theme)
    if asked.kind in OWN and options:
        raise TypeError(f"plot has no argument {', '.join(options)}")
    draw = imported(OWN.get(asked.kind) or drawn_by()[asked.kind].pictures[asked.kind])
    cost = {"column": asked.column} if asked.kind in OF_A_COST else {}
    picture: Picture = draw(report, theme=look, **cost, **options)
    return picture
