"""The columns of each table of a report, sorted and limited rows, and cells as text.

The second half builds tables of a run: rows of calls, groups or modules, with any quantity.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

from costcore.errors import unknown
from costcore.ledger.ledger import Ledger, check_depth, check_top, shares
from costcore.ledger.modules import ADDITIVE
from costcore.numbers import as_text, is_symbolic, magnitude
from costcore.plugins import with_plugin_hint
from costcore.tables.quantity import NUMERIC, Quantity, column_of, is_quantity, quantities_of, registered
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
from costcore.trace.call import Call
from costcore.trace.run import FLOPS

# Columns of the tables of a report.


COUNTED = ("flops", "flops%", "madd", "flops_fma1")
"""The keys of columns that have the counts of a convention."""

SENT = column_of("mcomm")
"""The bytes that a process sends to others; a default column if the run sends any."""

SHARES = ("flops%", "mread%", "mwrite%", "mrw%")
"""The keys of shares in entries."""


def by_key(*columns: Column) -> dict[str, Column]:
    """Return the columns of a table by their keys."""
    return {column.key: column for column in columns}


def preset(*names: str, **titles: str) -> dict[str, Column]:
    """Return the columns of quantities; ``titles`` replaces some titles."""
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

    The argument ``columns`` also accepts all quantities in :func:`costcore.quantities`.
    """

    DEFAULT = ("name", "flops", "mread", "mwrite", "mrw")
    DEFAULT_AND_PERCENT = (*DEFAULT, "flops%", "mread%", "mwrite%", "mrw%")
    ALL = tuple(key for key in REPORT if key != "traceback")


class SummaryColumns:
    """Column sets of ``show_summary_report``. ``ALL`` omits ``name``, which repeats ``type``.

    ``n_layers``, the number of calls, has the title ``# Layers`` here, as in chainer-computational-cost.
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
    """Column sets of ``show_tree``, which omits default columns that are zero or empty for this model."""

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
    """Return whether the columns equal one of several sets."""
    return tuple(column.key for column in columns) in {tuple(names) for names in sets}


def is_default(columns: Sequence[Column]) -> bool:
    """Return whether the columns are a column set, such as ``ReportColumns.ALL``, possibly after further columns."""
    keys = tuple(column.key for column in columns if column != SENT)
    return any(keys[-len(names) :] == names for names in _DEFAULTS)


def with_sent(columns: Sequence[Column]) -> list[Column]:
    """Add the bytes sent after the other bytes, if the columns are a column set (see :func:`is_default`)."""
    bytes_at = [i for i, column in enumerate(columns) if column.key in ("mread", "mwrite", "mrw")]
    if not bytes_at or not is_default(columns):
        return list(columns)
    after = bytes_at[-1] + 1
    return [*columns[:after], SENT, *columns[after:]]


TREE_DROPPED_FIRST = (
    *("n_buffers", "n_shared", "n_frozen", "activations", "mwrite", "mread", "mcomm", "mrw", "type", "macs"),
    *("flops%", "n_trainable", "output_shape", "n_params"),
)
"""The default columns of a tree, in the order in which a narrow terminal drops them."""


def columns_with_values(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    """Return the columns of a tree that are not zero or empty in every row; FLOPs are always shown.

    The number of trainable parameters is only shown if some are frozen.
    """
    none_is_frozen = not any(row.get("n_frozen") for row in rows)
    empty = {each.key for each in columns[1:] if not any(row.get(each.key) for row in rows)} - {"flops"}
    empty |= {"n_trainable"} if none_is_frozen and any(each.key == "n_params" for each in columns) else set()
    return [each for each in columns if each.key not in empty]


def in_unit(columns: Sequence[Column], unit: str) -> list[Column]:
    """Return the columns with the unit of a convention in place of FLOPs in titles.

    Args:
        columns: the columns.
        unit: the unit, ``MACs (fvcore)``; for ``FLOPs``, titles do not change.
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
        columns: the built-in columns of the table, by name.
        names: the names to show, or quantities.

    Raises:
        TypeError: if ``names`` is not a list of names.
        ValueError: if it is empty, or contains an unknown name or parameter.
        CostError, OSError: if a parameter is a file that cannot be read.
    """
    names = _checked(columns, names)
    own = [None if isinstance(name, Quantity) else columns.get(name) for name in names]
    pairs = list(zip(names, own, strict=True))
    if missing := [name for name, column in pairs if column is None and not is_quantity(name)]:
        raise ValueError(with_plugin_hint(unknown("column", missing, dict.fromkeys((*columns, *registered())))))
    return [column_of(name) if column is None else column for name, column in pairs]


def listed(names: Sequence[Any]) -> list[Any]:
    """Return the names of columns as a list.

    Raises:
        TypeError: if they are no list, such as the name of one column.
    """
    if isinstance(names, str):
        meant = [name.strip() for name in names.split(",")]
        raise TypeError(f"columns must be a list of names (got {names!r}). Did you mean {meant}?")
    if not isinstance(names, Iterable):
        raise TypeError(f"columns must be a list of names (got {names!r})")
    return list(names)


def _checked(columns: Mapping[str, Column], names: Sequence[Any]) -> list[Any]:
    names = listed(names)
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
        grouped: the kinds of numbers with thousands separators.

    Raises:
        TypeError, ValueError: if ``unit`` or ``n_digits`` is invalid.
    """
    check_unit(unit)
    digits = check_digits(n_digits)
    titles, cells = [], []
    for column in columns:
        values = [entry.get(column.key, "") for entry in entries]
        if column.kind in ("flops", "bytes"):
            unit_name, texts = _amounts(values, column.kind, unit, digits, fixed)
        elif column.kind == "duration":
            unit_name, texts = durations(values, unit, digits, fixed)
        else:
            unit_name, texts = "", [cell_text(value, column.kind, digits, fixed) for value in values]
        if column.kind in grouped:
            texts = [f"{int(text):,}" if text.isdecimal() else text for text in texts]
        titles.append(_title(column, unit_name))
        cells.append(texts)
    numeric = [column.kind in NUMERIC for column in columns]
    shares = [entry.get("flops%") for entry in entries] if any("flops%" in entry for entry in entries) else ()
    return RenderedTable(titles, [list(row) for row in zip(*cells, strict=True)], numeric, shares, total)


