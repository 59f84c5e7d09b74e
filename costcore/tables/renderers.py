"""Tables as text: renderers (CSV, Markdown, boxes, color, HTML) and what decides the rows and columns that they get.

Columns that do not fit a terminal are left out; rows are sorted, limited or a tree of modules. Plug-ins add renderers.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from html import escape
from typing import IO, Any, NamedTuple

from costcore.errors import CostError, qualified_name, short_repr, unknown
from costcore.ledger.ledger import Ledger, check_depth, check_top, shares
from costcore.ledger.modules import ADDITIVE
from costcore.numbers import magnitude
from costcore.plugins import cached, functions_from_plugins, hookimpl, with_plugin_hint
from costcore.tables.quantity import NUMERIC, Quantity, chosen, is_default, matches, with_quantities
from costcore.text.screen import Column, RenderedTable, Renderer, Screen, escaped, printable, shortened
from costcore.trace.call import Call


@hookimpl
def costcore_renderers() -> Mapping[str, Renderer]:
    """Return the built-in renderers, by mode."""
    return {"csv": to_csv, "md": to_markdown, "table": to_boxes, "color": to_color}


@cached
def renderers() -> Mapping[str, Renderer]:
    """Return every registered renderer, by mode.

    Raises:
        CostError: if two renderers are registered for the same mode, or if a plug-in fails.
    """
    by_mode: dict[str, Renderer] = {}
    for registered in functions_from_plugins("costcore_renderers"):
        for mode, renderer in registered.items():
            if mode in by_mode:
                raise CostError(
                    f"mode={mode!r} has two renderers, {qualified_name(by_mode[mode])} and {qualified_name(renderer)}"
                )
            by_mode[mode] = renderer
    return by_mode


def renderer_for(mode: str) -> Renderer:
    """Return the renderer of a mode.

    Raises:
        ValueError: if there is none.
        TypeError: if it is not a name.
    """
    if not isinstance(mode, Hashable):
        raise TypeError(f"mode must be a name (got {mode!r})")
    if mode not in renderers():
        hint = ". For an HTML page use report.to_html()." if mode == "html" else ""
        raise ValueError(with_plugin_hint(unknown("mode", mode, renderers()) + hint))
    return renderers()[mode]


def rendered(table: RenderedTable, mode: str) -> str:
    """Return ``table`` as text, rendered in ``mode``.

    Raises:
        ValueError: if the mode is unknown.
        CostError: if the renderer of a plug-in fails or does not return a string.
    """
    renderer = renderer_for(mode)
    try:
        text = renderer(table)
    except Exception as error:  # code of a plug-in can raise anything
        raise CostError(f"the renderer {qualified_name(renderer)} fails: {type(error).__name__}: {error}") from error
    if not isinstance(text, str):
        raise CostError(f"the renderer {qualified_name(renderer)} must return text (got {short_repr(text)})")
    return text if text.endswith("\n") else f"{text}\n"


def to_csv(table: RenderedTable) -> str:
    """Return comma-separated values.

    An apostrophe precedes text that a spreadsheet would evaluate as a formula. Control characters and bidirectional
    marks are escaped, line breaks too, so that every row is one line; tabs are kept.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([" ".join(filter(None, title)) for title in table.titles])
    for row in table.rows:
        writer.writerow([c if n and c.isprintable() else _plain(c, n) for c, n in zip(row, table.numeric, strict=True)])
    return out.getvalue()


def _plain(cell: str, is_number: bool) -> str:
    cell = cell if is_number else _escape_formula(cell)
    return "\t".join(map(printable, cell.split("\t"))) if "\t" in cell else printable(cell)


def to_markdown(table: RenderedTable) -> str:
    """Return a Markdown table (GitHub's dialect)."""
    lines = [" | ".join(escaped(" ".join(filter(None, title))) for title in table.titles)]
    lines.append("|".join("---:" if numeric else ":---" for numeric in table.numeric))
    lines += [" | ".join(escaped(cell) for cell in row) for row in table.rows]
    return "".join(f"|{' ' if i != 1 else ''}{line}{' ' if i != 1 else ''}|\n" for i, line in enumerate(lines))


