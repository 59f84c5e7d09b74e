"""A comparison as tables and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from costcore.ledger.caveats import footer
from costcore.numbers.symbolic import magnitude
from costcore.studies.comparisons.comparison_data import ComparisonData
from costcore.studies.comparisons.conversion import ConversionChange, conversion_changes
from costcore.studies.comparisons.differences import Delta, Difference
from costcore.studies.comparisons.memory_sections import memory_sections
from costcore.studies.comparisons.sections import CHANGES, DELTA_TITLES, Section, cells
from costcore.tables.quantities import quantity
from costcore.tables.renderers import rendered
from costcore.tables.show import in_terminal
from costcore.text.amounts import readable
from costcore.text.escape import escaped, printable
from costcore.text.table import TextTable
from costcore.text.values import attribute_text

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
    blocks = [f"**{_code(old)} → {_code(new)}**" if is_markdown else f"{old} → {new}"]
    lines = [escaped(line) if is_markdown else printable(line) for line in (*comparison.verdict, *comparison.notes)]
    blocks.append("".join(f"- {line}\n" for line in lines))
    if comparison.equal:
        moved = f" {len(comparison.moved)} modules were renamed or moved." if comparison.moved else ""
        blocks.append(f"No call was added, removed or changed.{moved}\n")
    blocks += [_section(section, mode, limit, width) for section in sections_of(comparison)]
    return "\n\n".join(block.rstrip("\n") for block in blocks) + "\n"


def sections_of(comparison: ComparisonData) -> list[Section]:
    """Return the tables of a comparison: totals and what differs, or that of memory if no call differs."""
    if comparison.equal:
        return _memory(comparison)
    return [Section("Totals", _totals(comparison), False), *difference_sections(comparison)]


def difference_sections(comparison: ComparisonData) -> list[Section]:
    """Return the non-empty tables of differences by operator, conversion, call and module, the largest change first."""
    changed_ops = {op: sums for op, sums in comparison.operators.items() if any(not d.equal for d in sums.values())}
    operators = dict(sorted(changed_ops.items(), key=lambda item: _weight(item[1]), reverse=True))
    differences = sorted(
        comparison.differences, key=lambda each: (_weight(each.costs), each.change == "changed"), reverse=True
    )
    titles = comparison.titles
    candidates = (
        *_memory(comparison),
        Section("By operator", _operators(operators, titles), True),
        Section("Conversion", _conversion(conversion_changes(comparison), titles["flops"]), False),
        Section(_heading(comparison), _calls(differences, titles), True),
        Section("Renamed modules", _table(["old", "new"], comparison.moved), True),
    )
    return [section for section in candidates if section.table.rows]


def _memory(comparison: ComparisonData) -> list[Section]:
    memory = comparison.memory
    return [] if memory is None else memory_sections(memory.figures, memory.by_kind, memory.blocks)


def _weight(costs: Mapping[str, Delta]) -> tuple[int, ...]:
    """Return the size of a change for sorting: in FLOPs, then in bytes, then in parameters."""

    def change(*keys: str) -> int:
        return sum(abs(magnitude(costs[key].difference)) for key in keys if key in costs)

    return change("flops"), change("mread", "mwrite", "mcomm"), change("n_params")


def _section(section: Section, mode: str, limit: int | None, width: int | None) -> str:
    title, table, is_detail = section
    rows = table.rows if limit is None else table.rows[:limit]
    omitted = len(table.rows) - len(rows)
    shown, remarks = in_terminal(table._replace(rows=rows), mode, width, DROPPED_FIRST)
    text = rendered(shown, mode) + footer(remarks, mode)
    if omitted:
        text += f"\n… and {omitted} more rows; JSON has all of them\n"
    if mode != "md":
        return f"{title}\n{text}"
    if is_detail:
        return f"<details><summary>{title}</summary>\n\n{text}\n</details>"
    return f"{title}\n\n{text}"


def _totals(comparison: ComparisonData) -> TextTable:
    titles = comparison.titles
    rows = [[titles[key], *cells(delta, quantity(key).kind)] for key, delta in comparison.totals.items()]
    return TextTable([("total", ""), *DELTA_TITLES], rows, [False, True, True, True, True])


def _operators(operators: Mapping[str, Mapping[str, Delta]], names: Mapping[str, str]) -> TextTable:
    rows = []
    for op, sums in operators.items():
        calls = sums["n_layers"]
        name = op if calls.equal else f"{op} ({calls.old} → {calls.new} calls)"
        changed = {key: delta for key, delta in sums.items() if key != "n_layers" and not delta.equal}
        rows += _rows([name], changed, names)
    return TextTable([("operator", ""), ("what", ""), *DELTA_TITLES], rows, [False, False, True, True, True, True])


def _calls(differences: Iterable[Difference], names: Mapping[str, str]) -> TextTable:
    rows = []
    for difference in differences:
        entry = difference.entry
        changed = difference.settings.items()
        settings = ", ".join(f"{name}: {_value_text(old)} → {_value_text(new)}" for name, (old, new) in changed)
        head = [difference.change, entry["module"], entry["op"], entry["name"]]
        rows += [[*row, settings if i == 0 else ""] for i, row in enumerate(_rows(head, difference.costs, names))]
    titles = [(title, "") for title in ("change", "module", "operator", "call", "what")]
    numeric = [False] * 5 + [True] * 4 + [False]
    return TextTable([*titles, *DELTA_TITLES, ("settings", "")], rows, numeric)


def _conversion(changes: Iterable[ConversionChange], unit: str) -> TextTable:
    rows = [
        [
            change.what,
            ", ".join(change.old),
            ", ".join(change.new),
            str(change.times),
            readable(change.flops.difference, "flops", signed=True),
            readable(change.mrw.difference, "bytes", signed=True),
        ]
        for change in changes
    ]
    titles = [(title, "") for title in ("what", "before", "after", "times", unit, "bytes")]
    return TextTable(titles, rows, [False, False, False, True, True, True])


def _rows(head: Sequence[str], costs: Mapping[str, Delta], names: Mapping[str, str]) -> list[list[str]]:
    """Return one row per cost, with ``head`` in the first row only; one row without costs if no cost differs."""
    blank = [""] * len(head)
    rows = [
        [*(head if i == 0 else blank), names[key], *cells(delta, quantity(key).kind)]
        for i, (key, delta) in enumerate(costs.items())
    ]
    return rows or [[*head, "", "", "", "", ""]]


def _heading(comparison: ComparisonData) -> str:
    counts = [(len(getattr(comparison, change)), change) for change in CHANGES]
    return "Calls: " + ", ".join(f"{count} {change}" for count, change in counts)


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> TextTable:
    return TextTable([(title, "") for title in titles], [list(row) for row in rows], [False] * len(titles))


def _value_text(value: Any) -> str:
    return "none" if value is None else attribute_text(value)


def _code(name: str) -> str:
    """Return a name as Markdown code, in which no character has a special meaning."""
    return "`" + name.replace("`", "'").replace("\n", " ") + "`"