def _amounts(values: Sequence[Any], kind: str, unit: str | None, digits: int, fixed: bool) -> tuple[str, list[str]]:
    if unit == "auto":
        return "", ["" if value == "" else _with_unit(value, kind, digits, fixed) for value in values]
    prefix = prefix_for([value for value in values if value != ""], kind) if unit == "autoaligned" else unit or ""
    return _unit_name(prefix, kind), ["" if v == "" else scaled(v, prefix, kind, digits, fixed) for v in values]


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

    With ``fixed``, numbers keep trailing zeros (also ``0.000``), so that decimal points of a column are aligned.
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

    The sort is stable. Symbolic expressions are ranked by :func:`costcore.numbers.magnitude`, and percentages by their
    amounts (``flops%`` by ``flops``). Missing values come last.

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
    """Return the first rows, and one row for all others.

    Args:
        rows: the rows in order.
        top: the maximum number of rows; None for all.
        others: returns the row that replaces several rows.

    Raises:
        TypeError, ValueError: if ``top`` is not a positive integer.
    """
    check_top(top)
    return rows if top is None or len(rows) <= top else [*rows[:top], others(rows[top:])]


# Tables of a run: rows of calls or groups, or of the module tree, with any quantity.


class TableBuilder:
    """The columns and rows of a table of a run, with the requested quantities.

    Args:
        ledger: the ledger of the report.
        preset: the built-in columns of the table, by name.
        columns: names of the columns to show, or quantities.
        sort: the column to sort by; None keeps the order.
        more: additional quantities of this table.

    Raises:
        TypeError, ValueError: if a name or a parameter is unknown.
        CostError, OSError: if a parameter is a file that cannot be read.
    """

    columns: list[Column]

    def __init__(
        self,
        ledger: Ledger,
        preset: Mapping[str, Column],
        columns: Sequence[str | Quantity],
        sort: str | None,
        more: Sequence[Quantity] = (),
    ) -> None:
        self._preset = preset
        self.columns = with_quantities(preset, columns)
        self._order = None if sort is None else with_quantities(preset, [sort])[0]
        by_name: dict[Any, Quantity] = {each.name: each for each in more}
        asked = (*columns, *([] if sort is None else [sort]))
        self._names = [name if isinstance(name, Quantity) else by_name.get(name, name) for name in asked]
        self._ledger = ledger
        self._cells: Cells | None = None

    @property
    def remarks(self) -> list[str]:
        """Explanations of the quantities in the rows."""
        return [] if self._cells is None else self._cells.remarks

    def rows(self, rows: Sequence[TableRow], top: int | None, label: str = "name") -> list[Mapping[str, Any]]:
        """Return the entries of the rows, sorted and limited, followed by the entry of the total."""
        total = self._ledger.total
        known = {*(rows[0].entry if rows else self._preset), *(key for key in ("seconds", "seconds%") if key in total)}
        cells = self._cells = Cells(self._names, known, self._ledger)
        entries = arrange(cells.of_rows(rows), self._order, top, self._ledger, label, cells)
        return [*entries, {**total, **cells.total(), label: "total"}]

    def tree(
        self, tree: dict[str, Any], depth: int | None, top: int | None, mode: str, is_folded: bool = False
    ) -> list[Mapping[str, Any]]:
        """Return the rows of the module tree, beginning with the whole model; see :func:`tree_rows`."""
        cells = self._cells = Cells(self._names, {*tree, "module", "depth"}, self._ledger)
        cells.add_to_tree(tree)
        if is_folded and not any(callable(each.combine) for each in cells.quantities):
            shown = [column.key for column in self.columns if column.key not in ("module", "depth")]
            tree = folded_tree(tree, dict.fromkeys((*COMPARED, *shown)))
        return tree_rows(tree, depth, self._order, top, mode, cells)