def to_color(table: RenderedTable) -> str:
    """Return boxes in color, with a bar for each row's share of the FLOPs; plain boxes if rich is not installed."""
    try:
        import rich  # noqa: F401
    except ImportError:
        return to_boxes(table)
    return draw(table._replace(rows=_cells(table)))


def to_boxes(table: RenderedTable) -> str:
    """Return a table with lines drawn around the cells; a tree without lines between its rows."""
    from texttable import Texttable

    drawing = Texttable(max_width=0)
    if table.is_tree or not table.has_lines:
        drawing.set_deco(Texttable.BORDER | Texttable.HEADER | Texttable.VLINES)
    drawing.set_cols_dtype(["t"] * len(table.titles))
    drawing.set_header_align(["l"] * len(table.titles))
    drawing.set_cols_align(["r" if numeric else "l" for numeric in table.numeric])
    drawing.header(["\n".join(filter(None, title)) for title in table.titles])
    for row in _cells(table):
        drawing.add_row(row)
    return str(drawing.draw()) + "\n"


def _cells(table: RenderedTable) -> list[list[str]]:
    rows = [[shortened(printable(cell)) for cell in row] for row in table.rows]
    wraps = {**({0: table.wrap} if table.wrap else {}), **table.wraps}
    for i, width in wraps.items():
        rows = [[*row[:i], "\n".join(textwrap.wrap(row[i], width)), *row[i + 1 :]] for row in rows]
    return rows


def _escape_formula(text: str) -> str:
    text = text.replace("\r", "\n").replace("\0", " ")  # some CSV readers reject these characters, even if quoted
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\n", " ")) else text


# Fitting a terminal: columns that do not fit are left out and named below, and long text is shortened.


AMOUNTS = ("flops", "bytes", "seconds", "duration")
"""The kinds of columns of which one is always shown: a table of names alone says nothing."""

DROPPED_FIRST = (
    *("n_buffers", "n_shared", "n_frozen", "mwrite%", "mread%", "mrw%", "activations", "dtype"),
    *("output_shape", "input_shape", "shape", "kind", "mwrite", "mread", "mcomm", "n_trainable", "memory", "madd"),
    *("at_peak", "phase", "padding", "n_params", "type", "call", "mrw", "macs", "offset", "n_layers", "n_groups"),
    *("stride", "flops_fma1", "module", "checked", "measured%", "bound/measured%", "seconds%"),
)
"""The columns in the order in which a narrow terminal drops them. All other columns are always shown."""

BETWEEN_CELLS = 3
"""The line between two cells, and a space on each side of it (characters)."""

NOTEBOOK_WIDTH = 100
"""The width of the output of a cell, which wraps longer lines; notebooks do not report theirs (characters)."""

SHORTEST, TIGHTEST = 24, 10
"""The minimum length of shortened text (characters); the second one if the columns to show always do not fit."""

MOST_WRAPPED = 8
"""The maximum number of rows of a table that wraps sentences in its first column."""


class Fitted(NamedTuple):
    """A table that fits.

    Attributes:
        table: the table.
        dropped: the indices of the columns that were left out.
    """

    table: RenderedTable
    dropped: list[int]


def terminal_width(stream: IO[str]) -> int | None:
    """Return the width of the terminal or notebook that a stream writes to (characters); None for a file or a pipe."""
    if isinstance(stream, Screen):
        return stream.width
    if type(stream).__module__.startswith("ipykernel."):
        return NOTEBOOK_WIDTH
    return shutil.get_terminal_size().columns if stream.isatty() else None


