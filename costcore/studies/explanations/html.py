"""A reconciliation as one self-contained HTML page without a script."""

from __future__ import annotations

from html import escape
from string import Template
from typing import TYPE_CHECKING

from costcore._version import __version__
from costcore.reports.html import file_text, policy
from costcore.reports.html.sections import card, heading, text
from costcore.studies.comparisons.html import STYLES, section_of
from costcore.studies.comparisons.sections import Section
from costcore.text.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence


def to_html(
    names: tuple[str, str], totals: Sequence[tuple[str, str]], table: Table, notes: Sequence[str], title: str = ""
) -> str:
    """Return a reconciliation as an HTML page.

    Args:
        names: the old and the new convention.
        totals: title and value of the cards at the top.
        table: the lines.
        notes: remarks below the totals.
        title: heading of the page; default: the names.
    """
    style = "\n".join(map(file_text, STYLES))
    return Template(file_text("comparison.html")).substitute(
        policy=policy(style),
        style=style,
        title=heading(title or f"{names[0]} → {names[1]}"),
        version=escape(__version__),
        badge="",
        settings="the lines add up to the difference of the totals",
        totals="\n".join(card(name, value, "") for name, value in totals),
        verdict="".join(f"<li>{text(note)}</li>" for note in notes),
        tables=section_of(Section("Why they differ", table, False)),
    )
