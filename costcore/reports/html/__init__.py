"""A report as one self-contained HTML page for offline use: totals, charts, and a table of modules and calls."""

from __future__ import annotations

import json
import re
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any

from costcore.analyses.registered import page_texts
from costcore.analyses.registered import sections as analyses
from costcore.errors import CostError
from costcore.reports.html import sections
from costcore.reports.html.about import about
from costcore.reports.html.data import page_data
from costcore.tables import html
from costcore.tables.html import heading, policy, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from costcore.reports.data.report_data import ReportData
    from costcore.tables.quantity import Quantity

__all__ = ["to_html"]

STYLES = ("charts.css", "panels.css")
"""The files that form the page's style sheet, after those of every page."""

SCRIPTS = (
    "d3.min.js",
    "numbers.js",
    "model.js",
    "elements.js",
    "tooltip.js",
    "detail.js",
    "bars.js",
    "treemap.js",
    "scatter.js",
    "memory.js",
    "marks.js",
    "rows.js",
    "table.js",
    "page.js",
)
"""The files that form the page's script, in order of dependence."""


def to_html(
    report: ReportData, title: str = "", time: str = "", columns: Sequence[str | Quantity] = (), made: str = ""
) -> str:
    """Return the report as an HTML page, the same text for equal reports. The page loads nothing from outside.

    Names chosen by models are not trusted. They appear as text, never as markup, with unprintable characters and
    bidirectional marks escaped, and the page's content security policy allows no script except its own.

    Args:
        report: the report.
        title: heading of the page; default: the type of the model.
        time: the section of a timed run; default: none.
        columns: further quantities in the table and, if they add up, in the charts.
        made: the command that wrote the page, and the date; default: neither, so that equal reports have equal pages.

    Raises:
        CostError: if the style or the script of an analysis cannot be part of a page.
    """
    data = page_data(report, columns)
    own = map(file_text, (*STYLES, "roofline.css") if time else STYLES)
    shared = map(html.file_text, ("page.css", "tables.css", "memory.css", "arena.css"))
    style = "\n".join((*shared, *own, *page_texts("style")))
    further = [f"{{\n{text}\n}}" for text in page_texts("script")]
    script = "(() => {\n'use strict';\n" + "\n".join([*map(file_text, SCRIPTS), *further]) + "\n})();"
    if re.search("</?(script|style)", style + "".join(further), re.IGNORECASE):
        raise CostError("the style or the script of an analysis has a tag of an element that ends it on the page")
    return Template(file_text("page.html")).substitute(
        policy=policy(style, script),
        style=style,
        script=script,
        data=embedded(data),
        title=heading(title or data["model"] or "Cost report"),
        version=escape(report.trace.run.version),
        status=sections.status(report),
        about=about(report, made),
        settings=sections.settings(report),
        unit=text(report.trace.run.unit),
        totals=sections.totals(report),
        uncounted=sections.uncounted(report),
        time=time,
        analyses="\n".join(analyses(report)),
        basis=sections.basis(report),
    )


def embedded(data: Any) -> str:
    """Return JSON for a ``script`` element: pure ASCII, without any character that could end the element."""
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def file_text(name: str) -> str:
    """Return the text of a file of this package."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
