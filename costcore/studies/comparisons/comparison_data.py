"""The differences between two reports as data: by call, by operator, in total, and a summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from costcore.errors import CostError
from costcore.ledger.caveats import mode_of, n_assumptions, not_counted
from costcore.ledger.module_paths import path_and_parents
from costcore.reports.data.report_data import ReportData
from costcore.studies.comparisons.differences import COMPARED, Delta, Difference
from costcore.studies.comparisons.kinds import Kind, in_words, kinds_of_change
from costcore.studies.comparisons.matching import Entry, is_free
from costcore.studies.comparisons.memory import MemoryComparison
from costcore.studies.comparisons.tied_weights import stored_again
from costcore.tables.costs import AMOUNTS
from costcore.tables.quantities import quantity
from costcore.tables.quantity import Quantity
from costcore.text.amounts import exact, readable
from costcore.text.encoding import encodable
from costcore.trace.call import Call


@dataclass(frozen=True, eq=False, repr=False)
class ComparisonData:
    """The comparison of two reports; :class:`~costcore.studies.comparisons.comparison.Comparison` adds text and files.

    Attributes:
        old, new: the reports.
        names: their names.
        by: how calls were matched: ``module`` or ``order``.
        pairs: matching entries of the two ``layer_report``, in order; None stands for a missing counterpart.
        columns: further quantities that are compared.
        suggestions: remarks on how to make the reports comparable, which :attr:`notes` includes.
    """

    old: ReportData
    new: ReportData
    names: tuple[str, str]
    by: str
    pairs: Sequence[tuple[Entry | None, Entry | None]]
    columns: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()

    def __repr__(self) -> str:
        counts = [f"{len(getattr(self, change))} {change}" for change in ("added", "removed", "changed")]
        return encodable(f"<Comparison: {' → '.join(self.names)}, calls: {', '.join(counts)}>")

    @cached_property
    def differences(self) -> list[Difference]:
        """Calls that were added, removed or changed, in order of the model.

        Matched by module, a call is changed if a cost, a shape or an attribute differs. Matched by order, a call is
        changed if its operator or a cost differs, because frameworks represent the same attributes and shapes
        differently; zero-cost calls are not compared.
        """
        differences = []
        compared = (*COMPARED, *self.columns)
        for old, new in self.pairs:
            if old is None or new is None:
                differences.append(Difference("added" if old is None else "removed", old, new, compared))
                continue
            difference = Difference("changed", old, new, compared)
            is_changed = bool(difference.settings) if self.by == "module" else old["op"] != new["op"]
            if is_changed or difference.costs:
                differences.append(difference)
        return differences

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
        """Calls that both reports have, with different costs, shapes or attributes."""
        return [difference for difference in self.differences if difference.change == "changed"]

    @property
    def moved(self) -> list[tuple[str, str]]:
        """Old and new path of modules that were renamed or moved; empty if calls were matched by order."""
        both = [(old["module"], new["module"]) for old, new in self.pairs if old is not None and new is not None]
        return [*dict.fromkeys(pair for pair in both if pair[0] != pair[1])] if self.by == "module" else []

    @property
    def titles(self) -> dict[str, str]:
        """The names of the costs; FLOPs have the name of what the conventions of the two reports count."""
        units = dict.fromkeys(report.trace.run.unit for report in (self.old, self.new))
        return {**{key: quantity(key).in_words for key in (*AMOUNTS, *self.columns)}, "flops": " → ".join(units)}

    @cached_property
    def totals(self) -> dict[str, Delta]:
        """The change of every total; a shared parameter counts once."""
        old, new = self.old.total_report, self.new.total_report
        totals = {key: Delta(old.get(key, 0), new.get(key, 0)) for key in COMPARED if key in old or key in new}
        return totals | {name: Delta(*(_total(quantity(name), side) for side in self._sides)) for name in self.columns}

    @cached_property
    def operators(self) -> dict[str, dict[str, Delta]]:
        """The change of the sums by operator, in order of first call; ``n_layers`` is the number of calls."""
        sides = [report.by("op") for report in (self.old, self.new)]
        names = dict.fromkeys((*sides[0], *sides[1]))
        for side, report in zip(sides, self._sides, strict=True):
            for name in self.columns:
                for op, calls in report.ledger.groups("op").items() if not quantity(name).is_of_run_only else ():
                    side[op][name] = quantity(name).of(report.ledger, calls) or 0
        keys = ("n_layers", *self.totals)
        return {op: {key: Delta(*(side.get(op, {}).get(key, 0) for side in sides)) for key in keys} for op in names}

    @cached_property
    def modules(self) -> dict[str, dict[str, Delta]]:
        """The change of the sums by module, each with all that is inside it; renamed ones have their new path."""
        sides = [_by_module(self.old, dict(self.moved)), _by_module(self.new, {})]
        keys = (*self.totals, "mrw")
        return {
            path: {key: Delta(*(side.get(path, {}).get(key, 0) for side in sides)) for key in keys}
            for path in dict.fromkeys((*sides[1], *sides[0]))
        }

    @property
    def _sides(self) -> tuple[ReportData, ReportData]:
        return self.old, self.new

    @cached_property
    def data_movement(self) -> Delta:
        """Bytes read and written by calls without FLOPs: copies, transposes, slices, casts, lookups."""
        entries = (report.ledger.entries.values() for report in self._sides)
        return Delta(*(sum(entry["mrw"] for entry in some if entry["flops"] == 0) for some in entries))

    @cached_property
    def memory(self) -> MemoryComparison | None:
        """The change of the peak of memory and of the blocks alive at it; None unless both reports have memory."""
        old, new = self.old.memory, self.new.memory
        return None if old is None or new is None else MemoryComparison(old, new, dict(self.moved))

    @cached_property
    def kinds(self) -> list[Kind]:
        """The kinds of change between two graphs: operators in other forms, and in place of others."""
        return kinds_of_change(self.old, self.new)

    @property
    def equal(self) -> bool:
        """Whether no call was added, removed or changed; modules can have been renamed."""
        return not self.differences

    @property
    def verdict(self) -> list[str]:
        """The summary: one sentence each on MACs, FLOPs, parameters, bytes, memory, and calls that are not counted.

        The first one says what a tool did to a graph, if it has other operators now. They are for ``print``, which
        finds ASCII characters where standard output has no arrows.
        """
        return [encodable(line) for line in self.sentences]

    @property
    def sentences(self) -> list[str]:
        """The sentences of :attr:`verdict` in Unicode."""
        totals, titles = self.totals, self.titles
        traffic = Delta(*(totals["mread"][side] + totals["mwrite"][side] for side in (0, 1)))
        lines = [
            *filter(None, [in_words(self.old, self.new, self.kinds)]),
            *(_sentence(titles[key], totals[key]) for key in ("macs", "flops", "n_params")),
            _sentence("bytes read and written", traffic),
        ]
        if not traffic.equal:
            lines.append(_sentence("of these, bytes of calls that only move data", self.data_movement))
        if "mcomm" in totals:
            lines.append(_sentence(titles["mcomm"], totals["mcomm"]))
        lines += [_sentence(titles[name], totals[name], quantity(name).kind) for name in self.columns]
        if self.memory is not None:
            lines.append(_sentence(quantity("peak_memory").in_words, self.memory.figures["peak"]))
        return [*lines, *self.missing]

    @property
    def missing(self) -> list[str]:
        """What the reports do not count, a sentence for each of them that is partial."""
        sides = zip(self.names, self._sides, strict=True)
        found = ((name, not_counted(report.trace)) for name, report in sides)
        return [f"{name} is partial: not counted: {missing}" for name, missing in found if missing]

    @property
    def notes(self) -> list[str]:
        """Remarks: calls that are not compared, assumptions, differing options, tied weights, and suggestions."""
        old, new = (
            {"layout": f"layout={run.layout!r}", "convention": run.convention, "tool": f"costcore {run.version}"}
            for run in (self.old.trace.run, self.new.trace.run)
        )
        free = [sum(map(is_free, report.ledger.entries.values())) for report in (self.old, self.new)]
        omitted = [f"calls that cost nothing are not compared: {free[0]} and {free[1]}"] if self.by == "order" else []
        assumptions = [
            f"{name} depends on {n_assumptions(report.trace)}"
            for name, report in zip(self.names, (self.old, self.new), strict=True)
            if report.assumptions
        ]
        options = [
            f"{self.names[0]} was counted with {old[key]}, {self.names[1]} with {new[key]}"
            for key in old
            if old[key] != new[key]
        ]
        ran = [mode_of(report.trace) for report in (self.old, self.new)]
        if all(ran) and ran[0] != ran[1]:
            options.append(f"{self.names[0]} ran in {ran[0]} mode, {self.names[1]} in {ran[1]} mode")
        sides = list(zip(self.names, (self.old.memory, self.new.memory), strict=True))
        without = [name for name, memory in sides if memory is None]
        memory = [f"peaks of memory are not compared: {without[0]} has none"] if len(without) == 1 else []
        tied = stored_again(self.old, self.new, self.names)
        return [*omitted * any(free), *assumptions, *options, *memory, *tied, *self.suggestions]


def _by_module(report: ReportData, renamed: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return the sums of every module with all that is inside it, by its path, which may be another one now."""
    inside: dict[str, list[Call]] = {}
    for call in report.ledger.calls:
        for path in path_and_parents(renamed.get(call.module, call.module)):
            inside.setdefault(path, []).append(call)
    return {path: report.ledger.sum(calls) for path, calls in inside.items()}


def _total(compared: Quantity, report: ReportData) -> Any:
    """Return a total that is known.

    Raises:
        CostError: if it is not.
    """
    value = compared.total(report.ledger)
    if value is None:
        raise CostError(f"{compared.name} is unknown: {'; '.join(compared.missing(report.ledger))}")
    return value


def _sentence(what: str, delta: Delta, kind: str = "flops") -> str:
    old, new = (readable(value, kind) if isinstance(value, float) else exact(value) for value in delta)
    if delta.equal:
        return f"{what}: equal, {new}"
    ratio = "" if delta.ratio is None else f", ×{delta.ratio:.4f}"
    more = delta.difference
    change = readable(more, kind, signed=True) if isinstance(more, float) else exact(more, signed=True)
    return f"{what}: {old} → {new} ({change}{ratio})"
