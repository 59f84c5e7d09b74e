"""Compare two reports: :func:`compare` returns a :class:`Comparison`, which prints as text, JSON, Markdown or HTML.

The HTML page has no script; its map draws an area per module, colored by the change of its cost.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import IO, Any, NamedTuple

from costcore.errors import CostError, unknown
from costcore.ledger.modules import deepest_that_fit
from costcore.numbers import is_symbolic, magnitude
from costcore.reports.report import Report
from costcore.studies.comparisons.matching import COMPARED, Delta, Pair, by_module, by_order
from costcore.studies.comparisons.render import (
    ComparisonData,
    difference_sections,
    sections_of,
    to_comment,
    to_dict,
    to_text,
)
from costcore.tables.answer import MOST_ROWS, Content, Figure
from costcore.tables.html import page, text
from costcore.tables.quantity import numeric, quantity
from costcore.tables.renderers import terminal_width
from costcore.tables.result import Result
from costcore.text.amounts import Formatted, exact, readable
from costcore.text.screen import Target, encodable, save, writable

MATCHINGS = ("module", "order")
"""The values of ``by`` in :func:`compare`."""

MODES = ("table", "md", "comment", "json", "html")
"""Formats of :meth:`Comparison.show`."""


class Comparison(Result, ComparisonData):
    """The comparison of two reports; the result of :func:`compare`.

    Attributes:
        old, new: the reports.
        names: their names.
        by: how calls were matched: ``module`` or ``order``.
        pairs: matching entries of the two ``layer_report``, in order; None stands for a missing counterpart.
    """

    def _content(self) -> Content:
        return Content(" → ".join(self.names), (), sections_of(self), [*self.sentences, *self.notes])

    def _text(
        self, mode: str = "table", unit: str | None = "auto", n_digits: int | None = None, *, is_whole: bool = True
    ) -> str:
        return to_text(self, mode, None if is_whole else MOST_ROWS).rstrip("\n")

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison in plain JSON types, symbolic expressions as text; schema ``costcore-comparison-1``."""
        return {**super().to_dict(), **to_dict(self)}

    def to_json(self, target: Target = None, indent: int | None = 2) -> str:
        """Return :meth:`to_dict` as JSON text, and write it to ``target``, a path or a stream, if given."""
        return super().to_json(target, indent)

    def to_markdown(self, target: Target = None, top: int | None = 50) -> str:
        """Return Markdown: totals first, details in collapsible sections.

        Args:
            target: a path or a stream to which the text is also written.
            top: the maximum number of rows per table; a line states how many more there are. None for all.
        """
        return save(to_text(self, "md", top), target)

    def to_comment(self, target: Target = None) -> str:
        """Return a comment on a pull request: Markdown with totals and sums by module that fit one screen.

        Its first line is the same for all comments, so that a script can find and update it.

        Args:
            target: a path or a stream to which the text is also written.
        """
        return save(to_comment(self), target)

    def to_html(self, target: Target = None, title: str = "") -> str:
        """Return one self-contained HTML page without a script, and write it to ``target`` if given."""
        return save(to_html(self, title), target)

    def show(  # type: ignore[override]  # documented with the rows in third place
        self, ost: IO[str] | None = None, mode: str = "table", top: int | None = None
    ) -> None:
        """Write what ``print`` shows, with all rows of its tables, or another format.

        Args:
            ost: the stream; default: standard output.
            mode: ``table``, ``md``, ``comment`` (see :meth:`to_comment`), ``json`` or ``html``.
            top: the maximum number of rows per table; None for all. JSON and HTML contain all rows, a comment as
                many as fit one screen.

        Raises:
            ValueError: if the mode is unknown.
        """
        if mode not in MODES:
            raise ValueError(unknown("mode", mode, MODES))
        without_top: Any = {"json": self.to_json, "html": self.to_html, "comment": self.to_comment}.get(mode)
        stream = writable(ost or sys.stdout)
        text = without_top() if without_top else to_text(self, mode, top, terminal_width(stream))
        stream.write(encodable(text, stream))


