"""Compare two reports, and write the comparison as text, JSON or HTML."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import IO, Any

from costcore.errors import CostError
from costcore.messages import unknown
from costcore.renamed import renamed
from costcore.reports.report import Report
from costcore.studies.comparisons.comment import to_comment
from costcore.studies.comparisons.comparison_data import ComparisonData
from costcore.studies.comparisons.differences import COMPARED
from costcore.studies.comparisons.matching import Pair, by_module, by_order
from costcore.studies.comparisons.render import sections_of, to_text
from costcore.studies.comparisons.to_json import to_dict
from costcore.tables.answer import Answer
from costcore.tables.fit import terminal_width
from costcore.tables.quantities import numeric
from costcore.tables.result import Result
from costcore.tables.table_data import MOST_ROWS
from costcore.text.encoding import encodable
from costcore.text.targets import Target, save, writable

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

    def _answer(self) -> Answer:
        return Answer(" → ".join(self.names), (), sections_of(self), [*self.sentences, *self.notes])

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

    @renamed(limit="top")
    def to_markdown(self, target: Target = None, top: int | None = 50) -> str:
        """Return Markdown: totals first, details in collapsible sections.

        Args:
            target: a path or a stream to which the text is also written.
            top: the maximum number of rows per table; a line states how many more there are. None for all.
        """
        return save(to_text(self, "md", top), target)

    def to_comment(self, target: Target = None) -> str:
        """Return a comment on a pull request: Markdown with totals and sums by module that fit one screen.

        Its first line is the same for all comments, so that a script finds the one that it updates.

        Args:
            target: a path or a stream to which the text is also written.
        """
        return save(to_comment(self), target)

    def to_html(self, target: Target = None, title: str = "") -> str:
        """Return one self-contained HTML page without a script, and write it to ``target`` if given."""
        from costcore.studies.comparisons.html import to_html

        return save(to_html(self, title), target)

    @renamed(limit="top")
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
    """Return the entries of all calls, with further quantities."""
    entries = [*report.layer_report.values()]
    for name in columns:
        found = numeric(name)
        for entry, value in zip(entries, () if found.is_of_run_only else found.by_call(report.ledger), strict=False):
            entry[name] = value
    return entries
