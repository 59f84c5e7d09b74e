"""A comparison as one self-contained HTML page without a script; details are in collapsible sections."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from costcore.numbers.dims import is_symbolic
from costcore.studies.comparisons.map import svg
from costcore.studies.comparisons.render import difference_sections
from costcore.tables.answer import Answer, Figure
from costcore.tables.html import page, text
from costcore.tables.quantities import quantity
from costcore.text.amounts import exact, readable
from costcore.text.values import Shown

if TYPE_CHECKING:
    from costcore.studies.comparisons.comparison_data import ComparisonData
    from costcore.studies.comparisons.differences import Delta


def to_html(comparison: ComparisonData, title: str = "") -> str:
    """Return the comparison as an HTML page, the same text for equal comparisons.

    Names appear as text, never as markup, and the page's content security policy allows no script.

    Args:
        comparison: the comparison.
        title: heading of the page; default: the names of the two reports.
    """
    lines = [*comparison.sentences, *comparison.notes]
    names = " → ".join(comparison.names)
    answer = Answer(names, [*_cards(comparison)], difference_sections(comparison), lines)
    return page(
        answer, title, _badge(comparison), _settings(comparison), comparison.new.trace.run.version, svg(comparison)
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


def _cards(comparison: ComparisonData) -> Iterator[Figure]:
    """Yield a card per total, and one of the peak of memory; an abbreviation such as FLOPs keeps its capitals."""
    for key, delta in comparison.totals.items():
        name = comparison.titles[key]
        yield _card(name[:1].upper() + name[1:], quantity(key).kind, delta)
    if comparison.memory is not None:
        yield _card(quantity("peak_memory").in_words.capitalize(), "bytes", comparison.memory.figures["peak"])


def _card(title: str, kind: str, delta: Delta) -> Figure:
    """Return a total with its change."""
    value = exact(delta.new) if is_symbolic(delta.new) else readable(delta.new, kind)
    if delta.equal:
        return Figure(title, title, Shown(delta.new, value), kind, "unchanged")
    ratio = "" if delta.ratio is None else f", ×{delta.ratio:.4f}"
    return Figure(title, title, Shown(delta.new, value), kind, f"was {readable(delta.old, kind)}{ratio}")
