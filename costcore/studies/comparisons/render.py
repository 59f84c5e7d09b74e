"""A comparison as tables and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from costcore.ledger.caveats import footer
from costcore.numbers.symbolic import magnitude
from costcore.studies.comparisons.comparison_data import ComparisonData
from costcore.studies.comparisons.conversion import ConversionChange, conversion_changes
from costcore.studies.comparisons.differences import Delta, Difference
from costcore.studies.comparisons.kinds import Kind
from costcore.studies.comparisons.memory_sections import memory_sections
from costcore.studies.comparisons.sections import DELTA, cells, counts_of, rows_of, texts
from costcore.tables.quantities import quantity
from costcore.tables.renderers import rendered
from costcore.tables.show import in_terminal
from costcore.tables.table import Table
from costcore.text.amounts import readable
from costcore.text.escape import escaped, printable
from costcore.text.table import Column
from costcore.text.values import Shown, attribute_text

DROPPED_FIRST = ("ratio", "old", "operator", "blocks", "call", "module", "settings")
"""The columns that a narrow terminal does without, in this order."""


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
    """Return the tables of a comparison: totals and what differs, or that of memory if no call differs."""
    if comparison.equal:
        return _memory(comparison)
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
        *_memory(comparison),
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


def _memory(comparison: ComparisonData) -> list[Table]:
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
            "flops": Shown(change.flops.difference, readable(change.flops.difference, "flops", signed=True)),
            "bytes": Shown(change.mrw.difference, readable(change.mrw.difference, "bytes", signed=True)),
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