def fitted(table: RenderedTable, width: int, order: Iterable[int]) -> Fitted:
    """Return the table in lines of ``width`` characters, if possible.

    Columns are left out as long as the others do not fit with their text at its shortest; then text is shortened,
    that of the first column of a small table wrapped.

    Args:
        table: the table.
        width: the width of the terminal.
        order: the indices of the columns that may be left out, in this order.
    """
    widths = _widths(table)
    least = [w if numeric else min(w, SHORTEST) for w, numeric in zip(widths, table.numeric, strict=True)]
    shown = [*range(len(widths))]
    for i in order:
        if _line([least[j] for j in shown]) <= width:
            break
        shown.remove(i)
    if _line([least[j] for j in shown]) > width:  # formulas go on in the next line, after a term
        least = [_longest_term(table, i) if table.numeric[i] else w for i, w in enumerate(least)]
    if _line([least[j] for j in shown]) > width:
        least = [w if numeric else min(w, TIGHTEST) for w, numeric in zip(least, table.numeric, strict=True)]
    new = _narrowed_widths({i: widths[i] for i in shown}, least, width)
    wrap = new[0] if new[0] < widths[0] and _has_sentences(table, new[0]) else None
    wraps = {shown.index(i): new[i] for i in shown if new[i] < widths[i] and table.numeric[i]}
    cut = [i for i in shown if new[i] < widths[i] and (i or wrap is None) and not table.numeric[i]]
    rows = [[_truncated(row[i], new[i]) if i in cut else row[i] for i in shown] for row in table.rows]
    titles, numeric = [table.titles[i] for i in shown], [table.numeric[i] for i in shown]
    dropped = [i for i in range(len(widths)) if i not in shown]
    fits = table._replace(titles=titles, rows=rows, numeric=numeric, width=width, wrap=wrap, wraps=wraps)
    return Fitted(fits, dropped)


def dropped_first(
    columns: Sequence[Column], sets: Iterable[Sequence[str]] = (), labels: int = 1
) -> Sequence[str] | None:
    """Return the keys of the columns that may be left out, in this order; None if columns were chosen one by one.

    Args:
        columns: the columns.
        sets: the default columns of the table, besides those of :mod:`costcore.tables.quantity`.
        labels: how many columns at the beginning say what a row is, and are always shown.
    """
    always = {column.key for column in columns[:labels]}
    is_set = is_default(columns) or matches(columns, sets)
    return [key for key in DROPPED_FIRST if key not in always] if is_set else None


def order_of(names: Sequence[str], dropped_first: Iterable[str]) -> list[int]:
    """Return the indices of the columns that may be left out; the first column names the row and stays.

    Args:
        names: the names of the columns.
        dropped_first: the names of those that may be left out, in this order.
    """
    return [names.index(name) for name in dropped_first if name in names[1:]]


def always_shown(columns: Sequence[Column], rows: Sequence[Sequence[str]], labels: int = 1) -> set[int]:
    """Return the indices of the columns without which a table says nothing.

    These are the labels, columns of text that tell apart rows with equal labels, and the first amount.

    Args:
        columns: the columns.
        rows: the cells.
        labels: how many columns at the beginning say what a row is.
    """
    shown = [*range(min(labels, len(columns)))]
    kinds = ("text", "count") if columns[0].kind == "count" else ("text",)
    texts = [i for i, column in enumerate(columns) if i not in shown and column.kind in kinds]

    def n_distinct(indices: Sequence[int]) -> int:
        return len({tuple(row[i] for i in indices) for row in rows})

    apart = n_distinct([*shown, *texts])
    for i in texts:
        if n_distinct(shown) == apart:
            break
        if n_distinct([*shown, i]) > n_distinct(shown):
            shown.append(i)
    amounts = [i for i, column in enumerate(columns) if column.kind in AMOUNTS]
    return {*shown, *amounts[:1]}


def remark_on(dropped: Iterable[str], width: int) -> list[str]:
    """Return the line that names the columns that were left out of lines of some width; empty if there are none."""
    names = ", ".join(dropped)
    return [f"columns left out to fit {width} characters: {names}"] if names else []


def line_length(table: RenderedTable) -> int:
    """Return the length of a line of ``table`` (characters)."""
    return _line(_widths(table))


def _narrowed_widths(widths: dict[int, int], least: Sequence[int], width: int) -> dict[int, int]:
    new = dict(widths)
    while (excess := _line(new.values()) - width) > 0:
        wide = sorted((i for i in new if new[i] > least[i]), key=lambda i: -new[i])
        if not wide:
            break
        next_width = max((new[i] for i in wide[1:]), default=0)
        new[wide[0]] = max(least[wide[0]], min(new[wide[0]] - 1, next_width), new[wide[0]] - excess)
    return new


