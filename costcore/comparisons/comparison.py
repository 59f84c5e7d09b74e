"""What changed between two reports: of two versions of a model, or of a model and its export."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import IO, Any

from costcore.comparisons.differences import COMPARED, Delta, Difference
from costcore.comparisons.matching import Entry, Pair, by_module, by_order, is_free
from costcore.dims import Dim
from costcore.errors import CostError
from costcore.reports.caveats import not_counted
from costcore.reports.report import Report
from costcore.reports.serialization.targets import Target, save, writable
from costcore.reports.text.amounts import METRICS, exact

WAYS = ("module", "order")


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two reports side by side; made by :func:`compare`.

    Attributes:
        old, new: the reports.
        names: what they are called.
        by: how calls were matched: ``module`` or ``order``.
        pairs: entries of the two ``layer_report`` that belong together, in order; None where there is no counterpart.
    """

    old: Report
    new: Report
    names: tuple[str, str]
    by: str
    pairs: Sequence[tuple[Entry | None, Entry | None]]

    @cached_property
    def differences(self) -> list[Difference]:
        """Calls that were added, removed or changed, in order of the model.

        Matched by module, a call is changed where a cost, a shape or a setting is; matched by order, where its
        operator or a cost is: frameworks word the same settings and shapes differently, and free calls are left out.
        """
        found = []
        for old, new in self.pairs:
            if old is None or new is None:
                found.append(Difference("added" if old is None else "removed", old, new))
                continue
            difference = Difference("changed", old, new)
            differ = bool(difference.settings) if self.by == "module" else old["op"] != new["op"]
            if differ or difference.costs:
                found.append(difference)
        return found

    @property
    def added(self) -> list[Difference]:
        """Calls that only the new report has."""
        return [difference for difference in self.differences if difference.change == "added"]

    @property
    def removed(self) -> list[Difference]:
        """Calls that only the old report has."""
        return [difference for difference in self.differences if difference.change == "removed"]

    @property
    def changed(self) -> list[Difference]:
        """Calls that both have, with different costs, shapes or settings."""
        return [difference for difference in self.differences if difference.change == "changed"]

    @property
    def moved(self) -> list[tuple[str, str]]:
        """Old and new path of modules whose calls were matched under another path; matched by module only."""
        both = [(old["module"], new["module"]) for old, new in self.pairs if old is not None and new is not None]
        return [*dict.fromkeys(pair for pair in both if pair[0] != pair[1])] if self.by == "module" else []

    @cached_property
    def totals(self) -> dict[str, Delta]:
        """Every cost in total; parameters once."""
        old, new = self.old.total_report, self.new.total_report
        return {key: Delta(old[key], new[key]) for key in COMPARED}

    @cached_property
    def operators(self) -> dict[str, dict[str, Delta]]:
        """Sums by neutral operator, ``n_layers`` among them, in order of first call; a parameter once in each."""
        sides = [report.by("op") for report in (self.old, self.new)]
        names = dict.fromkeys((*sides[0], *sides[1]))
        keys = ("n_layers", *COMPARED)
        return {op: {key: Delta(*(side.get(op, {}).get(key, 0) for side in sides)) for key in keys} for op in names}

    @cached_property
    def data_movement(self) -> Delta:
        """Bytes read and written by calls without arithmetic: copies, transposes, slices, casts, lookups."""
        return Delta(*(_moved_bytes(report._ledger.entries.values()) for report in (self.old, self.new)))

    @property
    def equal(self) -> bool:
        """Whether no call was added, removed or changed; a module may have another name."""
        return not self.differences

    @property
    def verdict(self) -> list[str]:
        """One sentence each on MACs, FLOPs, parameters and bytes, and on what neither figure holds."""
        totals = self.totals
        traffic = Delta(*(totals["mread"][side] + totals["mwrite"][side] for side in (0, 1)))
        lines = [
            *(_sentence(METRICS[key][0], totals[key]) for key in ("macs", "flops", "n_params")),
            _sentence("bytes read and written", traffic),
        ]
        if not traffic.equal:
            lines.append(_sentence("of these, bytes of calls that only move data", self.data_movement))
        for name, report in zip(self.names, (self.old, self.new), strict=True):
            if missing := not_counted(report._priced):
                lines.append(f"{name} is partial: not counted: {missing}")
        return lines

    @property
    def notes(self) -> list[str]:
        """What a reader of the comparison should know: what is left out, and what was counted by other rules."""
        old, new = (
            {"layout": f"layout={run.layout!r}", "convention": run.convention, "tool": f"costcore {run.version}"}
            for run in (self.old._run, self.new._run)
        )
        free = [sum(map(is_free, report._ledger.entries.values())) for report in (self.old, self.new)]
        left_out = [f"calls that cost nothing are not compared: {free[0]} and {free[1]}"] if self.by == "order" else []
        assumed = [
            f"{name} rests on assumptions: {len(report.assumptions)} in its report"
            for name, report in zip(self.names, (self.old, self.new), strict=True)
            if report.assumptions
        ]
        counted = [
            f"{self.names[0]} was counted with {old[key]}, {self.names[1]} with {new[key]}"
            for key in old
            if old[key] != new[key]
        ]
        return [*left_out * any(free), *assumed, *counted]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data; expressions as text. The schema is ``costcore-comparison-1``."""
        from costcore.comparisons.render import to_dict

        return to_dict(self)

    def to_json(self, target: Target = None) -> str:
        """:meth:`to_dict` as JSON text; written to ``target``, a path or a stream, where given."""
        from costcore.comparisons.render import to_json

        return save(to_json(self), target)

    def to_markdown(self, target: Target = None, limit: int | None = 50) -> str:
        """A text fit for a comment on a pull request: totals first, details folded away.

        Args:
            target: a path or a stream to write to as well.
            limit: rows of any one table at most; how many were left out is said. None is all.
        """
        from costcore.comparisons.render import to_text

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
        import sys

        from costcore.comparisons.render import render

        writable(ost or sys.stdout).write(render(self, mode, limit))


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
    if old._run.fma_1flop != new._run.fma_1flop:
        words = ["one FLOP" if report._run.fma_1flop else "two FLOPs" for report in (old, new)]
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
    return set(old._run.frameworks) != set(new._run.frameworks)


def _moved_bytes(entries: Iterable[Mapping[str, Any]]) -> Dim:
    return sum(entry["mrw"] for entry in entries if entry["flops"] == 0)


def _sentence(what: str, delta: Delta) -> str:
    if delta.equal:
        return f"{what}: equal, {exact(delta.new)}"
    ratio = "" if delta.ratio is None else f", ×{delta.ratio:.4f}"
    return f"{what}: {exact(delta.old)} → {exact(delta.new)} ({exact(delta.difference, signed=True)}{ratio})"
