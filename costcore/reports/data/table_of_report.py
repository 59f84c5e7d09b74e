"""A report as a table of any quantities, of calls, groups of calls, modules, or the whole run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from costcore.ledger.checks import check_depth
from costcore.ledger.ledger import KEYS, Ledger
from costcore.messages import unknown
from costcore.tables.arranged import Arranged
from costcore.tables.cells import TableRow
from costcore.tables.columns import (
    GROUPS,
    REPORT,
    TREE,
    GroupColumns,
    ReportColumns,
    TreeColumns,
    in_unit,
    with_sent,
)
from costcore.tables.quantity import Quantity
from costcore.tables.table import Table
from costcore.text.table import Column
from costcore.text.values import Shown

if TYPE_CHECKING:
    from costcore.reports.data.report_data import ReportData

PARTS = ("call", *KEYS, "tree", "run")
"""What rows are: calls, groups of calls by one or several keys, modules with what is inside them, or the run."""


def table_of(
    report: ReportData,
    parts: Sequence[str],
    columns: Sequence[str | Quantity] | None,
    sort: str | None,
    top: int | None,
    depth: int | None,
) -> Table:
    """Return a report as a table; arguments and exceptions as for :meth:`costcore.Report.table`."""
    check_parts(parts, depth)
    keys = [] if parts[0] in ("call", "tree", "run") else [*parts]
    preset: Mapping[str, Any] = {"tree": TREE, **dict.fromkeys(KEYS, GROUPS)}.get(parts[0], REPORT)
    default = {"tree": TreeColumns.DEFAULT, **dict.fromkeys(KEYS, GroupColumns.DEFAULT)}.get(
        parts[0], ReportColumns.DEFAULT
    )
    names = [*keys, *(name for name in (default if columns is None else columns) if name not in keys)]
    arranged = Arranged(report.ledger, preset, names, sort)
    label, total = (keys[0] if keys else "name"), None
    if parts[0] == "tree":
        rows = _tree_rows(report, arranged, depth, top)
    else:
        *rows, total = arranged.rows(_rows(report.ledger, parts, depth), top, label)
    if parts[0] == "run" and total is not None:
        rows, total = [total], None
    shown = with_sent(arranged.columns) if "mcomm" in report.ledger.sums else arranged.columns
    unit, remarks = report.trace.run.unit, [*arranged.remarks, *report.remarks]
    title = {"call": "By call", "tree": "By module, with all that is inside", "run": "The whole run"}.get(parts[0])
    return Table(
        title or f"By {' and '.join(parts)}",
        in_unit(shown, unit),
        [_only(shown, row) for row in rows],
        total=None if total is None else _only(shown, total),
        remarks=remarks,
        unit=unit,
        is_tree=parts[0] == "tree",
        prefix="autoaligned",
        n_digits=3,
    )


def _only(columns: Sequence[Column], row: Mapping[str, Any]) -> dict[str, Any]:
    return {column.key: row[column.key] for column in columns if column.key in row}


def check_parts(parts: Sequence[str], depth: int | None) -> None:
    """Check what the rows of a table are.

    Raises:
        TypeError: if there are none, or if one is not a string.
        ValueError: if one is unknown, cannot be joined with others, or has no depth.
    """
    if not parts or not all(isinstance(part, str) for part in parts):
        raise TypeError(f"expected what the rows are, of {', '.join(PARTS)} (got {parts!r})")
    if missing := [part for part in parts if part not in PARTS]:
        raise ValueError(unknown("part", missing, PARTS))
    if alone := [part for part in parts if part not in KEYS and len(parts) > 1]:
        raise ValueError(f"{alone[0]!r} cannot be joined with other parts: its rows are not groups of calls by a key")
    check_depth(depth)
    if depth is not None and not {"tree", "module"} & {*parts}:
        raise ValueError(f"depth is that of modules: rows by {' and '.join(parts)} have none (expected tree or module)")


def rows_by(ledger: Ledger, keys: Sequence[str], depth: int | None = None) -> list[TableRow]:
    """Return a row per group of calls.

    Args:
        ledger: the ledger of the report.
        keys: the keys of the groups.
        depth: the number of names of a module; deeper ones are part of it. None for all.
    """
    groups = ledger.groups(*keys)
    if depth is None:
        return [TableRow(entry, calls) for entry, calls in zip(ledger.by(*keys).values(), groups.values(), strict=True)]
    merged: dict[tuple[Any, ...], list[Any]] = {}
    for group, calls in groups.items():
        values = (group,) if len(keys) == 1 else group
        cut = (".".join(v.split(".")[:depth]) if k == "module" else v for k, v in zip(keys, values, strict=True))
        merged.setdefault(tuple(cut), []).extend(calls)
    rows = []
    for values, calls in merged.items():
        calls.sort(key=lambda call: ledger.position[call.name])
        rows.append(TableRow({**dict(zip(keys, values, strict=True)), **ledger.sum(calls)}, calls))
    return rows


def _rows(ledger: Ledger, parts: Sequence[str], depth: int | None) -> list[TableRow]:
    if parts[0] == "call":
        return [TableRow(ledger.entries[call.name], [call]) for call in ledger.calls]
    return [] if parts[0] == "run" else rows_by(ledger, parts, depth)


def _tree_rows(report: ReportData, arranged: Arranged, depth: int | None, top: int | None) -> list[Mapping[str, Any]]:
    """Return the modules with their paths, which ``print`` shows as an indented tree."""
    tree = report.tree()
    indented = arranged.tree(tree, depth, top, "table")
    paths = (row["module"] for row in arranged.tree(tree, depth, top, "csv"))
    return [{**row, "module": Shown(path, row["module"])} for row, path in zip(indented, paths, strict=True)]
