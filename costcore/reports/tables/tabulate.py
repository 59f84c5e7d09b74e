"""Entries of a report as the text of a table's cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from costcore.reports.columns import NUMERIC, Column, Table
from costcore.reports.text.units import check_digits, check_unit, prefix_for, rounded, scaled
from costcore.reports.text.values import attribute_text
from costcore.symbolic import written


def tabulate(
    columns: Sequence[Column],
    entries: Sequence[Mapping[str, Any]],
    unit: str | None,
    n_digits: int | None,
    fixed: bool,
    total: int = -1,
) -> Table:
    """Write ``entries`` as text under ``columns``; ``total`` is the entry that the others sum up to.

    Raises:
        TypeError, ValueError: for a unit or a number of digits that is not known.
    """
    check_unit(unit)
    digits = check_digits(n_digits)
    titles, cells = [], []
    for column in columns:
        values = [entry.get(column.key, "") for entry in entries]
        numbers = [v for v in values if v != ""]
        suffix, texts = "", []
        if column.kind in ("flops", "bytes"):
            prefix = prefix_for(numbers, column.kind) if unit == "autoaligned" else (unit or "")
            suffix = "" if unit == "auto" else _unit_name(prefix, column.kind)
            texts = [
                _automatic(v, column.kind, digits, fixed)
                if unit == "auto"
                else scaled(v, prefix, column.kind, digits, fixed)
                for v in values
            ]
        else:
            texts = [_cell(value, column.kind, digits) for value in values]
        titles.append(_title(column, suffix))
        cells.append(texts)
    numeric = [column.kind in NUMERIC for column in columns]
    shares = [entry.get("flops%") for entry in entries]
    return Table(titles, [list(row) for row in zip(*cells, strict=True)], numeric, shares, total)


def _title(column: Column, suffix: str) -> tuple[str, str]:
    if column.kind == "flops":
        return suffix + column.title, ""
    return column.title, {"percent": "(%)", "seconds": "ms"}.get(column.kind, suffix)


def _unit_name(prefix: str, kind: str) -> str:
    return prefix if kind == "flops" else f"{prefix}iB" if prefix else "B"


def _automatic(value: Any, kind: str, digits: int, fixed: bool) -> str:
    prefix = prefix_for([value], kind)
    return f"{scaled(value, prefix, kind, digits, fixed)} {_unit_name(prefix, kind)}".rstrip()


def _cell(value: Any, kind: str, digits: int) -> str:
    if value == "" or value is None:
        return "-" if value is None else ""
    if kind == "percent":
        return rounded(Fraction(value), digits) + "%"
    if kind == "seconds":
        return rounded(1000 * Fraction(value), digits)
    if kind == "shape":
        return written(tuple(value))
    if kind == "shapes":
        return written([tuple(shape) for shape in value])
    if kind == "settings":
        return ", ".join(f"{name}={attribute_text(v)}" for name, v in value.items())
    return written(value)