def _has_sentences(table: RenderedTable, width: int) -> bool:
    # Sentences wrap; paths do not.
    long = [row[0] for row in table.rows if len(row[0]) > width]
    return len(table.rows) <= MOST_WRAPPED and not table.is_tree and all(" " in cell for cell in long)


def _longest_term(table: RenderedTable, i: int) -> int:
    cells = [row[i] for row in table.rows]
    parts = (part for cell in cells for part in (cell.split(" ") if "*" in cell else [cell]))
    return max(map(len, (*table.titles[i], *parts)))


def _truncated(cell: str, width: int) -> str:
    # Sentences lose their end, paths their beginning.
    if len(cell) <= width:
        return cell
    return f"{cell[: width - 1]}…" if " " in cell else f"…{cell[1 - width :]}"


def _line(widths: Iterable[int]) -> int:
    return sum(width + BETWEEN_CELLS for width in widths) + 1


def _widths(table: RenderedTable) -> list[int]:
    titles = [max(map(len, title)) for title in table.titles]
    return [max(cells) for cells in zip(titles, *([*map(len, row)] for row in table.rows), strict=True)]


# Tables of a run, with any quantity.


class TableBuilder:
    """The columns and rows of a table of a run, with the quantities that are asked for.

    Args:
        ledger: the ledger of the report.
        preset: the columns that the table has by itself, by name.
        columns: names of the columns to show, or quantities.
        sort: the column to sort by; None keeps the order.
        more: quantities that only this table has.

    Raises:
        TypeError, ValueError: if a name or a parameter is unknown.
        CostError, OSError: if a file that a name has as parameter cannot be read.
    """

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
        """Return the entries of the rows, sorted and limited, and that of the total as the last one."""
        total = self._ledger.total
        known = {*(rows[0].entry if rows else self._preset), *(key for key in ("seconds", "seconds%") if key in total)}
        cells = self._cells = Cells(self._names, known, self._ledger)
        entries = arrange(cells.of_rows(rows), self._order, top, self._ledger, label, cells)
        return [*entries, {**total, **cells.total(), label: "total"}]

    def tree(self, tree: dict[str, Any], depth: int | None, top: int | None, mode: str) -> list[Mapping[str, Any]]:
        """Return the rows of the module tree, the whole model first; see :func:`tree_rows`."""
        cells = self._cells = Cells(self._names, {*tree, "module", "depth"}, self._ledger)
        cells.add_to_tree(tree)
        return tree_rows(tree, depth, self._order, top, mode, cells)


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
        ledger: the ledger of the report, which sums the calls of the other rows.
        label: the column that contains the text ``others``.
        cells: the quantities in the rows beside those that the ledger sums.
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
    """An entry of a report, with the summed calls."""

    entry: Mapping[str, Any]
    calls: Sequence[Call]