def arrange(
    rows: Sequence[TableRow],
    sort: Column | None,
    top: int | None,
    ledger: Ledger,
    label: str = "name",
    cells: Cells | None = None,
) -> list[Mapping[str, Any]]:
    """Return the entries of the rows, sorted and limited; a last entry ``others`` sums the rows beyond the limit.

    Args:
        rows: the rows in their original order.
        sort: the column to sort by; None keeps the order.
        top: the maximum number of rows; None for all.
        ledger: the ledger of the report, which sums calls.
        label: the column for the text ``others``.
        cells: quantities in the rows that are not in the ledger.
    """

    def others(hidden: Sequence[TableRow]) -> TableRow:
        calls = [call for row in hidden for call in row.calls]
        sums = {k: v for k, v in (cells.of(calls) if cells else {}).items() if not isinstance(v, (str, list, tuple))}
        entry = {**ledger.sum(calls), **sums, "name": "others", "type": "others", label: "others"}
        if all("n_shared" in row.entry for row in hidden):
            not_shared = sum(row.entry["n_params"] - row.entry["n_shared"] for row in hidden)
            entry["n_shared"] = entry["n_params"] - not_shared
        return TableRow(entry, calls)

    if sort is not None:
        rows = in_order(rows, sort, lambda row: row.entry)
    return [row.entry for row in limited(rows, top, others)]


# Cells: values of quantities for calls, groups and modules.


class TableRow(NamedTuple):
    """An entry of a report, with the calls in it."""

    entry: Mapping[str, Any]
    calls: Sequence[Call]


