"""The differences between two reports as data: by call, operator and module, in total, and of memory.

:class:`ComparisonData` derives differences, totals and sums lazily from the matched calls; all formats read it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from costcore.analyses.memory.live_memory import Memory
from costcore.errors import CostError
from costcore.ledger.ledger import mode_of, n_assumptions, not_counted
from costcore.ledger.modules import path_and_parents
from costcore.numbers import Dim
from costcore.reports.data import ReportData
from costcore.studies.comparisons.conversion import (
    Conversion,
    ConversionChange,
    conversion_changes,
    conversion_in_words,
    conversion_of_macs,
    conversions,
)
from costcore.studies.comparisons.matching import (
    COMPARED,
    Calls,
    Delta,
    Difference,
    Kind,
    in_words,
    is_free,
    kinds_of_change,
)
from costcore.tables.answer import Content
from costcore.tables.quantity import AMOUNTS, Quantity, quantity
from costcore.tables.result import Result, Table
from costcore.text.amounts import Formatted, brief, exact, readable
from costcore.text.output import Column, encodable
from costcore.trace.call import Call
from costcore.trace.run import KINDS


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
    pairs: Sequence[Calls]
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
        """The names of the costs; FLOPs are named by the units of the two conventions."""
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
        return kinds_of_change(self.old, self.new) if self.is_of_one_framework else []

    @cached_property
    def conversions(self) -> list[Conversion]:
        """The changes of a conversion, in order; empty unless calls were matched by order."""
        return [*conversions(self.pairs)] if self.by == "order" else []

    @cached_property
    def conversion(self) -> list[ConversionChange]:
        """The kinds of change of a conversion."""
        return conversion_changes(self.conversions)

    @cached_property
    def changes_in_words(self) -> list[str]:
        """What a tool or a conversion to another framework did to the operators."""
        if self.is_of_one_framework:
            return [*filter(None, [in_words(self.old, self.new, self.kinds)])]
        return conversion_in_words(self.conversion, self.old, self.new)

    @property
    def is_of_one_framework(self) -> bool:
        """Whether both reports are of one framework, so that a tool rewrote a graph."""
        return self.old.trace.run.frameworks.keys() == self.new.trace.run.frameworks.keys()

    @property
    def equal(self) -> bool:
        """Whether no call was added, removed or changed; modules can have been renamed."""
        return not self.differences

    @property
    def summary(self) -> list[str]:
        """One sentence each on MACs, FLOPs, parameters, bytes, memory, and calls that are not counted.

        The first sentence describes graph rewrites, if operators changed. The text is for ``print``: ASCII characters
        replace arrows that standard output cannot encode.
        """
        return [encodable(line) for line in self.sentences]

    @property
    def sentences(self) -> list[str]:
        """The sentences of :attr:`summary` in Unicode."""
        totals, titles = self.totals, self.titles
        traffic = Delta(*(totals["mread"][side] + totals["mwrite"][side] for side in (0, 1)))
        lines = [
            *self.changes_in_words,
            _sentence(titles["macs"], totals["macs"]),
            *filter(None, [conversion_of_macs(self.conversions)]),
            *(_sentence(titles[key], totals[key]) for key in ("flops", "n_params")),
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
        """Uncounted operators, a sentence per partial report."""
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
    inside: dict[str, list[Call]] = {}
    for call in report.ledger.calls:
        # Renamed modules are listed under their new path.
        for path in path_and_parents(renamed.get(call.module, call.module)):
            inside.setdefault(path, []).append(call)
    return {path: report.ledger.sum(calls) for path, calls in inside.items()}


def _total(compared: Quantity, report: ReportData) -> Any:
    value = compared.total(report.ledger)
    if value is None:
        raise CostError(f"{compared.name} is unknown: {'; '.join(compared.missing(report.ledger))}")
    return value


def _sentence(what: str, delta: Delta, kind: str = "flops") -> str:
    old, new = (readable(value, kind) if isinstance(value, float) else exact(value) for value in delta)
    if delta.equal:
        return f"{what}: equal, {new}"
    ratio = f", {delta.factor}" if delta.factor else ""
    more = delta.difference
    change = readable(more, kind, signed=True) if isinstance(more, float) else exact(more, signed=True)
    return f"{what}: {old} → {new} ({change}{ratio})"


# Tied weights that one of the reports stores several times.


def stored_again(old: ReportData, new: ReportData, names: tuple[str, str]) -> Iterator[str]:
    """Yield a remark for each report that stores tied weights of the other several times.

    A weight is tied if several modules or operators read it, as an embedding and the head of a language model do. An
    exporter that transposes it for one of them stores it twice. Another merges weights of equal values, such as the
    biases of a new network, which then look tied.

    Args:
        old: a report.
        new: a report.
        names: their names.
    """
    sizes = [Counter(report.trace.run.parameters.values()) for report in (old, new)]
    tied = [_tied(report) for report in (old, new)]
    for one, other in ((0, 1), (1, 0)):
        counts = {
            size: min(readers - tied[other][size], sizes[other][size] - sizes[one][size])
            for size, readers in tied[one].items()
        }
        again = sum(size * count for size, count in counts.items() if count > 0)
        if again:
            yield (
                f"{names[other]} stores {exact(again)} parameters again that {names[one]} has once: tied weights, or "
                "equal values that an exporter merged"
            )


def _tied(report: ReportData) -> Counter[Dim]:
    # By size: the number of readers beyond the first.
    readers: dict[int, set[tuple[str, str]]] = {}
    for call in report.trace.calls:
        for parameter in call.parameters:
            readers.setdefault(parameter, set()).add((call.module, call.layer.op))
    sizes = report.trace.run.parameters
    found: Counter[Dim] = Counter()
    for parameter, places in readers.items():
        if len(places) > 1 and parameter in sizes:
            found[sizes[parameter]] += len(places) - 1
    return found


# Memory: the change of the peak, of its parts by kind, and of the blocks alive at it.


Group: TypeAlias = "tuple[str, str, str]"
"""Kind, module, and name or operator: blocks with the same group are compared."""


class MemoryComparison(Result):
    """The memory of two runs, in bytes.

    Args:
        old, new: the memory of the runs.
        moved: new paths of modules by their old paths.
    """

    def __init__(self, old: Memory, new: Memory, moved: Mapping[str, str]) -> None:
        self._sides = old, new
        self._moved = moved

    def __repr__(self) -> str:
        peak = self.figures["peak"]
        return encodable(f"<MemoryComparison: peak {exact(peak.old)} → {exact(peak.new)} bytes>")

    def _content(self) -> Content:
        peak = self.figures["peak"]
        change = "equal" if peak.equal else exact(peak.difference, signed=True) + " B"
        tables = memory_sections(self.figures, self.by_kind, self.blocks)
        return Content(f"Peak of memory: {exact(peak.old)} B → {exact(peak.new)} B, {change}", (), tables)

    @property
    def figures(self) -> dict[str, Delta]:
        """The change of ``peak``, ``base`` (before the run), ``saved`` (kept for backward) and ``end``."""
        old, new = self._sides
        return {key: Delta(getattr(old, key), getattr(new, key)) for key in ("peak", "base", "saved", "end")}

    @property
    def where(self) -> tuple[str, str]:
        """Where the two peaks are."""
        return self._sides[0].where, self._sides[1].where

    @property
    def by_kind(self) -> dict[str, Delta]:
        """The change of the bytes of every kind that are alive at the peak; they add up to the change of the peak."""
        old, new = (side.by_kind for side in self._sides)
        return {kind: Delta(old.get(kind, 0), new.get(kind, 0)) for kind in KINDS if kind in old or kind in new}

    @cached_property
    def blocks(self) -> list[BlockDelta]:
        """The blocks alive at one of the peaks that came, went or changed in size, the largest change first."""
        old, new = _groups(self._sides[0].blocks(), self._moved), _groups(self._sides[1].blocks(), {})
        none = 0, 0
        changes = [
            BlockDelta(*group, *map(Delta, old.get(group, none), new.get(group, none)))
            for group in dict.fromkeys((*new, *old))
            if old.get(group) != new.get(group)
        ]
        return sorted(changes, key=lambda change: -abs(int(change.nbytes.difference)))


def _groups(blocks: Iterable[Mapping[str, Any]], moved: Mapping[str, str]) -> dict[Group, tuple[int, int]]:
    found: dict[Group, tuple[int, int]] = {}
    for block in blocks:
        module = block["module"]
        what = block["name"].removeprefix(f"{module}.") or block["call"].rpartition("-")[0]
        group = block["kind"], moved.get(module, module), what
        count, nbytes = found.get(group, (0, 0))
        found[group] = count + 1, nbytes + block["nbytes"]
    return found


class BlockDelta(NamedTuple):
    """The blocks of one kind, module and name (or operator, if they have no name) in two runs.

    Attributes:
        kind: their kind.
        module: path of the module that made or owns them, in the new report.
        what: the name of a parameter, its gradient or its state, else the operator that made them.
        n_blocks: how many there are.
        nbytes: the sum of their sizes.
    """

    kind: str
    module: str
    what: str
    n_blocks: Delta
    nbytes: Delta

    @property
    def change(self) -> str:
        """``added``, ``removed`` or ``changed``."""
        return "added" if self.n_blocks.old == 0 else "removed" if self.n_blocks.new == 0 else "changed"


# Memory tables.


def memory_sections(
    figures: Mapping[str, Delta], by_kind: Mapping[str, Delta], blocks: Sequence[BlockDelta]
) -> list[Table]:
    """Return the tables of memory changes: the figures, the kinds at the peak, and the blocks alive at it."""
    names = {"peak": "peak", "base": "before the run", "saved": "kept for the backward pass", "end": "after the run"}
    deltas = {
        **{names[key]: delta for key, delta in figures.items()},
        **{f"{kind} at the peak": delta for kind, delta in by_kind.items()},
    }
    rows = [{"memory": name, **cells(delta, "bytes")} for name, delta in deltas.items() if not delta.equal]
    heading = "Blocks at the peak: " + counts_of([each.change for each in blocks])
    columns = [*texts("change", "kind", "module", "what", "blocks"), *DELTA]
    candidates = (
        Table("Memory", [*texts("memory"), *DELTA], rows),
        Table(heading, columns, [*map(_block, blocks)], is_open=False),
    )
    return [table for table in candidates if table.rows]


def _block(each: BlockDelta) -> dict[str, Any]:
    old, new = each.n_blocks
    count = str(new or old) if each.n_blocks.equal or not (old and new) else f"{old} → {new}"
    head = {"change": each.change, "kind": each.kind, "module": each.module, "what": each.what}
    return {**head, "blocks": count, **cells(each.nbytes, "bytes")}


# Cells of comparison tables.


CHANGES = ("added", "removed", "changed")
"""The changes of a call or of memory blocks."""

DELTA = [*(Column(name, name, "count") for name in ("old", "new", "difference")), Column("ratio", "ratio", "ratio")]
"""The columns of an old and a new amount."""


def texts(*names: str) -> list[Column]:
    """Return columns of text."""
    return [Column(name, name) for name in names]


def cells(delta: Delta, kind: str) -> dict[str, Any]:
    """Return the old and the new amount of a cost of some kind, their difference and their ratio."""
    return {
        "old": Formatted(delta.old, brief(delta.old, kind)),
        "new": Formatted(delta.new, brief(delta.new, kind)),
        "difference": Formatted(delta.difference, brief(delta.difference, kind, signed=True)),
        "ratio": "" if delta.ratio is None else Formatted(delta.ratio, delta.factor),
    }


def rows_of(head: Mapping[str, str], costs: Mapping[str, Delta], names: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield a row per cost; all but the first show no ``head``. One row without costs if no cost differs."""
    if not costs:
        yield dict(head)
    for i, (key, delta) in enumerate(costs.items()):
        shown = head if i == 0 else {name: Formatted(value, "") for name, value in head.items()}
        yield {**shown, "what": names[key], **cells(delta, quantity(key).kind)}


def counts_of(changes: Sequence[str]) -> str:
    """Return how many there are of every change: ``1 added, 0 removed, 2 changed``."""
    return ", ".join(f"{changes.count(change)} {change}" for change in CHANGES)
