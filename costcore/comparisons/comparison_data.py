"""What changed between two reports, as data: calls, totals, operators, and a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from costcore.comparisons.differences import COMPARED, Delta, Difference
from costcore.comparisons.matching import Entry, is_free
from costcore.dims import Dim
from costcore.reports.caveats import not_counted
from costcore.reports.report_data import ReportData
from costcore.reports.text.amounts import METRICS, exact


@dataclass(frozen=True, eq=False)
class ComparisonData:
    """Two reports side by side, as data; :class:`~costcore.comparisons.comparison.Comparison` adds text and files.

    Attributes:
        old, new: the reports.
        names: what they are called.
        by: how calls were matched: ``module`` or ``order``.
        pairs: entries of the two ``layer_report`` that belong together, in order; None where there is no counterpart.
    """

    old: ReportData
    new: ReportData
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
        return Delta(*(_moved_bytes(report.ledger.entries.values()) for report in (self.old, self.new)))

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
            if missing := not_counted(report.trace):
                lines.append(f"{name} is partial: not counted: {missing}")
        return lines

    @property
    def notes(self) -> list[str]:
        """What a reader of the comparison should know: what is left out, and what was counted by other rules."""
        old, new = (
            {"layout": f"layout={run.layout!r}", "convention": run.convention, "tool": f"costcore {run.version}"}
            for run in (self.old.trace.run, self.new.trace.run)
        )
        free = [sum(map(is_free, report.ledger.entries.values())) for report in (self.old, self.new)]
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


def _moved_bytes(entries: Iterable[Mapping[str, Any]]) -> Dim:
    return sum(entry["mrw"] for entry in entries if entry["flops"] == 0)


def _sentence(what: str, delta: Delta) -> str:
    if delta.equal:
        return f"{what}: equal, {exact(delta.new)}"
    ratio = "" if delta.ratio is None else f", ×{delta.ratio:.4f}"
    return f"{what}: {exact(delta.old)} → {exact(delta.new)} ({exact(delta.difference, signed=True)}{ratio})"