def compare(
    old: Report,
    new: Report,
    *,
    by: str | None = None,
    names: tuple[str, str] = ("old", "new"),
    columns: Sequence[str] = (),
) -> Comparison:
    """Return the differences between two reports.

    Args:
        old: a report.
        new: a report with the same counting convention.
        by: how calls are matched. ``module``: by module and operator, for two versions of a model. ``order``: by
            operator and cost in order of execution, for a model and its conversion to another framework. Default:
            ``order`` if the frameworks differ, else ``module``.
        names: names of the two reports in the output.
        columns: quantities to compare besides FLOPs, MACs, bytes and parameters, ``["fused_mrw", "flops@fvcore"]``.

    Raises:
        TypeError: if ``old`` or ``new`` is not a report.
        ValueError: if ``by`` or a name in ``columns`` is invalid.
        CostError: if one report counts a fused multiply-add as one FLOP and the other as two, or if their bytes are
            those after different levels of fusion; also if a report does not have a quantity.
    """
    for report in (old, new):
        if not isinstance(report, Report):
            raise TypeError(f"compare expects two reports, as estimate returns them (got {type(report).__name__})")
    if by not in (None, *MATCHINGS):
        raise ValueError(unknown("value of by:", by, MATCHINGS))
    if old.trace.run.fma_1flop != new.trace.run.fma_1flop:
        counts = ["one FLOP" if report.trace.run.fma_1flop else "two FLOPs" for report in (old, new)]
        raise CostError(
            f"cannot compare the reports: {names[0]} counts a fused multiply-add as {counts[0]}, {names[1]} as "
            f"{counts[1]}. Count both with the same fma_1flop."
        )
    levels = ["unfused" if report.trace.run.fusion is None else report.trace.run.fusion.level for report in (old, new)]
    if levels[0] != levels[1]:
        raise CostError(
            f"cannot compare the reports: bytes of {names[0]} are {levels[0]}, those of {names[1]} are {levels[1]}. "
            "Use report.fused(level).report of both, or of neither."
        )
    if by is None:
        by = "module" if old.trace.run.frameworks.keys() == new.trace.run.frameworks.keys() else "order"
    more = tuple(name for name in dict.fromkeys(columns) if name not in COMPARED and numeric(name))
    olds, news = (_entries(report, more) for report in (old, new))
    matched: list[Pair] = by_module(olds, news) if by == "module" else by_order(olds, news)
    pairs = [(None if i is None else olds[i], None if j is None else news[j]) for i, j in matched]
    return Comparison(old, new, names, by, pairs, more)


def _entries(report: Report, columns: Sequence[str]) -> list[dict[str, Any]]:
    entries = [*report.layer_report.values()]
    for name in columns:
        found = numeric(name)
        for entry, value in zip(entries, () if found.is_of_run_only else found.by_call(report.ledger), strict=False):
            entry[name] = value
    return entries


# One self-contained HTML page, details in collapsible sections.


def to_html(comparison: ComparisonData, title: str = "") -> str:
    """Return the comparison as an HTML page, the same text for equal comparisons.

    Names appear as text, never as markup, and the page's content security policy allows no script.

    Args:
        comparison: the comparison.
        title: heading of the page; default: the names of the two reports.
    """
    lines = [*comparison.sentences, *comparison.notes]
    names = " → ".join(comparison.names)
    answer = Content(names, [*_cards(comparison)], difference_sections(comparison), lines)
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
    lines = []
    for name, report in zip(comparison.names, (comparison.old, comparison.new), strict=True):
        versions = " · ".join(" ".join(pair) for pair in report.versions.items())
        lines.append(f"{text(name)}: {report.status} · {text(versions)}")
    matched = "by module and operator" if comparison.by == "module" else "by operator and cost, in order of execution"
    return "<br>".join([*lines, f"calls matched {matched}"])


def _cards(comparison: ComparisonData) -> Iterator[Figure]:
    for key, delta in comparison.totals.items():
        # Not ``capitalize``: an abbreviation such as FLOPs keeps its capitals.
        name = comparison.titles[key]
        yield _card(name[:1].upper() + name[1:], quantity(key).kind, delta)
    if comparison.memory is not None:
        yield _card(quantity("peak_memory").in_words.capitalize(), "bytes", comparison.memory.figures["peak"])


