"""What changed between two reports: of two versions of a model, or of a model and its export."""

from __future__ import annotations

import sys
from typing import IO, Any

from costcore.comparisons.comparison_data import ComparisonData
from costcore.comparisons.matching import Pair, by_module, by_order
from costcore.comparisons.render import to_text
from costcore.comparisons.to_json import to_dict, to_json
from costcore.errors import CostError
from costcore.reports.report import Report
from costcore.reports.serialization.targets import Target, save, writable

WAYS = ("module", "order")

MODES = ("table", "md", "json", "html")
"""What :meth:`Comparison.show` writes."""


class Comparison(ComparisonData):
    """Two reports side by side; made by :func:`compare`.

    Attributes:
        old, new: the reports.
        names: what they are called.
        by: how calls were matched: ``module`` or ``order``.
        pairs: entries of the two ``layer_report`` that belong together, in order; None where there is no counterpart.
    """

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data; expressions as text. The schema is ``costcore-comparison-1``."""
        return to_dict(self)

    def to_json(self, target: Target = None) -> str:
        """:meth:`to_dict` as JSON text; written to ``target``, a path or a stream, where given."""
        return save(to_json(self), target)

    def to_markdown(self, target: Target = None, limit: int | None = 50) -> str:
        """A text fit for a comment on a pull request: totals first, details folded away.

        Args:
            target: a path or a stream to write to as well.
            limit: rows of any one table at most; how many were left out is said. None is all.
        """
        return save(to_text(self, "md", limit), target)

    def to_html(self, target: Target = None, title: str = "") -> str:
        """One self-contained HTML page without a script; written to ``target``, a path or a stream, where given."""
        from costcore.comparisons.html import to_html

        return save(to_html(self, title), target)

    def show(self, ost: IO[str] | None = None, mode: str = "table", limit: int | None = None) -> None:
        """Write it as ``table``, ``md``, ``json`` or ``html`` to a stream, standard output where none is given.

        Raises:
            ValueError: for an unknown mode; names the known.
        """
        if mode not in MODES:
            raise ValueError(f"mode={mode!r} is not known; accepted are {', '.join(map(repr, MODES))}")
        whole = {"json": self.to_json, "html": self.to_html}.get(mode)
        writable(ost or sys.stdout).write(whole() if whole else to_text(self, mode, limit))


def compare(old: Report, new: Report, *, by: str | None = None, names: tuple[str, str] = ("old", "new")) -> Comparison:
    """What changed from ``old`` to ``new``.

    Args:
        old: a report.
        new: another one, of the same convention.
        by: how calls are matched. ``module``: by module and operator, for two versions of a model. ``order``: by
            operator and cost in order of execution, for a model and its conversion to another framework. Where not
            given: ``order`` between different frameworks, else ``module``.
        names: what the two are called.

    Raises:
        TypeError, ValueError: for an argument that is not accepted.
        CostError: where one counts a fused multiply-add as one FLOP and the other as two.
    """
    for report in (old, new):
        if not isinstance(report, Report):
            raise TypeError(f"compare takes two reports, as estimate makes them, got {type(report).__name__}")
    if by not in (None, *WAYS):
        raise ValueError(f"by={by!r} is not known; accepted are {', '.join(map(repr, WAYS))}")
    if old.trace.run.fma_1flop != new.trace.run.fma_1flop:
        words = ["one FLOP" if report.trace.run.fma_1flop else "two FLOPs" for report in (old, new)]
        raise CostError(
            f"{names[0]} counts a fused multiply-add as {words[0]}, {names[1]} as {words[1]}: they cannot be compared; "
            "make both with the same fma_1flop"
        )
    if by is None:
        by = "order" if _frameworks_differ(old, new) else "module"
    olds, news = (list(report.layer_report.values()) for report in (old, new))
    found: list[Pair] = by_module(olds, news) if by == "module" else by_order(olds, news)
    pairs = [(None if i is None else olds[i], None if j is None else news[j]) for i, j in found]
    return Comparison(old, new, names, by, pairs)


def _frameworks_differ(old: Report, new: Report) -> bool:
    return set(old.trace.run.frameworks) != set(new.trace.run.frameworks)
