"""The differences between two reports as data: by call, operator and module, in total, and of memory.

:class:`ComparisonData` derives differences, totals and sums lazily from the matched calls; all formats read it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from costcore.analyses.memory.live_memory import Memory
from costcore.errors import CostError
from costcore.ledger.ledger import mode_of, n_assumptions, not_counted
from costcore.ledger.modules import path_and_parents
from costcore.numbers import Dim, is_symbolic, magnitude
from costcore.reports.data import ReportData
from costcore.studies.comparisons.matching import (
    COMPARED,
    LIMITS,
    Calls,
    Delta,
    Difference,
    Entry,
    Kind,
    class_of,
    in_any_layout,
    in_words,
    is_free,
    kinds_of_change,
    listed,
    only_moves,
    output_size,
    unquantized,
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
        """The change of the sums by module, including its submodules; renamed modules have their new path."""
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
        """The graph rewrites, by kind: operators in another form, or replaced by others."""
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
        """Sentences on graph rewrites by a tool, or on a conversion to another framework."""
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
            lines.append(_sentence("of these, by calls that only move data", self.data_movement))
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
    exporter that transposes it for one reader stores it twice. An exporter that merges weights of equal values, such as
    the biases of a new network, makes them look tied.

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
        """The blocks alive at either peak that were added, removed or changed in size, the largest change first."""
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
    """Return the number of every change: ``1 added, 0 removed, 2 changed``."""
    return ", ".join(f"{changes.count(change)} {change}" for change in CHANGES)


# Changes by a conversion to another framework: replaced, folded, dropped and added operators.
#
# :func:`conversions` finds them in calls that are matched by order; together they are all differences.
# :func:`conversion_in_words` and :func:`conversion_of_macs` put them into sentences.

FOLDABLE = {"batch_norm", "mul", "add", "div", "sub"}
"""Operators that a converter can fold into the weights of the preceding matrix product."""

FOLD_INTO = {"conv", "conv_transpose", "linear", "matmul"}
"""Matrix products with weights that a converter can fold operators into."""


class Recipe(NamedTuple):
    """A decomposition of one operator, for formats that lack it.

    Attributes:
        core: the operators it needs, in order.
        beside: operators that may be before and between them.
        tail: operators that may follow.
        is_learned: whether any of them may have parameters.
    """

    core: tuple[str, ...]
    beside: frozenset[str] = frozenset()
    tail: frozenset[str] = frozenset()
    is_learned: bool = True

    def found(self, entries: Sequence[Entry], start: int) -> Sequence[int]:
        """Return the positions of the calls from ``start`` on that are this decomposition; empty without a match."""
        places, left = [], [*self.core]
        for i in range(start, len(entries)):
            op, is_learned = entries[i]["op"], entries[i]["n_params"] != 0
            if left and op == left[0] and (self.is_learned or not is_learned):
                left.pop(0)
            elif op not in (self.beside if left else self.tail) or (is_learned and not self.is_learned):
                break
            places.append(i)
        return () if left else places


_ARITHMETIC = frozenset(("add", "cast", "div", "mul", "pow", "sub"))
_MASKING = _ARITHMETIC | {"isnan", "where", "equal", "logical_not"}
_SCALE = frozenset(("add", "mul"))

RECIPES: Mapping[str, tuple[Recipe, ...]] = {
    "attention": (Recipe(("matmul", "softmax", "matmul"), _MASKING, is_learned=False),),
    "gelu": (Recipe(("erf",), _ARITHMETIC, _ARITHMETIC), Recipe(("tanh",), _ARITHMETIC, _ARITHMETIC)),
    "silu": (Recipe(("sigmoid", "mul")),),
    "hard_swish": (Recipe(("hard_sigmoid", "mul")), Recipe(("clip", "mul"), _ARITHMETIC, frozenset(("div", "mul")))),
    "layer_norm": (
        Recipe(("mean_variance_norm",), tail=_SCALE),
        Recipe(("reduce_mean", "sub", "reduce_mean"), _ARITHMETIC, _ARITHMETIC | {"sqrt", "rsqrt"}),
    ),
    "rms_norm": (Recipe(("reduce_mean",), _ARITHMETIC, _ARITHMETIC | {"sqrt", "rsqrt"}),),
    "batch_norm": (Recipe(("mul", "add")), Recipe(("sub", "mul", "add"), _ARITHMETIC)),
}
"""Decompositions by operator."""


class Conversion(NamedTuple):
    """One change that a conversion made.

    Attributes:
        what: see :class:`ConversionChange`.
        old: calls before the conversion.
        new: calls after the conversion.
        into: the product into which they were folded, or whose padding they add; the layout that they change to; empty
            for other changes.
    """

    what: str
    old: Sequence[Entry]
    new: Sequence[Entry]
    into: str = ""

    def amount(self, name: str) -> Delta:
        """Return a cost of all its calls before and after."""
        return Delta(*(sum(entry[name] for entry in side) for side in (self.old, self.new)))


class ConversionChange(NamedTuple):
    """One kind of change that a conversion made.

    Attributes:
        what: ``became`` (the operators were replaced by others), ``folded`` (a scale or shift absorbed by the
            matrix product before it, whose MACs are unchanged), ``dropped``, ``added`` or ``changed`` (the operator is
            the same and costs more or less).
        old: operators before the conversion.
        new: operators after the conversion.
        times: number of changes of this kind.
        flops, mrw, macs: FLOPs, bytes and MACs of all changes of this kind together.
        into: the products into which operators were folded, or whose padding they add; the layout that they change to.
    """

    what: str
    old: tuple[str, ...]
    new: tuple[str, ...]
    times: int
    flops: Delta
    mrw: Delta
    macs: Delta = Delta(0, 0)
    into: str = ""

    @property
    def is_renamed(self) -> bool:
        """Whether this is a pure rename, such as that of a quantized operator."""
        one = [class_of(op) for op in (*self.old, *self.new)]
        return self.what == "became" and len(self.old) == len(self.new) == 1 and one[0] == one[1]

    @property
    def text(self) -> str:
        """The change in words: ``20 batch_norm folded into conv``."""
        old, new = (listed_once(side) for side in (self.old, self.new))
        biased = "is a call of its own"
        if self.what == "folded":
            return f"{self.times} {old} folded into {self.into}" + f", whose bias {biased}" * bool(new)
        if self.what == "became" and self.new[1:] == ("add",) and self.new[:1] == self.old:
            return f"the bias of {self.times} {old} {biased}"
        if self.what == "became":
            return f"{self.times} × {old} became {new}" if len(self.old) > 1 else f"{self.times} {old} became {new}"
        more = (
            "" if not self.into else f" to {self.into}" if self.into in LAYOUTS.values() else f", as {self.into} padded"
        )
        return f"{self.times} {old or new} {self.what}{more}"


MOST_KINDS = 8
"""The maximum number of changes of a conversion in a sentence."""


def conversion_in_words(changes: Sequence[ConversionChange], old: ReportData, new: ReportData) -> list[str]:
    """Return sentences on the changes by a conversion to another framework; empty if nothing differs."""
    lines = []
    written = [each.text for each in changes if each.what in ("folded", "became") and not each.is_renamed]
    if written:
        more = len(written) - MOST_KINDS
        lines.append("; ".join([*written[:MOST_KINDS], *[f"{more} more kinds of change (Conversion)"] * (more > 0)]))
    renamed = [each for each in changes if each.is_renamed]
    quantized = [each for each in renamed if unquantized(each.new[0]) != each.new[0]]
    if quantized:
        lines.append(f"quantized: {listed((each.times, each.old[0]) for each in quantized)}")
    if others := [f"{each.times} {each.old[0]} ({each.new[0]})" for each in renamed if each not in quantized]:
        lines.append(f"with another name: {', '.join(others)}")
    added = [each for each in changes if each.what == "added" and each.into]
    for each in added:
        moved = brief(each.mrw.difference, "bytes", signed=True)
        if each.into in LAYOUTS.values():
            lines.append(f"layout: {each.times} {each.new[0]} to {each.into} ({moved})")
        else:
            lines.append(f"the padding of {each.times} {each.into} is a call of its own: {each.new[0]} ({moved})")
    for what in ("added", "dropped"):
        alone = [each for each in changes if each.what == what and each not in added]
        if alone:
            shown = listed((each.times, (each.old or each.new)[0]) for each in alone)
            moved = brief(sum(each.mrw.difference for each in alone), "bytes", signed=True)
            n_views = _count_views(new if what == "dropped" else old, alone)
            views = f"; {n_views} of them {'are' if what == 'dropped' else 'were'} views, which cost nothing"
            lines.append(f"{what}: {shown} ({moved}){views * bool(n_views)}")
    for what, find in (("weights", _weights_by_dtype), ("values", _values_by_dtype)):
        sides = [find(report) for report in (old, new)]
        before, after = (max(side, key=lambda dtype: side[dtype], default="") for side in sides)
        if before != after and before and after:
            nbytes = [readable(sum(side.values()), "bytes") for side in sides]
            lines.append(f"{what} in {after} instead of {before}: {nbytes[1]} instead of {nbytes[0]}")
    return lines


VIEWS: Mapping[str, tuple[str, ...]] = {
    "transpose": ("permute", "transpose", "t", "mT", "movedim", "swapaxes"),
    "slice": ("slice", "narrow", "split", "chunk"),
    "gather": ("select", "index"),
    "broadcast_to": ("expand", "broadcast_to"),
}
"""Views of PyTorch that are copies elsewhere, by the copying operator."""


def _count_views(report: ReportData, changes: Iterable[ConversionChange]) -> int:
    # The number of changed calls that are free views in a report.
    free = Counter(entry["type"] for entry in report.ledger.entries.values() if is_free(entry))
    counts: Counter[str] = Counter()
    for each in changes:
        counts[(each.old or each.new)[0]] += each.times
    return sum(min(count, sum(free[view] for view in VIEWS.get(op, ()))) for op, count in counts.items())


MOST_PRODUCTS = 3
"""The maximum number of calls in the sentence on the difference of MACs."""


def conversion_of_macs(conversions: Iterable[Conversion]) -> str:
    """Return the calls that add up to the difference of the MACs, largest first; empty if no call differs."""
    found = [(each, each.amount("macs")) for each in conversions]
    found = [(each, macs) for each, macs in found if not macs.equal]
    found.sort(key=lambda pair: abs(magnitude(pair[1].difference)), reverse=True)
    parts = [f"{_product_text(each)} ({exact(macs.difference, signed=True)})" for each, macs in found[:MOST_PRODUCTS]]
    if rest := found[MOST_PRODUCTS:]:
        parts.append(f"{len(rest)} more calls ({exact(sum(macs.difference for _, macs in rest), signed=True)})")
    return f"the difference in MACs: {', '.join(parts)}" if parts else ""


def _product_text(each: Conversion) -> str:
    entry = next(entry for entry in (*each.old, *each.new) if entry["macs"] != 0)
    name = f"{entry['op']} {entry['module']}".rstrip()
    if not (each.old and each.new):
        return f"{name} {each.what}"
    pairs = zip(each.old[0]["input_shapes"], each.new[0]["input_shapes"], strict=False)
    sizes = (f"{a} → {b}" for a, b in pairs if in_any_layout([a]) != in_any_layout([b]))
    return f"{name} {next(sizes, '')}".rstrip()


def _weights_by_dtype(report: ReportData) -> Counter[str]:
    # Bytes; a shared weight counts once.
    weights = {
        identity: tensor
        for call in report.trace.calls
        for identity, tensor in zip(call.inputs, call.layer.inputs.values(), strict=False)
        if tensor.role == "param" and not is_symbolic(tensor.nbytes)
    }
    found: Counter[str] = Counter()
    for tensor in weights.values():
        found[tensor.dtype] += tensor.nbytes
    return found


def _values_by_dtype(report: ReportData) -> Counter[str]:
    found: Counter[str] = Counter()
    for call in report.trace.calls:
        for tensor in call.layer.outputs:
            if not is_symbolic(call.times * tensor.nbytes):
                found[tensor.dtype] += call.times * tensor.nbytes
    return found


def listed_once(ops: Sequence[str]) -> str:
    """Return operators with their counts: ``2 mul, softmax``."""
    return ", ".join(f"{count} {op}" if count > 1 else op for op, count in Counter(ops).items())


def counts_in_words(conversions: Iterable[Conversion]) -> str:
    """Return ``9 dropped, 18 replaced``."""
    words = Counter("replaced" if each.what == "became" else each.what for each in conversions)
    return ", ".join(f"{count:,} {word}" for word, count in words.items())


def conversion_changes(conversions: Iterable[Conversion]) -> list[ConversionChange]:
    """Return the changes of a conversion, one per kind, in order of first appearance."""
    changes: dict[Hashable, ConversionChange] = {}
    for each in conversions:
        names = [tuple(entry["op"] for entry in side) for side in (each.old, each.new)]
        key = each.what, *(tuple(sorted(side)) for side in names), each.into
        none = Delta(0, 0)
        one = changes.get(key) or ConversionChange(each.what, names[0], names[1], 0, none, none, none, each.into)
        flops, mrw, macs = (
            Delta(total.old + more.old, total.new + more.new)
            for total, more in ((getattr(one, name), each.amount(name)) for name in ("flops", "mrw", "macs"))
        )
        changes[key] = one._replace(times=one.times + 1, flops=flops, mrw=mrw, macs=macs)
    return list(changes.values())


def conversions(pairs: Sequence[Calls]) -> Iterator[Conversion]:
    """Yield the changes of a conversion, from calls matched by order; together they are every difference."""
    olds: list[Entry] = []
    news: list[Entry] = []
    head: Calls = (None, None)
    for old, new in [*pairs, (None, None)]:
        # A change is the run of added and removed calls between two matching pairs that compute.
        if old is not None and new is not None and only_moves(old) and only_moves(new):
            yield from _differing([old], [new])
        elif (old is None) == (new is None):
            if old is not None and (padding := _padding_before(old, new, news)) is not None:
                news.remove(padding)
                yield Conversion("added", [], [padding], class_of(old["op"]))
            yield from _changes_after(head, olds, news)
            olds, news, head = [], [], (old, new)
        else:
            olds += [old] if old is not None else []
            news += [new] if new is not None else []


def _padding_before(old: Entry, new: Entry | None, news: Sequence[Entry]) -> Entry | None:
    # A pad call before a product: formats with only SAME and VALID padding have no other way.
    if new is None or old["macs"] == 0 or not _pads(old) or _pads(new):
        return None
    return next((entry for entry in reversed(news) if entry["op"] == "pad"), None)


def _pads(entry: Entry) -> bool:
    padding = entry["params"].get("padding", 0)
    return any(size != 0 for size in (padding if isinstance(padding, tuple) else (padding,)))


LAYOUTS: Mapping[tuple[int, ...], str] = {
    (0, 2, 3, 1): "NHWC",
    (0, 3, 1, 2): "NCHW",
    (0, 2, 3, 4, 1): "NDHWC",
    (0, 4, 1, 2, 3): "NCDHW",
}
"""The layouts of images, by the order of axes in which a transposition makes them."""


def _layout_after(entry: Entry) -> str:
    return LAYOUTS.get(entry["params"].get("axes"), "") if entry["op"] == "transpose" else ""


def _changes_after(head: Calls, olds: list[Entry], news: list[Entry]) -> Iterator[Conversion]:
    # The changes of a matching pair (head) and of the unmatched calls after it.
    old, new = head
    into = new["op"] if new is not None and class_of(new["op"]) in FOLD_INTO else ""
    norms = olds[:1] if into and olds and olds[0]["op"] == "batch_norm" and not _decomposition(olds[0], news) else []
    olds = olds[len(norms) :]
    if old is not None and new is not None:
        sides = [old], [new]
        for own, other, left in ((old, new, news), (new, old, olds)) if into else ():
            # The addition of a bias is a call of its own on one side.
            place = next((i for i, entry in enumerate(left) if not only_moves(entry)), 0)
            if _adds_bias(own, other, left[place:]) and not (left is news and norms):
                sides[left is news].append(left.pop(place))
        is_fused = into and into != class_of(into)
        if is_fused and olds and class_of(olds[0]["op"]) in LIMITS:
            sides[0].append(olds.pop(0))
        yield from _differing(*sides)
    if norms:
        yield Conversion("folded", norms, [news.pop(0)] if news and news[0]["op"] == "add" else [], class_of(into))
    # Calls that only move data do not become calls that compute, nor the reverse.
    for moves in (False, True):
        yield from _replacements(into, *([e for e in entries if only_moves(e) is moves] for entries in (olds, news)))


def _differing(olds: Sequence[Entry], news: Sequence[Entry]) -> Iterator[Conversion]:
    if [entry["op"] for entry in olds] != [entry["op"] for entry in news]:
        yield Conversion("became", olds, news)
    elif any(
        old[name] != new[name] for old, new in zip(olds, news, strict=True) for name in ("flops", "mread", "mwrite")
    ):
        yield Conversion("changed", olds, news)


def _adds_bias(product: Entry, other: Entry, left: Sequence[Entry]) -> bool:
    if not left or left[0]["op"] != "add" or output_size(left[0]) != output_size(other):
        return False
    n_params = product["n_params"] - other["n_params"]
    return bool(product["op"] != other["op"] or n_params == left[0]["n_params"] != 0)


def _replacements(into: str, olds: list[Entry], news: list[Entry]) -> Iterator[Conversion]:
    sides = ((olds, news), (news, olds)) if len(olds) * len(news) <= MOST_SEARCHED else ()
    for find in (_decomposition, _split_product):
        for side, other in sides:
            for entry in [*side]:
                if found := find(entry, other):
                    at = side.index(entry)
                    bias = side[at + 1 : at + 2] if find is _split_product else []
                    n_calls = 1 + ([each["op"] for each in bias] == ["add"] and bias[0]["n_params"] != 0)
                    whole, parts = _taken(side, range(at, at + n_calls)), _taken(other, found)
                    yield Conversion("became", *((whole, parts) if side is olds else (parts, whole)))
    if news and (moved := [entry for entry in olds if entry["op"] not in CREATED]):
        yield from (Conversion("dropped", [entry], []) for entry in olds if entry["op"] in CREATED)
        yield from _differing(moved, news)
        return
    for entry in olds:
        is_folded = into and entry["op"] in FOLDABLE
        yield Conversion("folded" if is_folded else "dropped", [entry], [], into if is_folded else "")
        into = into if is_folded else ""
    for entry in news:
        yield Conversion("added", [], [entry], _layout_after(entry))


MOST_SEARCHED = 250_000
"""Runs of unmatched calls are not searched for patterns if ``len(olds) * len(news)`` exceeds this."""

CREATED = ("arange", "constant", "full")
"""Operators without operands: a conversion drops them and never replaces them by others."""


def _taken(entries: list[Entry], places: Sequence[int]) -> list[Entry]:
    taken = [entries[i] for i in places]
    entries[:] = [entry for i, entry in enumerate(entries) if i not in places]
    return taken


def _decomposition(entry: Entry, others: Sequence[Entry]) -> Sequence[int]:
    matches = (recipe.found(others, i) for recipe in RECIPES.get(entry["op"], ()) for i in range(len(others)))
    return next(filter(None, matches), ())


def _split_product(entry: Entry, others: Sequence[Entry]) -> Sequence[int]:
    # Consecutive products that add up to one: the query, key and value of attention.
    if entry["macs"] == 0:
        return ()
    places: list[int] = []
    macs: Dim = 0
    for i, other in enumerate(others):
        if class_of(other["op"]) == class_of(entry["op"]) and other["macs"] != 0:
            places.append(i)
            macs = macs + other["macs"]
            if macs == entry["macs"]:
                return places
    return ()
