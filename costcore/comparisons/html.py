"""A comparison as one self-contained HTML page: no script, no network, tables that fold by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from string import Template
from typing import TYPE_CHECKING

from costcore.comparisons.render import Section, sections
from costcore.dims import is_symbolic
from costcore.reports.html import file_text, policy
from costcore.reports.html.sections import card, heading, text
from costcore.reports.text.amounts import METRICS, exact, readable

if TYPE_CHECKING:
    from costcore.comparisons.comparison_data import ComparisonData
    from costcore.comparisons.differences import Delta

STYLES = ("page.css", "tables.css", "comparison.css")


def to_html(comparison: ComparisonData, title: str = "") -> str:
    """The comparison as the text of an HTML page, the same bytes for equal comparisons.

    Names are text in the page, never markup, and the page's policy runs no script at all.

    Args:
        comparison: the comparison.
        title: heading of the page; what the two reports are called where not given.
    """
    style = "\n".join(map(file_text, STYLES))
    old, new = comparison.names
    return Template(file_text("comparison.html")).substitute(
        policy=policy(style),
        style=style,
        title=heading(title or f"{old} → {new}"),
        version=escape(comparison.new.trace.run.version),
        badge=_badge(comparison),
        settings=_settings(comparison),
        totals="\n".join(_total(key, delta) for key, delta in comparison.totals.items()),
        verdict="".join(f"<li>{text(line)}</li>" for line in (*comparison.verdict, *comparison.notes)),
        tables="\n".join(_section(section) for section in sections(comparison)[1:]),
    )


def _badge(comparison: ComparisonData) -> str:
    if comparison.equal:
        return '<span class="badge good">✓ no call differs</span>'
    counts = [(len(getattr(comparison, kind)), kind) for kind in ("added", "removed", "changed")]
    words = ", ".join(f"{exact(count)} {kind}" for count, kind in counts if count)
    return f'<span class="badge bad">calls: {words}</span>'


def _settings(comparison: ComparisonData) -> str:
    """One line for each side: status, and by what it was counted."""
    lines = []
    for name, report in zip(comparison.names, (comparison.old, comparison.new), strict=True):
        versions = " · ".join(" ".join(pair) for pair in report.versions.items())
        lines.append(f"{text(name)}: {report.status} · {text(versions)}")
    way = "by module and operator" if comparison.by == "module" else "by operator and cost, in order of execution"
    return "<br>".join([*lines, f"calls matched {way}"])


def _total(key: str, delta: Delta) -> str:
    title = METRICS[key][0].capitalize() if METRICS[key][1] == "bytes" or key == "n_params" else METRICS[key][0]
    value = exact(delta.new) if is_symbolic(delta.new) else readable(delta.new, key)
    if delta.equal:
        return card(title, value, "unchanged")
    ratio = "" if delta.ratio is None else f", ×{delta.ratio:.4f}"
    return card(title, value, f"was {readable(delta.old, key)}{ratio}")


def _section(section: Section) -> str:
    title, table, folded = section
    titles = zip(table.titles, table.numeric, strict=True)
    head = "".join(f"<th scope='col'{_numeric(n)}>{text(words[0])}</th>" for words, n in titles)
    body = "".join(_row(row, table.numeric) for row in table.rows)
    name = text(title)
    inside = (
        f"<div class='scroll' tabindex='0' role='group' aria-label='{name}'>"
        f"<table class='plain'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
    if not folded:
        return f"<section><h2>{name}</h2>{inside}</section>"
    return f"<section><details open><summary><h2>{name}</h2></summary>{inside}</details></section>"


def _row(row: Sequence[str], numeric: Sequence[bool]) -> str:
    """A row; one that goes on with the thing of the row before has no line above it."""
    cells = "".join(f"<td{_numeric(n)}>{text(cell)}</td>" for cell, n in zip(row, numeric, strict=True))
    return f"<tr>{cells}</tr>" if row[0] else f"<tr class='continued'>{cells}</tr>"


def _numeric(is_number: bool) -> str:
    return " class='n'" if is_number else ""
