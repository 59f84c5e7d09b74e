"""A comparison as tables and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from costcore.comparisons.audit import Rewrite, audit
from costcore.comparisons.comparison_data import ComparisonData
from costcore.comparisons.differences import COMPARED, Delta, Difference
from costcore.reports.columns import Table
from costcore.reports.tables.renderers import rendered
from costcore.reports.text.amounts import METRICS, readable
from costcore.reports.text.escape import escaped, printable
from costcore.reports.text.values import attribute_text
from costcore.symbolic import magnitude


class Section(NamedTuple):
    """A part of a comparison; details are ``folded`` away where that can be done."""

    title: str
    table: Table
    folded: bool


_DELTA = [("old", ""), ("new", ""), ("difference", ""), ("ratio", "")]


def to_text(comparison: ComparisonData, mode: str, limit: int | None) -> str:
    """Verdict, totals, operators and calls as tables (``table``) or as Markdown with folded details (``md``)."""
    old, new = comparison.names
    is_markdown = mode == "md"
    parts = [f"**{_code(old)} → {_code(new)}**" if is_markdown else f"{old} → {new}"]
    lines = [escaped(line) if is_markdown else printable(line) for line in (*comparison.verdict, *comparison.notes)]
    parts.append("".join(f"- {line}\n" for line in lines))
    if comparison.equal:
        moved = f" {len(comparison.moved)} modules have another name." if comparison.moved else ""
        parts.append(f"No call was added, removed or changed.{moved}\n")
    else:
        parts += [_section(section, mode, limit) for section in sections(comparison)]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def sections(comparison: ComparisonData) -> list[Section]:
    """The tables, those with rows: totals first, then what differs, the largest change first."""
    changed_ops = {op: sums for op, sums in comparison.operators.items() if any(not d.equal for d in sums.values())}
    operators = dict(sorted(changed_ops.items(), key=lambda item: _weight(item[1]), reverse=True))
    differences = sorted(
        comparison.differences, key=lambda found: (_weight(found.costs), found.change == "changed"), reverse=True
    )
    found = (
        Section("Totals", _totals(comparison), False),
        Section("By operator", _operators(operators), True),
        Section("Conversion", _conversion(audit(comparison)), False),
        Section(_heading(comparison), _calls(differences), True),
        Section("Modules under another name", _table(["old", "new"], comparison.moved), True),
    )
    return [section for section in found if section.table.rows]


def _weight(costs: Mapping[str, Delta]) -> tuple[int, ...]:
    """How much a change is: of FLOPs, then of bytes, then of parameters; equals stay in order of the model."""

    def change(*keys: str) -> int:
        return sum(abs(magnitude(costs[key].difference)) for key in keys if key in costs)

    return change("flops"), change("mread", "mwrite"), change("n_params")


def _section(section: Section, mode: str, limit: int | None) -> str:
    title, table, folded = section
    rows = table.rows if limit is None else table.rows[:limit]
    left = len(table.rows) - len(rows)
    text = rendered(table._replace(rows=rows), mode)
    if left:
        text += f"\n… and {left} more rows; JSON has all of them\n"
    if mode != "md":
        return f"{title}\n{text}"
    if folded:
        return f"<details><summary>{title}</summary>\n\n{text}\n</details>"
    return f"{title}\n\n{text}"


def _totals(comparison: ComparisonData) -> Table:
    rows = [[METRICS[key][0], *_cells(delta, key)] for key, delta in comparison.totals.items()]
    return Table([("total", ""), *_DELTA], rows, [False, True, True, True, True])


def _operators(operators: Mapping[str, Mapping[str, Delta]]) -> Table:
    rows = []
    for op, sums in operators.items():
        calls = sums["n_layers"]
        name = op if calls.equal else f"{op} ({calls.old} → {calls.new} calls)"
        rows += _rows([name], {key: sums[key] for key in COMPARED if not sums[key].equal})
    return Table([("operator", ""), ("what", ""), *_DELTA], rows, [False, False, True, True, True, True])


def _calls(differences: Iterable[Difference]) -> Table:
    rows = []
    for difference in differences:
        entry = difference.entry
        settings = ", ".join(f"{name}: {_word(old)} → {_word(new)}" for name, (old, new) in difference.settings.items())
        head = [difference.change, entry["module"], entry["op"], entry["name"]]
        found = _rows(head, difference.costs)
        rows += [[*row, settings if i == 0 else ""] for i, row in enumerate(found)]
    titles = [(word, "") for word in ("change", "module", "operator", "call", "what")]
    numeric = [False] * 5 + [True] * 4 + [False]
    return Table([*titles, *_DELTA, ("settings", "")], rows, numeric)


def _conversion(rewrites: Iterable[Rewrite]) -> Table:
    rows = [
        [
            rewrite.what,
            ", ".join(rewrite.old),
            ", ".join(rewrite.new),
            str(rewrite.times),
            readable(rewrite.flops.difference, "flops", signed=True),
            readable(rewrite.mrw.difference, "mrw", signed=True),
        ]
        for rewrite in rewrites
    ]
    titles = [(word, "") for word in ("what", "before", "after", "times", "FLOPs", "bytes")]
    return Table(titles, rows, [False, False, False, True, True, True])


def _rows(head: Sequence[str], costs: Mapping[str, Delta]) -> list[list[str]]:
    """One row a cost, the head only in the first; one row without costs where there are none."""
    blank = [""] * len(head)
    rows = [
        [*(head if i == 0 else blank), METRICS[key][0], *_cells(delta, key)]
        for i, (key, delta) in enumerate(costs.items())
    ]
    return rows or [[*head, "", "", "", "", ""]]


def _cells(delta: Delta, key: str) -> list[str]:
    ratio = "" if delta.ratio is None else f"×{delta.ratio:.4f}"
    return [readable(delta.old, key), readable(delta.new, key), readable(delta.difference, key, signed=True), ratio]


def _heading(comparison: ComparisonData) -> str:
    counts = [(len(getattr(comparison, kind)), kind) for kind in ("added", "removed", "changed")]
    return "Calls: " + ", ".join(f"{count} {kind}" for count, kind in counts)


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    return Table([(title, "") for title in titles], [list(row) for row in rows], [False] * len(titles))


def _word(value: Any) -> str:
    return "none" if value is None else attribute_text(value)


def _code(name: str) -> str:
    """A name that Markdown leaves alone."""
    return "`" + name.replace("`", "'").replace("\n", " ") + "`"
