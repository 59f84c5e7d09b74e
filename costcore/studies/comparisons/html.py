"""A comparison as one self-contained HTML page without a script; details are in collapsible sections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from string import Template
from typing import TYPE_CHECKING

from costcore.numbers.dims import is_symbolic
from costcore.reports.html import file_text, policy
from costcore.reports.html.sections import card, heading, text
from costcore.studies.comparisons.render import difference_sections
from costcore.studies.comparisons.sections import Section
from costcore.text.amounts import MEMORY, exact, readable

if TYPE_CHECKING:
    from costcore.studies.comparisons.comparison_data import ComparisonData
    from costcore.studies.comparisons.differences import Delta

STYLES = ("page.css", "tables.css", "comparison.css")


def to_html(comparison: ComparisonData, title: str = "") -> str:
    """Return the comparison as an HTML page, the same text for equal comparisons.

    Names appear as text, never as markup, and the page's content security policy allows no script.

    Args:
        comparison: the comparison.
        title: heading of the page; default: the names of the two reports.
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
        totals="\n".join(_cards(comparison)),
        verdict="".join(f"<li>{text(line)}</li>" for line in (*comparison.verdict, *comparison.notes)),
        tables="\n".join(section_of(section) for section in difference_sections(comparison)),
    )


def _badge(comparison: ComparisonData) -> str:
    if comparison.equal:
        return '<span class="badge good">✓ no call differs</span>'
    counts = [(len(getattr(comparison, change)), change) for change in ("added", "removed", "changed")]
    changes = ", ".join(f"{exact(count)} {change}" for count, change in counts if count)
    return f'<span class="badge bad">calls: {changes}</span>'


def _settings(comparison: ComparisonData) -> str:
    """Return one line per report with its status and versions, and how the calls were matched."""
    lines = []
    for name, report in zip(comparison.names, (comparison.old, comparison.new), strict=True):
        versions = " · ".join(" ".join(pair) for pair in report.versions.items())
        lines.append(f"{text(name)}: {report.status} · {text(versions)}")
    matched = "by module and operator" if comparison.by == "module" else "by operator and cost, in order of execution"
    return "<br>".join([*lines, f"calls matched {matched}"])


def _cards(comparison: ComparisonData) -> Iterator[str]:
    """Yield a card per total, and one of the peak of memory; an abbreviation such as FLOPs keeps its capitals."""
    for key, delta in comparison.totals.items():
        name = comparison.titles[key]
        yield _card(name if key in ("flops", "macs") else name.capitalize(), key, delta)
    if comparison.memory is not None:
        yield _card(MEMORY["peak_memory"][0].capitalize(), "peak_memory", comparison.memory.figures["peak"])


def _card(name: str, key: str, delta: Delta) -> str:
    """Return the card of a total with its change."""
    title = text(name)
    value = exact(delta.new) if is_symbolic(delta.new) else readable(delta.new, key)
    if delta.equal:
        return card(title, value, "unchanged")
    ratio = "" if delta.ratio is None else f", ×{delta.ratio:.4f}"
    return card(title, value, f"was {readable(delta.old, key)}{ratio}")


def section_of(section: Section) -> str:
    """Return a section with a table."""
    title, table, is_detail = section
    titles = zip(table.titles, table.numeric, strict=True)
    head = "".join(f"<th scope='col'{_numeric(n)}>{text(column)}</th>" for (column, _), n in titles)
    body = "".join(_row(row, table.numeric) for row in table.rows)
    name = text(title)
    content = (
        f"<div class='scroll' tabindex='0' role='group' aria-label='{name}'>"
        f"<table class='plain'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
    if not is_detail:
        return f"<section><h2>{name}</h2>{content}</section>"
    return f"<section><details open><summary><h2>{name}</h2></summary>{content}</details></section>"


def _row(row: Sequence[str], numeric: Sequence[bool]) -> str:
    """Return a row; a row with an empty first cell continues the row above, without a line between them."""
    cells = "".join(f"<td{_numeric(n)}>{text(cell)}</td>" for cell, n in zip(row, numeric, strict=True))
    return f"<tr>{cells}</tr>" if row[0] else f"<tr class='continued'>{cells}</tr>"


def _numeric(is_number: bool) -> str:
    return " class='n'" if is_number else ""