class Cells:
    """The quantities of a table beside the values in its entries.

    Args:
        names: the names of all columns, and of that by which rows are sorted; or quantities.
        known: the names that the entries have.
        ledger: the ledger of the report.

    Raises:
        ValueError, CostError, OSError: if there is no quantity of a name.
    """

    def __init__(self, names: Iterable[str | Quantity], known: Container[str], ledger: Ledger) -> None:
        added = [name for name in names if isinstance(name, Quantity) or name not in known]
        self.quantities = chosen(added)
        self._shares = {name for name in added if isinstance(name, str) and name.endswith("%")}
        self._ledger = ledger

    @property
    def remarks(self) -> list[str]:
        """Explanations of the values, each line once."""
        of = [(*each.remarks(self._ledger), *each.missing(self._ledger)) for each in self.quantities]
        return [*dict.fromkeys(line for lines in of for line in lines)]

    def of(self, calls: Sequence[Call]) -> dict[str, Any]:
        """Return the values of a group of calls; empty texts for quantities of the whole run."""
        return self._values(lambda each: each.of(self._ledger, calls))

    def total(self, with_texts: bool = False) -> dict[str, Any]:
        """Return the values of the whole run; empty for quantities of single calls, unless asked for."""
        shown = [each for each in self.quantities if with_texts or each.is_number or callable(each.combine)]
        return self._with_shares({each.name: each.total(self._ledger) for each in shown})

    def of_rows(self, rows: Iterable[TableRow]) -> list[TableRow]:
        """Return the rows with their values."""
        return [TableRow({**entry, **self.of(calls)}, calls) for entry, calls in rows] if self.quantities else [*rows]

    def of_groups(self, entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the combined values of several groups."""
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


# Rows of ``show_tree``: one per module, indented or with paths.


MAX_INDENT = 24
"""The maximum number of levels drawn as indentation; at deeper levels the number of the level is printed instead."""


class TreeLines(NamedTuple):
    """The text from which indentation is built.

    Attributes:
        open: below a module that has further siblings.
        closed: below a module that is the last child.
        branch: before a child that has further siblings.
        last: before the last child.
    """

    open: str
    closed: str
    branch: str
    last: str


PLAIN_LINES = TreeLines("│  ", "   ", "├─ ", "└─ ")

MARKDOWN_LINES = TreeLines("│ ", "· ", "├ ", "└ ")
"""Without repeated spaces, which Markdown collapses."""


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
        depth: levels to show below the model; deeper modules are part of the sums of their parents. None for all.
        sort: the column by which the children of each module are sorted; None keeps the order of the model.
        top: the maximum number of children to show per module; a row ``others`` sums the remaining ones.
        mode: name of the renderer: CSV contains paths, every other mode an indented tree.
        cells: the quantities in the nodes beside those that :meth:`Report.tree` has.
    """
    check_depth(depth)
    lines = {"csv": None, "md": MARKDOWN_LINES}.get(mode, PLAIN_LINES)
    rows: list[Mapping[str, Any]] = []
    stack = [(tree, 0, "", "")]
    while stack:
        node, level, before_name, before_children = stack.pop()
        cell = (before_name + _title(node)) if lines else _path(node)
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


def _title(node: Mapping[str, Any]) -> str:
    name = node["name"] or "total"
    return f"{name} (same as {node['same_as']})" if node["same_as"] else name


def _path(node: Mapping[str, Any]) -> str:
    if node["is_own"]:
        return " ".join(filter(None, (node["path"], node["name"])))
    return node["path"] or "total"


def _summed_node(
    parent: Mapping[str, Any], tree: Mapping[str, Any], cells: Cells | None, children: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    # ``n_shared`` counts a parameter twice if two of the children share it.
    sums: dict[str, Any] = {}
    for key in (*ADDITIVE, "n_params", "n_shared", "seconds"):
        amounts = [child[key] for child in children if key in child]
        if amounts:
            sums[key] = None if None in amounts else sum(amounts)
    blank = {"type": "", "same_as": "", "output_shape": "", "children": []}
    more = cells.of_groups(children) if cells else {}
    return {"name": "others", "path": parent["path"], "is_own": True, **blank, **sums, **shares(sums, tree), **more}


# Streams: terminals and color.


DRAWN = ("table", "color")
"""The modes of terminals."""


def in_terminal(
    table: RenderedTable,
    columns: Sequence[Column],
    mode: str,
    width: int | None,
    dropped_first: Sequence[str],
    labels: int = 1,
) -> tuple[RenderedTable, list[str]]:
    """Return a table as a terminal of some width shows it, and the line that names the columns that were left out.

    Args:
        table: the table.
        columns: its columns.
        mode: name of the renderer.
        width: the width of the terminal; None if there is none.
        dropped_first: keys of the columns that may be left out, in this order.
        labels: how many columns at the beginning are always shown.
    """
    if mode not in DRAWN or width is None:
        return table, []
    keys, always = [column.key for column in columns], always_shown(columns, table.rows, labels)
    shown, dropped = fitted(table, width, [i for i in order_of(keys, dropped_first) if i not in always])
    return shown, remark_on((keys[i] for i in dropped), width)


def one_stream(ost: IO[str] | None, dst: IO[str] | None) -> IO[str] | None:
    """Return the stream that was passed under either of its two names.

    Raises:
        TypeError: if both are given.
    """
    if ost is not None and dst is not None:
        raise TypeError("ost and dst are two names of the same argument. Pass only one of them.")
    return ost or dst


def in_color(mode: str, stream: IO[str]) -> str:
    """Return ``table`` for ``color`` unless the stream is a terminal with colors, else the mode.

    ``NO_COLOR`` disables colors (https://no-color.org).
    """
    has_color = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()
    return "table" if mode == "color" and not has_color else mode


# Notebooks: HTML in place of text.


def in_notebook() -> bool:
    """Return whether this is the kernel of a notebook."""
    ask = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return ask is not None and hasattr(ask(), "kernel")


def display_table(table: RenderedTable, remarks: Sequence[str]) -> None:
    """Show a table as HTML below the cell that runs, with a line per remark."""
    from IPython.display import HTML, display

    lines = "".join(f"<p>{escape(remark)}</p>" for remark in remarks)
    display(HTML(f"{table_of(table, is_styled=False)}{lines}"))


# HTML.


_CLASSES = {"text": "", "tree": " class='tree'", "number": " class='n'"}

_INLINE = {
    "text": " style='text-align:left'",
    "tree": " style='text-align:left;white-space:pre'",
    "number": " style='text-align:right'",
}


def table_of(table: RenderedTable, is_styled: bool = True) -> str:
    """Return a table as HTML; for ``is_styled`` see :func:`looks_of`."""
    looks = looks_of(table, is_styled)
    titles = zip(table.titles, looks, strict=True)
    head = "".join(f"<th scope='col'{look}>{_text(' '.join(filter(None, title)))}</th>" for title, look in titles)
    body = "".join(_rows(table.rows, looks))
    return f"<table class='plain'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def looks_of(table: RenderedTable, is_styled: bool) -> list[str]:
    """Return the attribute of the cells of each column that aligns them.

    Args:
        table: the table.
        is_styled: whether the style sheet of costcore's pages applies. Notebooks have their own, which aligns cells
            to the right and collapses spaces, so that a tree needs both stated.
    """
    first = "tree" if table.is_tree or any(row[0].startswith(" ") for row in table.rows) else "text"
    kinds = ["number" if n else "text" if i else first for i, n in enumerate(table.numeric)]
    return [(_CLASSES if is_styled else _INLINE)[kind] for kind in kinds]


def _rows(rows: Sequence[Sequence[str]], looks: Sequence[str]) -> Iterator[str]:
    # A row with an empty first cell continues the row above, without a line between them.
    for row in rows:
        cells = "".join(f"<td{look}>{_text(cell)}</td>" for cell, look in zip(row, looks, strict=True))
        yield f"<tr>{cells}</tr>" if row[0] else f"<tr class='continued'>{cells}</tr>"


def _text(value: str) -> str:
    return escape(printable(value))


# Color, which needs rich: ``pip install rich``.


BAR_WIDTH = 20
"""Width of a bar of 100 % (characters)."""

CONSOLE_WIDTH = 100_000
"""Wider than any table, so that rich never wraps lines (characters)."""


def has_room_for_bars(table: RenderedTable) -> bool:
    """Return whether the terminal is wide enough for the column of bars."""
    return table.width is None or line_length(table) + BETWEEN_CELLS + BAR_WIDTH <= table.width


def draw(table: RenderedTable) -> str:
    """Return the table with its titles and total in bold, and a bar for each row's share of the total."""
    from rich.bar import Bar
    from rich.box import ROUNDED
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    drawing = RichTable(box=ROUNDED, header_style="bold cyan")
    for title, numeric in zip(table.titles, table.numeric, strict=True):
        drawing.add_column(Text("\n".join(filter(None, title))), justify="right" if numeric else "left", no_wrap=True)
    shares = table.shares if has_room_for_bars(table) else ()
    if shares:
        drawing.add_column(Text(f"{table.unit}\nshare"), width=BAR_WIDTH)
    total = None if table.total is None else table.total % max(len(table.rows), 1)
    for i, row in enumerate(table.rows):
        share = shares[i] if shares else None
        bar = [Text("") if share is None else Bar(100, 0, share, width=BAR_WIDTH, color="green")]
        style = "bold" if i == total else None
        last_before_total = total == len(table.rows) - 1 == i + 1
        drawing.add_row(*map(Text, row), *(bar if shares else []), style=style, end_section=last_before_total)
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, color_system="standard", width=CONSOLE_WIDTH, legacy_windows=False)
    console.print(drawing)
    return "".join(line.rstrip(" ") + "\n" for line in out.getvalue().splitlines())