def _card(title: str, kind: str, delta: Delta) -> Figure:
    value = exact(delta.new) if is_symbolic(delta.new) else readable(delta.new, kind)
    if delta.equal:
        return Figure(title, title, Formatted(delta.new, value), kind, "unchanged")
    ratio = "" if delta.ratio is None else f", ×{delta.ratio:.4f}"
    return Figure(title, title, Formatted(delta.new, value), kind, f"was {readable(delta.old, kind)}{ratio}")


# Map of the modules: area by the larger cost of the two reports, color by the change.


WIDTH, HEIGHT = 1000, 260

MOST_AREAS = 40
"""The maximum number of areas: modules are shown as deep in the model as this many fit."""

LETTER = 8
"""The width of a letter of a name; a name that does not fit its area is left out."""

CLASSES = {"unchanged": "same", "less": "less", "more": "more", "added": "more", "removed": "less"}
"""The class of an area by change of the module."""


class Area(NamedTuple):
    """A rectangle of a module."""

    path: str
    left: float
    top: float
    width: float
    height: float


def svg(comparison: ComparisonData, key: str = "flops") -> str:
    """Return the map as an SVG element with its legend; empty without modules that have a cost."""
    if comparison.by != "module":
        return ""
    sums = {path: each[key] for path, each in comparison.modules.items() if path and _weight(each[key])}
    shown = sorted(deepest_that_fit(sums, MOST_AREAS), key=lambda path: _weight(sums[path]), reverse=True)
    if len(shown) < 2:
        return ""
    weights = [(path, _weight(sums[path])) for path in shown]
    areas = "".join(_drawn(area, sums[area.path], key) for area in areas_of(weights, (0, 0, WIDTH, HEIGHT)))
    title = f"{comparison.titles[key]} by module"
    legend = "".join(f"<span class='key {name}'></span> {name} " for name in ("more", "less", "same"))
    return (
        f"<section><h2>{text(title)}</h2><svg id='map' viewBox='0 0 {WIDTH} {HEIGHT}' role='img' "
        f"aria-label='Area of each module; the table by module has the numbers'>{areas}</svg>"
        f"<p class='note'>{legend}· an area is the larger of old and new</p></section>"
    )


def areas_of(weights: Sequence[tuple[str, int]], frame: tuple[float, float, float, float]) -> Iterator[Area]:
    """Yield areas in proportion to the weights: the frame is halved along its longer side, again and again."""
    left, top, width, height = frame
    if len(weights) == 1:
        yield Area(weights[0][0], left, top, width, height)
        return
    total, first, n = sum(weight for _, weight in weights), weights[0][1], 1
    while n < len(weights) - 1 and 2 * (first + weights[n][1]) <= total:
        first += weights[n][1]
        n += 1
    share = first / total
    if width >= height:
        frames = (left, top, width * share, height), (left + width * share, top, width * (1 - share), height)
    else:
        frames = (left, top, width, height * share), (left, top + height * share, width, height * (1 - share))
    yield from areas_of(weights[:n], frames[0])
    yield from areas_of(weights[n:], frames[1])


def _weight(delta: Delta) -> int:
    return int(max(magnitude(delta.old), magnitude(delta.new)))


def _drawn(area: Area, delta: Delta, key: str) -> str:
    old, new = magnitude(delta.old), magnitude(delta.new)
    what = "more" if new > old else "less"
    what = "unchanged" if delta.equal else "added" if not old else "removed" if not new else what
    kind = quantity(key).kind
    said = f"{area.path}: {what}, {readable(delta.old, kind)} → {readable(delta.new, kind)}"
    box = f"x='{area.left:.1f}' y='{area.top:.1f}' width='{area.width:.1f}' height='{area.height:.1f}'"
    name = ""
    if area.width > LETTER * len(area.path) + 8 and area.height > 20:
        name = f"<text x='{area.left + 6:.1f}' y='{area.top + 16:.1f}'>{text(area.path)}</text>"
    return f"<g class='{CLASSES[what]}'><title>{text(said)}</title><rect {box}/>{name}</g>"
