"""A report as one self-contained HTML page that works offline: totals, charts, and a table of modules and calls."""

from __future__ import annotations

import base64
import hashlib
import json
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any

from costcore.reports.html import sections
from costcore.reports.html.data import page_data

if TYPE_CHECKING:
    from costcore.reports.report_data import ReportData

__all__ = ["to_html"]

STYLES = ("page.css", "charts.css", "tables.css", "panels.css")

SCRIPTS = (
    "numbers.js",
    "model.js",
    "elements.js",
    "tooltip.js",
    "detail.js",
    "bars.js",
    "treemap.js",
    "scatter.js",
    "rows.js",
    "table.js",
    "page.js",
)
"""The parts of the page's script, in the order in which they build on each other."""


def to_html(report: ReportData, title: str = "") -> str:
    """The report as the text of an HTML page: the same bytes for equal reports, and no reference to anything outside.

    Names come from models and are hostile until shown to be otherwise: they are text in the page, never markup, with
    unprintable characters and direction marks spelled out, and the page's policy runs no script but its own.

    Args:
        report: the report.
        title: heading of the page; the type of the model where not given.
    """
    data = page_data(report)
    style = "\n".join(map(file_text, STYLES))
    script = "(() => {\n'use strict';\n" + "\n".join(map(file_text, SCRIPTS)) + "\n})();"
    return Template(file_text("page.html")).substitute(
        policy=policy(style, script),
        style=style,
        script=script,
        data=embedded(data),
        title=sections.heading(title or data["model"] or "Cost report"),
        version=escape(report.trace.run.version),
        status=sections.status(report),
        settings=sections.settings(report),
        totals=sections.totals(report),
        unknown=sections.unknown(report),
        basis=sections.basis(report),
    )


def embedded(data: Any) -> str:
    """JSON that can stand inside a ``script`` element: pure ASCII, and nothing in it can end the element."""
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def file_text(name: str) -> str:
    """A file of this package."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


def policy(style: str, script: str = "") -> str:
    """The content security policy of a page: nothing from outside, and of its own this style and this script only."""
    scripts = f"script-src {_hash(script)}; " if script else ""
    return f"default-src 'none'; img-src data:; style-src {_hash(style)}; {scripts}base-uri 'none'"


def _hash(source: str) -> str:
    """What a content security policy calls an inline script or style by."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"
