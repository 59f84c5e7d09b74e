"""Compare two reports: :func:`compare` returns a :class:`Comparison`, which prints as text, JSON, Markdown or HTML.

The HTML page has no script; its map draws an area per module, colored by the change of its cost.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, NamedTuple

from costcore.errors import CostError, unknown
from costcore.ledger.ledger import footer
from costcore.ledger.modules import deepest_that_fit
from costcore.numbers import magnitude
from costcore.reports.report import Report
from costcore.studies.comparisons.data import (
    DELTA,
    ComparisonData,
    Conversion,
    ConversionChange,
    MemoryComparison,
    cells,
    counts_in_words,
    counts_of,
    listed_once,
    memory_sections,
    rows_of,
    texts,
)
from costcore.studies.comparisons.matching import (
    COMPARED,
    Delta,
    Difference,
    Kind,
    Pair,
    by_module,
    by_order,
)
from costcore.tables.answer import MOST_ROWS, Content, Figure
from costcore.tables.html import key as color_key
from costcore.tables.html import page, section, text
from costcore.tables.pictures import Picture, Theme, bars_of
from costcore.tables.quantity import numeric, quantity
from costcore.tables.renderers import in_terminal, rendered, terminal_width
from costcore.tables.result import Result, Table
from costcore.text.amounts import Formatted, attribute_text, brief, exact, jsonable, readable, short
from costcore.text.output import Column, Target, encodable, escaped, printable, save, writable

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

    def _picture(self, theme: Theme) -> Picture:
        changes = {name: each.ratio for name, each in self.totals.items() if each.ratio is not None}
        rows = [{"total": self.titles[name], "change": 100 * (ratio - 1)} for name, ratio in changes.items()]
        columns = [Column("total", "Total"), Column("change", "Change", "percent")]
        return bars_of(["Change of the totals", " → ".join(self.names)], columns, rows, theme)

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

    def to_html(self, target: Target = None, title: str = "", made: str = "") -> str:
        """Return one self-contained HTML page without a script, and write it to ``target`` if given."""
        return save(to_html(self, title, made), target)

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
        CostError: if one report counts a fused multiply-add as one FLOP and the other as two, if they are fused at
            different levels, or if a report does not have a quantity.
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
            f"cannot compare the reports: bytes of {names[0]} are {levels[0]}, bytes of {names[1]} are {levels[1]}. "
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


# Tables, as text and as Markdown.


DROPPED_FIRST = ("ratio", "call", "operator", "blocks", "difference", "module")
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
    by_operator_table = Table("By operator", [*texts("operator", "what"), *DELTA], by_operator, is_open=False)
    columns = [*texts("change", "module", "operator", "call", "what"), *DELTA]
    tables = [by_operator_table, Table(heading, columns, calls, is_open=False)]
    if comparison.by == "order":
        unit = titles["flops"]
        tables = [_conversion(comparison.conversion, unit), by_operator_table, _converted(comparison.conversions, unit)]
    candidates = (
        *_memory_tables(comparison),
        _kinds(comparison.kinds),
        *tables,
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
    head = {"change": difference.change, "module": entry["module"], "operator": entry["op"], "call": entry["name"]}
    differ = sorted(difference.settings.items(), key=lambda item: item[0] in SHAPES)  # a narrow terminal cuts the end
    settings = ", ".join(_setting(name, *values) for name, values in differ)
    if not difference.costs:
        return [{**head, "what": settings}]
    blank = {name: Formatted(value, "") for name, value in head.items()}
    return [*rows_of(head, difference.costs, names), *([{**blank, "what": settings}] if settings else [])]


SHAPES = ("input_shapes", "output_shapes")
"""Settings that usually change as a consequence of others: listed last."""


def _setting(name: str, old: Any, new: Any) -> str:
    if name in SHAPES and len(old) == len(new):
        old, new = (
            [shape for shape, other in zip(*each, strict=True) if shape != other] for each in ((old, new), (new, old))
        )
        old, new = (each[0] if len(each) == 1 else each for each in (old, new))
    return f"{name}: {_value_text(old)} → {_value_text(new)}"


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
    def size(change: ConversionChange) -> tuple[bool, tuple[int, ...]]:
        return change.what != "changed", weight({"flops": change.flops, "mread": change.mrw})

    rows = [
        {
            "what": change.what,
            "old": listed_once(change.old),
            "new": listed_once(change.new),
            "times": change.times,
            **_amounts(change.flops, change.mrw),
        }
        for change in sorted(changes, key=size, reverse=True)
    ]
    return Table("Conversion", [*texts("what", "old", "new"), Column("times", "times", "count"), *_units(unit)], rows)


def _converted(conversions: Sequence[Conversion], unit: str) -> Table:
    # Each change of a conversion, the largest first.
    rows = [
        (
            {
                "what": each.what,
                "module": next((entry["module"] for entry in (*each.old, *each.new) if entry["module"]), ""),
                "old": listed_once([entry["op"] for entry in each.old]),
                "new": listed_once([entry["op"] for entry in each.new]),
                **_amounts(each.amount("flops"), each.amount("mrw")),
            },
            weight({"flops": each.amount("flops"), "mread": each.amount("mrw")}),
        )
        for each in conversions
    ]
    rows.sort(key=lambda row: row[1], reverse=True)
    heading = f"Calls: {counts_in_words(conversions)}"
    columns = [*texts("what", "module", "old", "new"), *_units(unit)]
    return Table(heading, columns, [row for row, _ in rows], is_open=False)


def _units(unit: str) -> list[Column]:
    return [Column("flops", unit, "count"), Column("bytes", "bytes", "count")]


def _amounts(flops: Delta, mrw: Delta) -> dict[str, Formatted]:
    amounts = {"flops": (flops, "flops"), "bytes": (mrw, "bytes")}
    return {
        name: Formatted(delta.difference, brief(delta.difference, kind, signed=True))
        for name, (delta, kind) in amounts.items()
    }


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
"""The totals in the title; if none of them changed, the title has all changed totals."""

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
    notes = [*comparison.changes_in_words, *comparison.missing, *comparison.notes]
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
    return form.format(delta.factor) if delta.factor else ""


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
        "summary": comparison.sentences,
        "notes": comparison.notes,
        "totals": _deltas(comparison.totals),
        "data_movement": _delta(comparison.data_movement),
        "operators": operators,
        "differences": [_difference(difference) for difference in comparison.differences],
        "moved": [{"old": old, "new": new} for old, new in comparison.moved],
        "conversion": [_conversion_change(change) for change in comparison.conversion],
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


# One self-contained HTML page, details in collapsible sections.


def to_html(comparison: ComparisonData, title: str = "", made: str = "") -> str:
    """Return the comparison as an HTML page, the same text for equal comparisons.

    Names appear as text, never as markup, and the page's content security policy allows no script.

    Args:
        comparison: the comparison.
        title: heading of the page; default: the names of the two reports.
        made: the command that wrote the page, and the date.
    """
    lines = [*comparison.sentences, *comparison.notes]
    names = " → ".join(comparison.names)
    answer = Content(names, [*_cards(comparison)], difference_sections(comparison), lines)
    return page(
        answer,
        title,
        made=made,
        badge=_badge(comparison),
        settings=_settings(comparison),
        version=comparison.new.trace.run.version,
        pictures=svg(comparison),
    )


def _badge(comparison: ComparisonData) -> str:
    if comparison.equal:
        return '<span class="badge good">✓ no call differs</span>'
    counts = {name: len(getattr(comparison, name)) for name in ("added", "removed", "changed")}
    changes = ", ".join(f"{exact(count)} {change}" for change, count in counts.items() if count)
    return f'<span class="badge bad">calls: {counts_in_words(comparison.conversions) or changes}</span>'


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
    value = short(delta.new, kind)
    if delta.equal:
        return Figure(title, title, Formatted(delta.new, value), kind, "unchanged")
    return Figure(
        title, title, Formatted(delta.new, value), kind, f"was {short(delta.old, kind)}{_ratio(delta, ', {}')}"
    )


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
    keys = "".join(color_key(name, name) for name in ("more", "less", "same"))
    drawn = (
        f"<figure class='picture'><svg id='change-map' viewBox='0 0 {WIDTH} {HEIGHT}' role='img' "
        f"aria-label='Area of each module; the table by module has the numbers'>{areas}</svg>"
        f"<figcaption class='note'>An area is the larger of old and new. {keys}</figcaption></figure>"
    )
    return section(title, drawn)


def areas_of(weights: Sequence[tuple[str, int]], frame: tuple[float, float, float, float]) -> Iterator[Area]:
    """Yield areas in proportion to the weights, by recursive bisection of the frame along its longer side."""
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
    said = f"{area.path}: {what}, {short(delta.old, kind)} → {short(delta.new, kind)}"
    box = f"x='{area.left:.1f}' y='{area.top:.1f}' width='{area.width:.1f}' height='{area.height:.1f}'"
    name = ""
    if area.width > LETTER * len(area.path) + 8 and area.height > 20:
        name = f"<text x='{area.left + 6:.1f}' y='{area.top + 16:.1f}'>{text(area.path)}</text>"
    return f"<g class='{CLASSES[what]}'><title>{text(said)}</title><rect {box}/>{name}</g>"
