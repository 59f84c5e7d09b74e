"""The differences between two reports as data, tables, Markdown, a pull-request comment and JSON.

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
from costcore.ledger.ledger import footer, mode_of, n_assumptions, not_counted
from costcore.ledger.modules import deepest_that_fit, path_and_parents
from costcore.numbers import Dim, magnitude
from costcore.reports.data import ReportData
from costcore.studies.comparisons.matching import (
    COMPARED,
    DELTA,
    BlockDelta,
    Delta,
    Difference,
    Entry,
    Kind,
    cells,
    counts_of,
    in_words,
    is_free,
    kinds_of_change,
    memory_sections,
    only_moves,
    rows_of,
    texts,
)
from costcore.tables.answer import Content
from costcore.tables.quantity import AMOUNTS, Quantity, quantity
from costcore.tables.renderers import in_terminal, rendered
from costcore.tables.result import Result, Table
from costcore.text.amounts import Formatted, attribute_text, exact, jsonable, readable
from costcore.text.screen import Column, encodable, escaped, printable
from costcore.trace.call import Call
from costcore.trace.run import KINDS

DROPPED_FIRST = ("ratio", "old", "operator", "blocks", "call", "module", "settings")
"""The columns that a narrow terminal drops, in this order."""


def to_text(comparison: ComparisonData, mode: str, limit: int | None, width: int | None = None) -> str:
    """Return summary, totals, operators and calls as tables (``table``) or as Markdown with details (``md``).

    Args:
        comparison: the comparison.
        mode: ``table`` or ``md``.
        limit: the maximum number of rows per table; None for all.
        width: the width of the terminal that shows it (characters); None if there is none.
    """
    old, new = comparison.names
    is_markdown = mode == "md"
    blocks = [f"**{code(old)} → {code(new)}**" if is_markdown else f"{old} → {new}"]
    lines = [escaped(line) if is_markdown else printable(line) for line in (*comparison.sentences, *comparison.notes)]
    blocks.append("".join(f"- {line}\n" for line in lines))
    if comparison.equal:
        moved = f" {len(comparison.moved)} modules were renamed or moved." if comparison.moved else ""
        blocks.append(f"No call was added, removed or changed.{moved}\n")
    blocks += [_section(section, mode, limit, width) for section in sections_of(comparison)]
    return "\n\n".join(block.rstrip("\n") for block in blocks) + "\n"


def sections_of(comparison: ComparisonData) -> list[Table]:
    """Return the tables of a comparison: totals and differences, or the memory table if no call differs."""
    if comparison.equal:
        return _memory_tables(comparison)
    titles = comparison.titles
    rows = [{"total": titles[key], **cells(delta, quantity(key).kind)} for key, delta in comparison.totals.items()]
    return [Table("Totals", [*texts("total"), *DELTA], rows), *difference_sections(comparison)]


def difference_sections(comparison: ComparisonData) -> list[Table]:
    """Return the non-empty tables of differences by operator, conversion, call and module, the largest change first."""
    changed_ops = {op: sums for op, sums in comparison.operators.items() if any(not d.equal for d in sums.values())}
    operators = sorted(changed_ops.items(), key=lambda item: weight(item[1]), reverse=True)
    differences = sorted(
        comparison.differences, key=lambda each: (weight(each.costs), each.change == "changed"), reverse=True
    )
    titles = comparison.titles
    by_operator = [row for op, sums in operators for row in _operator(op, sums, titles)]
    calls = [row for difference in differences for row in _call(difference, titles)]
    heading = "Calls: " + counts_of([each.change for each in differences])
    moved = [{"old": old, "new": new} for old, new in comparison.moved]
    candidates = (
        *_memory_tables(comparison),
        _kinds(comparison.kinds),
        Table("By operator", [*texts("operator", "what"), *DELTA], by_operator, is_open=False),
        _conversion(conversion_changes(comparison), titles["flops"]),
        Table(
            heading,
            [*texts("change", "module", "operator", "call", "what"), *DELTA, *texts("settings")],
            calls,
            is_open=False,
        ),
        Table("Renamed modules", texts("old", "new"), moved, is_open=False),
    )
    return [table for table in candidates if table.rows]


def _memory_tables(comparison: ComparisonData) -> list[Table]:
    memory = comparison.memory
    return [] if memory is None else memory_sections(memory.figures, memory.by_kind, memory.blocks)


def weight(costs: Mapping[str, Delta]) -> tuple[int, ...]:
    """Return the size of a change for sorting: in FLOPs, then in bytes, then in parameters."""

    def change(*keys: str) -> int:
        return sum(abs(magnitude(costs[key].difference)) for key in keys if key in costs)

    return change("flops"), change("mread", "mwrite", "mcomm"), change("n_params")


def _section(section: Table, mode: str, limit: int | None, width: int | None) -> str:
    title, omitted = section.title, 0 if limit is None else max(len(section) - limit, 0)
    text = section.part(section.rows[:limit]).text()
    shown, remarks = in_terminal(text, section.columns, mode, width, DROPPED_FIRST)
    written = rendered(shown, mode) + footer(remarks, mode)
    if omitted:
        written += f"\n… and {omitted} more rows; JSON has all of them\n"
    if mode != "md":
        return f"{title}\n{written}"
    if not section.is_open:
        return f"<details><summary>{title}</summary>\n\n{written}\n</details>"
    return f"{title}\n\n{written}"


def _operator(op: str, sums: Mapping[str, Delta], names: Mapping[str, str]) -> Iterable[dict[str, Any]]:
    calls = sums["n_layers"]
    name = op if calls.equal else f"{op} ({calls.old} → {calls.new} calls)"
    differ = {key: delta for key, delta in sums.items() if key != "n_layers" and not delta.equal}
    return rows_of({"operator": name}, differ, names)


def _call(difference: Difference, names: Mapping[str, str]) -> Iterable[dict[str, Any]]:
    entry = difference.entry
    changed = difference.settings.items()
    settings = ", ".join(f"{name}: {_value_text(old)} → {_value_text(new)}" for name, (old, new) in changed)
    head = {"change": difference.change, "module": entry["module"], "operator": entry["op"], "call": entry["name"]}
    return rows_of({**head, "settings": settings}, difference.costs, names)


def _kinds(kinds: Iterable[Kind]) -> Table:
    def change(delta: Delta, kind: str) -> str:
        return f"{readable(delta.old, kind)} → {readable(delta.new, kind)}"

    rows = [
        {
            "operators": kind.what,
            "calls": f"{kind.calls.old} → {kind.calls.new}",
            "MACs": change(kind.macs, "count"),
            "bytes": change(kind.mrw, "bytes"),
        }
        for kind in kinds
        if kind.what
    ]
    return Table("Kinds of change", texts("operators", "calls", "MACs", "bytes"), rows)


def _conversion(changes: Iterable[ConversionChange], unit: str) -> Table:
    rows = [
        {
            "what": change.what,
            "before": ", ".join(change.old),
            "after": ", ".join(change.new),
            "times": change.times,
            "flops": Formatted(change.flops.difference, readable(change.flops.difference, "flops", signed=True)),
            "bytes": Formatted(change.mrw.difference, readable(change.mrw.difference, "bytes", signed=True)),
        }
        for change in changes
    ]
    columns = [*texts("what", "before", "after"), Column("times", "times", "count"), Column("flops", unit, "count")]
    return Table("Conversion", [*columns, Column("bytes", "bytes", "count")], rows)


def _value_text(value: Any) -> str:
    return "none" if value is None else attribute_text(value)


def code(name: str) -> str:
    """Return a name as Markdown code, in which no character has a special meaning."""
    return "`" + name.replace("`", "'").replace("\n", " ") + "`"


# Comment on a pull request: totals and sums by module that fit one screen.


MARKER = "<!-- costcore diff -->"
"""The first line, by which a script finds the comment that it updates."""

MOST_MODULES = 8
"""The maximum number of rows of the table by module."""

MOST_NOTES = 6
"""The maximum number of remarks."""

IN_TITLE = ("flops", "n_params", "peak_memory")
"""The totals in the title; if none of them changed, it has all changed ones."""

OF_MODULES = ("flops", "mrw", "n_params")
"""The costs in the table by module."""


def to_comment(comparison: ComparisonData) -> str:
    """Return the comment as Markdown of at most 40 lines."""
    old, new = comparison.names
    totals, titles = dict(comparison.totals), {**comparison.titles, "peak_memory": quantity("peak_memory").in_words}
    if comparison.memory is not None:
        totals["peak_memory"] = comparison.memory.figures["peak"]
    changed = {key: delta for key, delta in totals.items() if not delta.equal}
    shown = [key for key in IN_TITLE if key in changed] or changed
    title = ", ".join(f"{titles[key]}{_ratio(changed[key]) or ' new'}" for key in shown)
    title = title or ("the same costs, other calls" if comparison.differences else "no change")
    lines = [MARKER, f"**{code(old)} → {code(new)}: {title}**", ""]
    lines += ["| total | old | new | change |", "|:---|---:|---:|---:|"]
    for key, delta in totals.items():
        cells = [readable(value, quantity(key).kind) for value in delta]
        change = "" if delta.equal else readable(delta.difference, quantity(key).kind, signed=True)
        lines.append(f"| {titles[key]} | {' | '.join(cells)} | {change}{_ratio(delta) if change else ''} |")
    if comparison.by == "module":
        lines += _modules(comparison)
    notes = [*comparison.missing, *comparison.notes]
    lines += ["", *(f"- {escaped(note)}" for note in notes[:MOST_NOTES])] if notes else []
    if len(notes) > MOST_NOTES:
        lines.append(f"- … and {len(notes) - MOST_NOTES} more remarks")
    return "\n".join(lines) + "\n"


def _modules(comparison: ComparisonData) -> list[str]:
    changed = {
        path: sums for path, sums in comparison.modules.items() if any(not sums[key].equal for key in OF_MODULES)
    }
    shown = sorted(deepest_that_fit(changed, MOST_MODULES), key=lambda path: weight(changed[path]), reverse=True)
    if not shown:
        return []
    titles = [comparison.titles[key] if key != "mrw" else "bytes read and written" for key in OF_MODULES]
    lines = ["", f"| module | {' | '.join(titles)} |", "|:---|---:|---:|---:|"]
    for path in shown[:MOST_MODULES]:
        cells = (_change(changed[path][key], quantity(key).kind) for key in OF_MODULES)
        lines.append(f"| {code(path)} | {' | '.join(cells)} |")
    if len(shown) > MOST_MODULES:
        lines += ["", f"… and {len(shown) - MOST_MODULES} more modules"]
    return lines


def _change(delta: Delta, kind: str) -> str:
    if delta.equal:
        return "="
    return f"{readable(delta.old, kind)} → {readable(delta.new, kind)}{_ratio(delta, ' ({})')}"


def _ratio(delta: Delta, form: str = " {}") -> str:
    return "" if delta.ratio is None else form.format(f"×{delta.ratio:.4f}")


# JSON.


SCHEMA = "costcore-comparison-1"
"""Name and version of the format."""


def to_dict(comparison: ComparisonData) -> dict[str, Any]:
    """Return the comparison in plain JSON types."""
    operators = {op: _deltas(sums) for op, sums in comparison.operators.items()}
    return {
        "schema": SCHEMA,
        "old": comparison.names[0],
        "new": comparison.names[1],
        "status": {"old": comparison.old.status, "new": comparison.new.status},
        "versions": {"old": comparison.old.versions, "new": comparison.new.versions},
        "matched_by": comparison.by,
        "equal": comparison.equal,
        "verdict": comparison.sentences,
        "notes": comparison.notes,
        "totals": _deltas(comparison.totals),
        "data_movement": _delta(comparison.data_movement),
        "operators": operators,
        "differences": [_difference(difference) for difference in comparison.differences],
        "moved": [{"old": old, "new": new} for old, new in comparison.moved],
        "conversion": [_conversion_change(change) for change in conversion_changes(comparison)],
        "memory": None if comparison.memory is None else _memory_deltas(comparison.memory),
    }


def _memory_deltas(memory: MemoryComparison) -> dict[str, Any]:
    blocks = [
        {
            **{key: getattr(each, key) for key in ("change", "kind", "module", "what")},
            **{key: _delta(getattr(each, key)) for key in ("n_blocks", "nbytes")},
        }
        for each in memory.blocks
    ]
    old, new = memory.where
    return {
        **_deltas(memory.figures),
        "where": {"old": old, "new": new},
        "by_kind": _deltas(memory.by_kind),
        "blocks": blocks,
    }


def _deltas(deltas: Mapping[str, Delta]) -> dict[str, Any]:
    return {key: _delta(delta) for key, delta in deltas.items()}


def _delta(delta: Delta) -> dict[str, Any]:
    return {
        "old": jsonable(delta.old),
        "new": jsonable(delta.new),
        "difference": jsonable(delta.difference),
        "ratio": delta.ratio,
    }


def _difference(difference: Difference) -> dict[str, Any]:
    sides = {}
    for side in ("old", "new"):
        entry = getattr(difference, side)
        keys = ("name", "type", "op", "module", "phase")
        sides[side] = None if entry is None else {key: entry[key] for key in keys}
    settings = {name: {"old": jsonable(a), "new": jsonable(b)} for name, (a, b) in difference.settings.items()}
    return {"change": difference.change, **sides, "costs": _deltas(difference.costs), "settings": settings}


def _conversion_change(change: ConversionChange) -> dict[str, Any]:
    return {
        "what": change.what,
        "old": list(change.old),
        "new": list(change.new),
        "times": change.times,
        "flops": _delta(change.flops),
        "mrw": _delta(change.mrw),
    }


# Changes by a conversion to another framework: replaced, folded, dropped and added operators.


FOLDABLE = {"batch_norm", "mul", "add", "div", "sub"}
"""Operators that a converter can fold into the weights of the preceding matrix product."""

FOLD_INTO = {"conv", "conv_transpose", "linear", "matmul"}
"""Matrix products with weights that a converter can fold operators into."""


class ConversionChange(NamedTuple):
    """One kind of change that a conversion made.

    Attributes:
        what: ``became`` (the operators were replaced by others), ``folded`` (a scale or shift right after a matrix
            product with unchanged MACs), ``dropped`` or ``added``.
        old: operators before the conversion.
        new: operators after the conversion.
        times: number of changes of this kind.
        flops, mrw: FLOPs and bytes of all changes of this kind together.
    """

    what: str
    old: tuple[str, ...]
    new: tuple[str, ...]
    times: int
    flops: Delta
    mrw: Delta


def conversion_changes(comparison: ComparisonData) -> list[ConversionChange]:
    """Return the changes of a conversion, one per kind, in order of first appearance.

    Calls matched by module are not a conversion: the list is empty.
    """
    if comparison.by != "order":
        return []
    changes: dict[tuple[str, tuple[str, ...], tuple[str, ...]], ConversionChange] = {}
    for what, olds, news in _changes(comparison):
        key = what, tuple(entry["op"] for entry in olds), tuple(entry["op"] for entry in news)
        earlier = changes.get(key, ConversionChange(*key, 0, Delta(0, 0), Delta(0, 0)))
        flops, mrw = (
            Delta(total.old + sum(e[metric] for e in olds), total.new + sum(e[metric] for e in news))
            for metric, total in (("flops", earlier.flops), ("mrw", earlier.mrw))
        )
        changes[key] = ConversionChange(*key, earlier.times + 1, flops, mrw)
    return list(changes.values())


def _changes(comparison: ComparisonData) -> Iterator[tuple[str, Sequence[Entry], Sequence[Entry]]]:
    olds: list[Entry] = []
    news: list[Entry] = []
    preceding: Entry | None = None
    for old, new in [*comparison.pairs, (None, None)]:
        same_operator = old is not None and new is not None and old["op"] == new["op"]
        # A change is the run of added and removed calls between two matching pairs. A pair with different operators
        # belongs to the change itself.
        is_pair = (old is None) == (new is None)
        if is_pair:
            yield from _classified(preceding, olds, news)
            olds, news = [], []
        if same_operator:
            preceding = new
        else:
            olds += [old] if old is not None else []
            news += [new] if new is not None else []


def _classified(
    preceding: Entry | None, olds: Sequence[Entry], news: Sequence[Entry]
) -> Iterator[tuple[str, Sequence[Entry], Sequence[Entry]]]:
    if olds and news:
        # Calls that only move data do not become calls that compute, nor the reverse.
        for moves in (False, True):
            some_olds, some_news = ([e for e in entries if only_moves(e) is moves] for entries in (olds, news))
            if some_olds and some_news:
                yield "became", some_olds, some_news
            else:
                yield from _classified(preceding, some_olds, some_news)
        return
    for entry in olds:
        is_folded = preceding is not None and preceding["op"] in FOLD_INTO and entry["op"] in FOLDABLE
        yield "folded" if is_folded else "dropped", [entry], []
        preceding = preceding if is_folded else None
    for entry in news:
        yield "added", [], [entry]


# Differences as data: by call, by operator, in total, and a summary.


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
        return kinds_of_change(self.old, self.new)

    @property
    def equal(self) -> bool:
        """Whether no call was added, removed or changed; modules can have been renamed."""
        return not self.differences

    @property
    def verdict(self) -> list[str]:
        """The summary: one sentence each on MACs, FLOPs, parameters, bytes, memory, and calls that are not counted.

        The first sentence describes graph rewrites, if operators changed. The text is for ``print``: ASCII characters
        replace arrows that standard output cannot encode.
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
    ratio = "" if delta.ratio is None else f", ×{delta.ratio:.4f}"
    more = delta.difference
    change = readable(more, kind, signed=True) if isinstance(more, float) else exact(more, signed=True)
    return f"{what}: {old} → {new} ({change}{ratio})"


# Tied weights that one of the reports stores several times.


def stored_again(old: ReportData, new: ReportData, names: tuple[str, str]) -> Iterator[str]:
    """Yield a remark for each report that stores tied weights of the other several times.

    A weight is tied if several modules or operators read it, as an embedding and the head of a language model do. An
    exporter that transposes it for one of them stores it twice.

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
            yield f"{names[other]} stores tied weights again: {exact(again)} parameters that {names[one]} counts once"


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
