"""The columns of each table of a report, sorted and limited rows, and cells as text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from costcore.errors import unknown
from costcore.ledger.ledger import check_top
from costcore.numbers import as_text, magnitude
from costcore.plugins import with_plugin_hint
from costcore.tables.quantity import NUMERIC, Quantity, column_of, is_quantity, registered
from costcore.text.amounts import (
    Formatted,
    attribute_text,
    check_digits,
    check_unit,
    durations,
    prefix_for,
    rounded,
    scaled,
)
from costcore.text.output import Column, RenderedTable
from costcore.trace.run import FLOPS

# Columns of the tables of a report.


COUNTED = ("flops", "flops%", "madd", "flops_fma1")
"""The keys of the columns for the counts of a convention."""

SENT = column_of("mcomm")
"""The bytes that a process sends to others; in default columns if the run sends any."""

SHARES = ("flops%", "mread%", "mwrite%", "mrw%")
"""The shares in entries."""


def by_key(*columns: Column) -> dict[str, Column]:
    """Return the columns of a table by their keys."""
    return {column.key: column for column in columns}


def preset(*names: str, **titles: str) -> dict[str, Column]:
    """Return the columns of quantities, some with a title of this table."""
    columns = [column_of(name) for name in names]
    return by_key(*(column._replace(title=titles.get(column.key, column.title)) for column in columns))


REPORT = preset(
    *("name", "flops", "mread", "mwrite", "mrw", *SHARES, "macs", "n_params", "type", "op", "module", "phase"),
    *("dtype", "input_shapes", "output_shapes", "params", "operations", "traceback"),
)


SUMMARY = preset(
    *("type", "n_layers", "flops", "mread", "mwrite", "mrw", *SHARES, "macs", "n_params", "name"), n_layers="# Layers"
)


GROUPS = preset(
    *("type", "op", "module", "phase", "dtype", "native", "n_layers", "flops", "mread", "mwrite", "mrw", *SHARES),
    *("macs", "n_params", "n_shared"),
    n_shared="# Shared params",
)


LAYERS = preset(
    *("module", "name", "type", "op", "phase", "dtype", "input_shape", "output_shape", "n_params", "memory", "madd"),
    *("flops_fma1", "macs", "mread", "mwrite", "mrw", *SHARES),
)


TREE = preset(
    *("module", "type", "output_shape", "n_layers", "n_unknown", "n_params", "n_trainable", "n_frozen", "n_shared"),
    *("n_buffers", "activations", "flops", "macs", "mread", "mwrite", "mrw", *SHARES),
    type="Class",
) | by_key(Column("depth", "Depth", "count"))


RECEPTIVE_FIELDS = by_key(
    *preset("name", "type", "op", "module", "output_shape").values(),
    Column("size", "Size"),
    Column("stride", "Stride"),
    Column("padding", "Padding"),
    Column("centre", "Centre"),
    Column("remark", "Remark"),
    Column("receptive_field", "Receptive field"),
)


BLOCKS = by_key(
    Column("kind", "Kind"),
    Column("module", "Module"),
    Column("name", "Name"),
    Column("call", "Call"),
    Column("phase", "Phase"),
    Column("born", "From"),
    Column("dies", "To"),
    Column("shape", "Shape", "shape"),
    Column("dtype", "Element type"),
    Column("nbytes", "Memory", "bytes"),
    Column("nbytes%", "Memory", "percent"),
)
"""The columns of the table of blocks alive at the peak."""


class ReportColumns:
    """Column sets of ``show_report``.

    Besides these, ``columns`` takes every quantity that :func:`costcore.quantities` lists.
    """

    DEFAULT = ("name", "flops", "mread", "mwrite", "mrw")
    DEFAULT_AND_PERCENT = (*DEFAULT, "flops%", "mread%", "mwrite%", "mrw%")
    ALL = tuple(key for key in REPORT if key != "traceback")


class SummaryColumns:
    """Column sets of ``show_summary_report``. ``ALL`` omits ``name``, which repeats ``type``.

    ``n_layers``, the number of calls, has the title of chainer-computational-cost here, ``# Layers``.
    """

    DEFAULT = ("type", "n_layers", "flops", "mread", "mwrite", "mrw")
    DEFAULT_AND_PERCENT = (*DEFAULT, "flops%", "mread%", "mwrite%", "mrw%")
    ALL = tuple(key for key in SUMMARY if key != "name")


class GroupColumns:
    """Column sets of ``show_by``; the columns of the grouping keys come before them."""

    DEFAULT = ("n_layers", "flops", "mread", "mwrite", "mrw")
    DEFAULT_AND_PERCENT = (*DEFAULT, "flops%", "mread%", "mwrite%", "mrw%")
    ALL = (*DEFAULT_AND_PERCENT, "macs", "n_params", "n_shared")


class LayerColumns:
    """Column sets of ``show_layers``. If time was measured, its columns follow ``DEFAULT``."""

    DEFAULT = (
        *("module", "name", "input_shape", "output_shape", "n_params", "memory", "madd", "flops_fma1"),
        *("mread", "mwrite", "mrw", "flops%"),
    )
    ALL = tuple(LAYERS)


class TreeColumns:
    """Column sets of ``show_tree``, which leaves out those of their columns that say nothing of this model."""

    DEFAULT = ("module", "type", "output_shape", "n_params", "n_trainable", "flops", "flops%", "macs", "mrw")
    DETAILED = (
        *("module", "type", "output_shape", "n_trainable", "n_frozen", "n_shared", "n_buffers", "activations"),
        *("flops", "flops%", "macs", "mread", "mwrite"),
    )
    ALL = tuple(TREE)


class ReceptiveFieldColumns:
    """Column sets of ``show_receptive_field``."""

    DEFAULT = ("name", "module", "output_shape", "size", "stride", "padding", "remark")
    ALL = tuple(key for key in RECEPTIVE_FIELDS if key != "receptive_field")


class MemoryColumns:
    """Column sets of ``show_memory``."""

    DEFAULT = ("kind", "module", "name", "call", "shape", "dtype", "nbytes", "nbytes%")
    ALL = tuple(BLOCKS)


_DEFAULTS = (
    *(ReportColumns.DEFAULT, ReportColumns.DEFAULT_AND_PERCENT, ReportColumns.ALL),
    *(SummaryColumns.DEFAULT, SummaryColumns.DEFAULT_AND_PERCENT, SummaryColumns.ALL),
    *(GroupColumns.DEFAULT, GroupColumns.DEFAULT_AND_PERCENT, GroupColumns.ALL),
    *(LayerColumns.DEFAULT, LayerColumns.ALL, TreeColumns.DEFAULT, TreeColumns.DETAILED, TreeColumns.ALL),
    *(MemoryColumns.DEFAULT, MemoryColumns.ALL, ReceptiveFieldColumns.DEFAULT, ReceptiveFieldColumns.ALL),
)


def matches(columns: Sequence[Column], sets: Iterable[Sequence[str]]) -> bool:
    """Return whether the columns are one of some sets."""
    return tuple(column.key for column in columns) in {tuple(names) for names in sets}


def is_default(columns: Sequence[Column]) -> bool:
    """Return whether the columns are, or end with, a set of this module, rather than chosen one by one."""
    keys = tuple(column.key for column in columns if column != SENT)
    return any(keys[-len(names) :] == names for names in _DEFAULTS)


def with_sent(columns: Sequence[Column]) -> list[Column]:
    """Return a set of columns of this module with the bytes sent after the other bytes; any other list as it is."""
    bytes_at = [i for i, column in enumerate(columns) if column.key in ("mread", "mwrite", "mrw")]
    if not bytes_at or not is_default(columns):
        return list(columns)
    after = bytes_at[-1] + 1
    return [*columns[:after], SENT, *columns[after:]]


TREE_DROPPED_FIRST = (
    *("n_buffers", "n_shared", "n_frozen", "activations", "mwrite", "mread", "mcomm", "mrw", "type", "macs"),
    *("flops%", "n_trainable", "output_shape", "n_params"),
)
"""The default columns of a tree in the order in which a narrow terminal drops them."""


def columns_with_values(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    """Return the columns of a tree that are not zero or empty in every row; FLOPs are always shown.

    The number of trainable parameters is shown if some are frozen.
    """
    none_is_frozen = not any(row.get("n_frozen") for row in rows)
    empty = {each.key for each in columns[1:] if not any(row.get(each.key) for row in rows)} - {"flops"}
    empty |= {"n_trainable"} if none_is_frozen and any(each.key == "n_params" for each in columns) else set()
    return [each for each in columns if each.key not in empty]


def in_unit(columns: Sequence[Column], unit: str) -> list[Column]:
    """Return the columns with the unit of a convention as the title of the amounts that it counts.

    Args:
        columns: the columns.
        unit: what it counts, ``MACs (fvcore)``; titles stay for FLOPs.
    """
    return [each._replace(title=unit) if each.key in COUNTED and unit != FLOPS else each for each in columns]


def choose(columns: Mapping[str, Column], names: Sequence[str]) -> list[Column]:
    """Return the columns with these names.

    Args:
        columns: the columns of the table, by name.
        names: the names to show.

    Raises:
        TypeError: if ``names`` is not a list of names.
        ValueError: if it is empty or contains an unknown name.
    """
    if missing := [name for name in _checked(columns, names) if name not in columns]:
        raise ValueError(unknown("column", missing, columns))
    return [columns[name] for name in names]


def with_quantities(columns: Mapping[str, Column], names: Sequence[str | Quantity]) -> list[Column]:
    """Return the columns with these names, of the table or of any quantity.

    Args:
        columns: the columns that the table has by itself, by name.
        names: the names to show, or quantities.

    Raises:
        TypeError: if ``names`` is not a list of names.
        ValueError: if it is empty, or contains an unknown name or parameter.
        CostError, OSError: if a file that a name has as parameter cannot be read.
    """
    names = _checked(columns, names)
    own = [None if isinstance(name, Quantity) else columns.get(name) for name in names]
    pairs = list(zip(names, own, strict=True))
    if missing := [name for name, column in pairs if column is None and not is_quantity(name)]:
        raise ValueError(with_plugin_hint(unknown("column", missing, dict.fromkeys((*columns, *registered())))))
    return [column_of(name) if column is None else column for name, column in pairs]


def _checked(columns: Mapping[str, Column], names: Sequence[Any]) -> list[Any]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise TypeError(f"columns must be a list of names (got {names!r})")
    names = list(names)
    if not names:
        raise ValueError(f"columns is empty (expected one or several of {', '.join(columns)})")
    if wrong := [name for name in names if not isinstance(name, Hashable)]:
        raise TypeError(f"columns must be a list of names (got {wrong[0]!r} in it)")
    return names


# Cells as text.


def tabulate(
    columns: Sequence[Column],
    entries: Sequence[Mapping[str, Any]],
    unit: str | None,
    n_digits: int | None,
    fixed: bool,
    total: int | None = -1,
    grouped: Collection[str] = (),
) -> RenderedTable:
    """Return a table of ``entries``, formatted as text.

    Args:
        columns: the columns to show.
        entries: the rows, including the total.
        unit: the prefix of FLOPs and bytes, ``auto`` (one prefix per cell) or ``autoaligned`` (one per column).
        n_digits: digits after the decimal point; None for 10.
        fixed: keep trailing zeros.
        total: index of the row with the total; None if there is none.
        grouped: the kinds of whole numbers whose thousands are separated.

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
        if column.kind in grouped:
            texts = [f"{int(text):,}" if text.isdecimal() and len(text) > 3 else text for text in texts]
        titles.append(_title(column, unit_name))
        cells.append(texts)
    numeric = [column.kind in NUMERIC for column in columns]
    shares = [entry.get("flops%") for entry in entries] if any("flops%" in entry for entry in entries) else ()
    return RenderedTable(titles, [list(row) for row in zip(*cells, strict=True)], numeric, shares, total)


