"""The entries of a report as the text of table cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from costcore.numbers.symbolic import as_text
from costcore.tables.quantity import NUMERIC
from costcore.text.durations import durations
from costcore.text.table import Column, TextTable
from costcore.text.units import check_digits, check_unit, prefix_for, rounded, scaled
from costcore.text.values import Shown, attribute_text


def tabulate(
    columns: Sequence[Column],
    entries: Sequence[Mapping[str, Any]],
    unit: str | None,
    n_digits: int | None,
    fixed: bool,
    total: int | None = -1,
) -> TextTable:
    """Return a table of ``entries``, formatted as text.

    Args:
        columns: the columns to show.
        entries: the rows, including the total.
        unit: the prefix of FLOPs and bytes, ``auto`` (one prefix per cell) or ``autoaligned`` (one per column).
        n_digits: digits after the decimal point; None for 10.
        fixed: keep trailing zeros.
        total: index of the row with the total; None if there is none.

    Raises:
        TypeError, ValueError: if ``unit`` or ``n_digits`` is invalid.
    """
    check_unit(unit)
    digits = check_digits(n_digits)
    titles, cells = [], []
    for column in columns:
        values = [entry.get(column.key, "") for entry in entries]
        numbers = [v for v in values if v != ""]
        unit_name, texts = "", []
        if column.kind in ("flops", "bytes"):
            prefix = prefix_for(numbers, column.kind) if unit == "autoaligned" else (unit or "")
            unit_name = "" if unit == "auto" else _unit_name(prefix, column.kind)
            texts = [
                ""
                if v == ""
                else _with_unit(v, column.kind, digits, fixed)
                if unit == "auto"
                else scaled(v, prefix, column.kind, digits, fixed)
                for v in values
            ]
        elif column.kind == "duration":
            unit_name, texts = durations(values, unit, digits, fixed)
        else:
            texts = [cell_text(value, column.kind, digits, fixed) for value in values]
        titles.append(_title(column, unit_name))
        cells.append(texts)
    numeric = [column.kind in NUMERIC for column in columns]
    shares = [entry.get("flops%") for entry in entries] if any("flops%" in entry for entry in entries) else ()
    return TextTable(titles, [list(row) for row in zip(*cells, strict=True)], numeric, shares, total)


def _title(column: Column, unit_name: str) -> tuple[str, str]:
    """Return title and unit of a column; the prefix of FLOPs is part of the title, ``GFLOPs``."""
    if column.kind == "flops":
        return unit_name + column.title, ""
    return column.title, column.unit or {"percent": "(%)", "seconds": "ms"}.get(column.kind, unit_name)


def _unit_name(prefix: str, kind: str) -> str:
    return prefix if kind == "flops" else f"{prefix}iB" if prefix else "B"


def _with_unit(value: Any, kind: str, digits: int, fixed: bool) -> str:
    prefix = prefix_for([value], kind)
    return f"{scaled(value, prefix, kind, digits, fixed)} {_unit_name(prefix, kind)}".rstrip()


def cell_text(value: Any, kind: str, digits: int, fixed: bool) -> str:
    """Return the text of a cell without a unit prefix: ``-`` for None, empty for a missing value.

    Numbers that are ``fixed`` have all digits, zero too, so that those of a column are aligned on the decimal point.
    """
    if isinstance(value, Shown):
        return value.text
    if value == "" or value is None:
        return "-" if value is None else ""
    if kind == "percent":
        return _decimal(value, digits, fixed) + "%"
    if kind == "ratio":
        return _decimal(value, digits, fixed)
    if kind == "seconds":
        return _decimal(1000 * Fraction(value), digits, fixed)
    if kind == "shape":
        return as_text(tuple(value))
    if kind == "shapes":
        return as_text([tuple(shape) for shape in value])
    if kind == "names":
        return ", ".join(value)
    if kind == "attributes":
        return ", ".join(f"{name}={attribute_text(v)}" for name, v in value.items())
    return as_text(value)


def _decimal(value: Any, digits: int, fixed: bool) -> str:
    number = Fraction(value)
    return rounded(number, digits, fixed and bool(number)) if number or not fixed else f"{0:.{digits}f}"