class Cells:
    """The quantities of a table that its entries lack.

    Args:
        names: names or quantities of all columns, and of the column to sort by.
        known: the names of values that the entries already have.
        ledger: the ledger of the report.

    Raises:
        ValueError, CostError, OSError: if a name is unknown.
    """

    quantities: list[Quantity]

    def __init__(self, names: Iterable[str | Quantity], known: Container[str], ledger: Ledger) -> None:
        added = [name for name in names if isinstance(name, Quantity) or name not in known]
        self.quantities = quantities_of(added)
        self._shares = {name for name in added if isinstance(name, str) and name.endswith("%")}
        self._ledger = ledger

    @property
    def remarks(self) -> list[str]:
        """Explanations of the values, without duplicates."""
        of = [(*each.remarks(self._ledger), *each.missing(self._ledger)) for each in self.quantities]
        return [*dict.fromkeys(line for lines in of for line in lines)]

    def of(self, calls: Sequence[Call]) -> dict[str, Any]:
        """Return the values of a group of calls; empty for quantities of the whole run."""
        return self._values(lambda each: each.of(self._ledger, calls))

    def total(self, with_texts: bool = False) -> dict[str, Any]:
        """Return the values of the whole run, without texts of single calls unless ``with_texts``."""
        shown = [each for each in self.quantities if with_texts or each.is_number or callable(each.combine)]
        return self._with_shares({each.name: each.total(self._ledger) for each in shown})

    def of_rows(self, rows: Iterable[TableRow]) -> list[TableRow]:
        """Return the rows with their values."""
        return [TableRow({**entry, **self.of(calls)}, calls) for entry, calls in rows] if self.quantities else [*rows]

    def of_groups(self, entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Combine the values of several groups."""
        return self._values(lambda each: each.of_values([entry[each.name] for entry in entries]))

    def add_to_tree(self, tree: dict[str, Any]) -> None:
        """Add the values to every node of :meth:`Report.tree`."""
        if not self.quantities:
            return
        from costcore.ledger.modules import walk

        nodes = [node for _, node in walk(tree)]
        by_path = {node["path"]: node for node in reversed(nodes)} | {n["path"]: n for n in nodes if n["is_own"]}
        below: dict[int, list[Call]] = {id(node): [] for node in nodes}
        for call in self._ledger.calls:
            below[id(by_path[call.module])].append(call)
        for node in reversed(nodes):
            calls = below[id(node)]
            for child in node["children"]:
                calls += below.pop(id(child))
            calls.sort(key=lambda call: self._ledger.position[call.name])
            node.update(self.total(with_texts=True) if node is tree else self.of(calls))

    def _values(self, value: Callable[[Quantity], Any]) -> dict[str, Any]:
        values = {each.name: "" if each.is_of_run_only else value(each) for each in self.quantities}
        return self._with_shares(values)

    def _with_shares(self, values: dict[str, Any]) -> dict[str, Any]:
        shares = {
            f"{each.name}%": each.share(values[each.name], self._ledger)
            for each in self.quantities
            if f"{each.name}%" in self._shares and each.name in values
        }
        return {**values, **shares}


# Folding of consecutive equal modules, such as the layers of a network, into one node with their sums.


FOLDED_FROM = 3
"""The minimum number of equal modules that are folded, as on the page."""

COMPARED = ("type", "output_shape", "n_layers", "n_unknown", "n_params", "n_shared", "flops", "macs", "mread", "mwrite")
"""The keys that equal modules have in common, in addition to the shown values."""

NOT_SUMMED = ("live_peak",)
"""The keys that are not summed when modules are folded."""


def folded_tree(tree: Mapping[str, Any], compared: Iterable[str]) -> dict[str, Any]:
    """Return :meth:`Report.tree` with consecutive equal modules folded into one node.

    The values of this node and of all its children are sums over the equal modules, so children still add up to their
    parent. Own calls of a module are omitted if they cost nothing.

    Args:
        tree: the tree.
        compared: the keys of the values that must be equal.
    """
    from costcore.ledger.modules import walk

    keys, classes = [*compared], dict[Any, int]()
    class_of: dict[int, int] = {}  # by node id; equal nodes have equal classes
    nodes = [node for _, node in walk(dict(tree))]
    for node in reversed(nodes):
        below = tuple((child["name"], class_of[id(child)]) for child in node["children"])
        same = (*(_hashable(node.get(key)) for key in keys), node["same_as"], below)
        class_of[id(node)] = classes.setdefault(same, len(classes))

    def multiplied(node: Mapping[str, Any], n: int) -> dict[str, Any]:
        # The node with its values times n. Its children are not multiplied yet: (child, factor, name).
        runs: list[list[Mapping[str, Any]]] = []
        for child in node["children"]:
            if runs and not child["same_as"] and class_of[id(runs[-1][0])] == class_of[id(child)]:
                runs[-1].append(child)
            elif not _is_free(child):
                runs.append([child])
        children = []
        for run in runs:
            if len(run) < FOLDED_FROM:
                children += [(child, n, child["name"]) for child in run]
            else:
                name = f"{run[0]['name']} … {run[-1]['name']} ×{len(run)}"
                children.append((run[0], n * len(run), name))
        values = {key: _multiplied(key, value, n) for key, value in node.items()} if n > 1 else {**node}
        return {**values, "children": children}

    root = multiplied(tree, 1)
    stack = [root]
    while stack:  # not recursive, because trees may be deep
        node = stack.pop()
        node["children"] = [{**multiplied(child, n), "name": name} for child, n, name in node["children"]]
        stack += node["children"]
    return root


def _hashable(value: Any) -> Any:
    if isinstance(value, Mapping):
        value = [*value.items()]
    return tuple(map(_hashable, value)) if isinstance(value, (list, tuple)) else value


def _is_free(node: Mapping[str, Any]) -> bool:
    return bool(node["is_own"]) and not any(node[key] for key in ("flops", "mrw", "n_params", "n_unknown"))


def _multiplied(key: str, value: Any, n: int) -> Any:
    is_amount = isinstance(value, (int, float)) or is_symbolic(value)
    return value * n if is_amount and not isinstance(value, bool) and key not in NOT_SUMMED else value


# Rows of ``show_tree``: one per module, indented or with paths.


MAX_INDENT = 24
"""The maximum number of indented levels; deeper rows begin with the number of their level."""


class TreeLines(NamedTuple):
    """The parts of the indentation of a tree.

    Attributes:
        open: below a module with later siblings.
        closed: below a last child.
        branch: before a module with later siblings.
        last: before a last child.
    """

    open: str
    closed: str
    branch: str
    last: str


PLAIN_LINES = TreeLines("│  ", "   ", "├─ ", "└─ ")

MARKDOWN_LINES = TreeLines("│ ", "· ", "├ ", "└ ")
"""Lines without repeated spaces, which Markdown collapses."""


def tree_rows(
    tree: dict[str, Any],
    depth: int | None,
    sort: Column | None,
    top: int | None,
    mode: str,
    cells: Cells | None = None,
) -> list[Mapping[str, Any]]:
    """Return the rows of the module tree, parents before children; the first row is the whole model.

    Args:
        tree: the result of :meth:`Report.tree`.
        depth: the number of levels below the model; deeper modules are part of their parents. None for all.
        sort: the column by which the children of each module are sorted; None keeps the order of the model.
        top: the maximum number of children to show per module; a row ``others`` sums the remaining ones.
        mode: the name of the renderer: CSV gets paths, other modes an indented tree.
        cells: quantities in the nodes that :meth:`Report.tree` lacks.
    """
    check_depth(depth)
    lines = {"csv": None, "md": MARKDOWN_LINES}.get(mode, PLAIN_LINES)
    rows: list[Mapping[str, Any]] = []
    stack = [(tree, 0, "", "")]
    while stack:
        node, level, before_name, before_children = stack.pop()
        cell = (before_name + _row_title(node)) if lines else _path(node)
        rows.append({**node, "module": cell, "depth": level})
        children = node["children"] if depth is None or level < depth else []
        if sort is not None:
            children = in_order(children, sort, lambda child: child)
        children = limited(children, top, partial(_summed_node, node, tree, cells))
        below = []
        for child in children:
            is_last = child is children[-1]
            below.append((child, level + 1, *_indentation(lines or PLAIN_LINES, before_children, is_last, level)))
        stack += reversed(below)
    return rows


def _indentation(lines: TreeLines, inherited: str, is_last: bool, level: int) -> tuple[str, str]:
    if level >= MAX_INDENT:
        return f"… {level + 1} levels … ", inherited
    return inherited + (lines.last if is_last else lines.branch), inherited + (lines.closed if is_last else lines.open)


def _row_title(node: Mapping[str, Any]) -> str:
    name = node["name"] or "total"
    return f"{name} (same as {node['same_as']})" if node["same_as"] else name


def _path(node: Mapping[str, Any]) -> str:
    if node["is_own"]:
        return " ".join(filter(None, (node["path"], node["name"])))
    return node["path"] or "total"


def _summed_node(
    parent: Mapping[str, Any], tree: Mapping[str, Any], cells: Cells | None, children: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    # A parameter that two of the children share counts twice in ``n_shared``.
    sums: dict[str, Any] = {}
    for key in (*ADDITIVE, "n_params", "n_shared", "seconds"):
        amounts = [child[key] for child in children if key in child]
        if amounts:
            sums[key] = None if None in amounts else sum(amounts)
    blank = {"type": "", "same_as": "", "output_shape": "", "children": []}
    more = cells.of_groups(children) if cells else {}
    return {"name": "others", "path": parent["path"], "is_own": True, **blank, **sums, **shares(sums, tree), **more}