def _title(column: Column, unit_name: str) -> tuple[str, str]:
    # The prefix of FLOPs is part of the title: ``GFLOPs``.
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
    if isinstance(value, Formatted):
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


# Sorted and limited rows.


def in_order(items: Iterable[Any], column: Column, entry_of: Callable[[Any], Mapping[str, Any]]) -> list[Any]:
    """Return the items sorted by a column: numbers from the largest, text alphabetically.

    The order is stable. Symbolic expressions are ranked by :func:`costcore.numbers.magnitude`, percentages by
    the amounts they are percentages of; missing values come last.

    Args:
        items: the items to sort.
        column: the column to sort by.
        entry_of: returns the entry of an item.
    """
    key = column.key.removesuffix("%")

    def rank(item: Any) -> tuple[int, Any]:
        value = entry_of(item).get(key, "")
        if column.kind not in NUMERIC:
            return 0, str(value)
        return (1, 0) if value is None or isinstance(value, str) else (0, -magnitude(value))

    return sorted(items, key=rank)


def limited(rows: Sequence[Any], top: int | None, others: Callable[[Sequence[Any]], Any]) -> Sequence[Any]:
    """Return the first rows, and one that stands for all others if there are more.

    Args:
        rows: the rows in order.
        top: the maximum number of rows; None for all.
        others: returns the row that stands for several.

    Raises:
        TypeError, ValueError: if ``top`` is not a positive integer.
    """
    check_top(top)
    return rows if top is None or len(rows) <= top else [*rows[:top], others(rows[top:])]
