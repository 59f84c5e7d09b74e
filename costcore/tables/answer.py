"""The unformatted content of a result: exact figures, and tables that can be sorted, limited, and written.

The second half of this module writes the overview of a result (figures, tables and remarks) for ``print``, for
notebooks, and as Markdown.
"""

from __future__ import annotations

import copy
import io
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from os import PathLike
from typing import IO, Any, NamedTuple, TypeAlias, TypeVar

from costcore.errors import CostError, import_problem
from costcore.ledger.ledger import footer
from costcore.ledger.modules import walk
from costcore.numbers import as_text, is_symbolic
from costcore.tables.columns import COMPARED, cell_text, choose, folded_tree, in_order, limited, tree_rows
from costcore.tables.quantity import NUMERIC
from costcore.tables.renderers import (
    DROPPED_FIRST,
    always_shown,
    escape_formula,
    fitted,
    html_text,
    looks_of,
    order_of,
    remark_on,
    rendered,
    terminal_width,
)
from costcore.tables.renderers import to_csv as text_to_csv
from costcore.tables.renderers import to_markdown as table_to_markdown
from costcore.text.amounts import Formatted, duration, exact, jsonable, readable, short
from costcore.text.output import (
    Column,
    RenderedTable,
    Screen,
    encodable,
    escaped,
    printable,
    save_bytes,
    wrapped,
    writable,
)
from costcore.trace.run import FLOPS


class Figure(NamedTuple):
    """A single number or text of a result.

    Attributes:
        name: its name in ``to_dict``.
        title: its title in tables and text.
        value: the exact value, or a :class:`costcore.text.amounts.Formatted` value with its text.
        kind: the kind of the value; see :class:`costcore.text.output.Column`.
        note: an explanation of the value; may be empty.
        certainty: ``exact``, ``bound``, ``calibrated`` or ``measured``.
    """

    name: str
    title: str
    value: Any
    kind: str = "text"
    note: str = ""
    certainty: str = "exact"


class Content(NamedTuple):
    """The content of a result, without a format.

    Attributes:
        title: the heading, with the counted model and the status.
        figures: the totals, with distinct names.
        tables: the tables. ``print`` and notebooks show their rows; data formats have all rows, of
            :attr:`ReportTable.whole`.
        remarks: uncounted parts and assumptions.
        tree: the module tree of :meth:`costcore.Report.tree`, which notebooks can fold; None if there is none.
        unit: the unit of the figures in the tree.
        n_digits: digits of figures after the decimal point.
        model: the name of the model, for the heading of its page; empty if unknown.
    """

    title: str
    figures: Sequence[Figure] = ()
    tables: Sequence[ReportTable] = ()
    remarks: Sequence[str] = ()
    tree: Mapping[str, Any] | None = None
    unit: str = FLOPS
    n_digits: int = 3
    model: str = ""


# Results as data: plain JSON types, CSV and data frames.


FIGURE_COLUMNS = [Column(key, key.capitalize()) for key in ("name", "title", "value", "kind", "note", "certainty")]
"""The columns of the table of figures."""


def to_dict(answer: Content) -> dict[str, Any]:
    """Return a content in plain JSON types; the schema is ``costcore/tables/result.schema.json``."""
    return {
        "title": answer.title,
        "figures": {each.name: _without_name(each._asdict()) for each in answer.figures},
        "tables": [_json_table(each.whole) for each in answer.tables],
        "remarks": list(answer.remarks),
    }


def table_of(answer: Content, index: int) -> ReportTable:
    """Return a table with all its rows; a table of the figures if there are no tables.

    Raises:
        ValueError: if there is no table with this index.
    """
    if not answer.tables and index == 0:
        return ReportTable(answer.title, FIGURE_COLUMNS, [each._asdict() for each in answer.figures])
    if not 0 <= index < len(answer.tables):
        titles = "; ".join(f"{i} is {each.title!r}" for i, each in enumerate(answer.tables))
        raise ValueError(f"there is no table {index!r} ({titles or 'there are figures only'})")
    return answer.tables[index].whole


def to_csv(table: ReportTable) -> str:
    """Return the rows as CSV with exact values; the first line has the keys of the columns."""
    text = table.part([_csv_cells(row, table.columns) for row in table.rows])
    text.columns = [column._replace(title=column.key, kind="text") for column in table.columns]
    text.total = None
    numeric = [column.kind in NUMERIC for column in table.columns]
    return text_to_csv(text.text(None)._replace(numeric=numeric))


def to_pandas(table: ReportTable) -> Any:
    """Return the rows as a ``pandas.DataFrame`` with exact values.

    Raises:
        CostError: if pandas is not installed.
    """
    return data_frame({column.key: [_value(row, column) for row in table.rows] for column in table.columns})


MOST_IN_NAME = 31
"""The maximum length of the name of a sheet in Excel."""


def to_excel(answer: Content, target: str | PathLike[str]) -> None:
    """Write an ``.xlsx`` file: a sheet for the figures, and a sheet for each table with all its rows.

    Text that a spreadsheet would evaluate gets a leading apostrophe.

    Raises:
        CostError: if pandas or openpyxl is not installed.
        OSError: if the path cannot be written.
    """
    writer_of = imported_pandas("to_excel").ExcelWriter
    try:
        import openpyxl  # noqa: F401
    except ImportError as error:
        raise CostError(import_problem("to_excel", "openpyxl", error)) from error
    figures = answer._replace(tables=())
    sheets = [*([table_of(figures, 0)] if answer.figures else []), *(each.whole for each in answer.tables)]
    content, names = io.BytesIO(), set[str]()
    with writer_of(content, engine="openpyxl") as writer:
        for i, table in enumerate(sheets or [table_of(figures, 0)]):
            name = _sheet_name("Figures" if answer.figures and not i else table.title, names)
            cells = {column.key: [_excel_cell(row, column) for row in table._lines] for column in table.columns}
            data_frame(cells).to_excel(writer, sheet_name=name, index=False)
    save_bytes(content.getvalue(), target)


def _sheet_name(title: str, names: set[str]) -> str:
    bare = re.sub(r"[\[\]:*?/\\\x00-\x1f']", " ", title).strip()[:MOST_IN_NAME] or "Table"
    numbered = (bare, *(f"{bare[:26]} {n}" for n in range(2, 10_000)))
    found = next(name for name in numbered if name.lower() not in names)
    names.add(found.lower())
    return found


def _excel_cell(row: Row, column: Column) -> Any:
    # Numbers stay numbers; text must not be evaluated.
    value = jsonable(_value(row, column))
    if value is None or isinstance(value, (int, float)):
        return value
    return escape_formula(printable(cell_text(row[column.key], column.kind, 10, False)))


def data_frame(columns: Mapping[str, Sequence[Any]]) -> Any:
    """Return a ``pandas.DataFrame`` of columns; integers stay exact even if values are missing.

    Raises:
        CostError: if pandas is not installed.
    """
    frame = imported_pandas("to_pandas").DataFrame(columns, dtype=object)
    for name, values in columns.items():
        if not any(isinstance(value, int) and value.bit_length() > 63 for value in values):  # pandas 2 would raise
            frame[name] = frame[name].convert_dtypes()
    return frame


def imported_pandas(caller: str) -> Any:
    """Import ``pandas``.

    Raises:
        CostError: if it is not installed; the message names the caller.
    """
    try:
        import pandas
    except ImportError as error:
        raise CostError(import_problem(caller, "pandas", error)) from error
    return pandas


def _json_table(table: ReportTable) -> dict[str, Any]:
    return {
        "title": table.title,
        "columns": [_json_column(column) for column in table.columns],
        "rows": [_json_row(row, table.columns) for row in table.rows],
        "total": None if table.total is None else _json_row(table.total, table.columns),
        "unit": table.unit,
    }


def _json_column(column: Column) -> dict[str, str]:
    return {key: value for key, value in column._asdict().items() if key != "unit" or value}


def _json_row(row: Row, columns: Sequence[Column]) -> dict[str, Any]:
    return {column.key: jsonable(_value(row, column)) for column in columns}


def _csv_cells(row: Row, columns: Sequence[Column]) -> dict[str, Any]:
    # Values that are unknown or do not apply are empty cells.
    values = {column.key: _value(row, column) for column in columns}
    texts = {key: repr(value) for key, value in values.items() if isinstance(value, float)}
    return {key: "" if value is None else value for key, value in {**values, **texts}.items()}


def _value(row: Row, column: Column) -> Any:
    # None if the value is unknown or does not apply.
    value = row.get(column.key)
    value = value.value if isinstance(value, Formatted) else value
    return None if value == "" and column.kind in NUMERIC else value


def _without_name(figure: dict[str, Any]) -> dict[str, Any]:
    return {key: jsonable(value) for key, value in figure.items() if key != "name"}


# Tables of exact values.


Row: TypeAlias = "Mapping[str, Any]"
"""Exact values by the key of their column."""

AnyTable = TypeVar("AnyTable", bound="ReportTable")

MOST_ROWS = 40
"""The maximum number of rows of a table in ``print`` and notebooks; ``show`` and data formats have all rows."""

FRAME = 7
"""The lines of a table in addition to its rows: borders, two lines of titles, two lines about omitted rows."""

FEWEST = 3
"""The minimum number of rows of a table, even if fewer lines are left on the screen."""

SUMMED = ("flops", "bytes", "count", "seconds", "duration", "percent")
"""The kinds of columns to sum in a row ``others``."""


WHOLE = ("count", "flops", "bytes")
"""The kinds of whole numbers."""


def groups_in(mode: str) -> Collection[str]:
    """Return the kinds of numbers with thousands separators in a mode.

    CSV and LaTeX have none. Markdown only separates counts, so that FLOPs and bytes can be copied as exact numbers.
    """
    return () if mode in ("csv", "latex") else ("count",) if mode == "md" else WHOLE


class ReportTable:
    """A table of exact values that can be sorted, limited and written in all formats.

    Attributes:
        title: the title.
        columns: the columns.
        rows: exact values by column key. A missing or empty value does not apply; None is unknown.
        total: the last row, with the total; None if there is none.
        remarks: lines below the table.
        unit: the unit of the FLOPs columns, ``FLOPs`` or the unit of a convention.
        is_tree: whether rows are nested by indentation.
        is_open: whether the table is initially unfolded, in formats that can fold it.
        prefix: the prefix of amounts in ``print``: ``auto``, ``autoaligned``, or one for all; None for exact numbers.
        n_digits: the digits of ``print`` after the decimal point.
        others: returns the row that replaces several rows; default: their sums.
        most: the maximum number of rows in ``print`` and notebooks: the first rows, or the last rows if it is negative;
            None for :data:`MOST_ROWS`.
        whole: the complete table, if this one has only some of its rows.
        dropped_first: keys of columns that a narrow terminal may drop, in this order. None: no column is dropped.
        labels: the number of leading columns that name a row; they are always shown.
        keeps_zeros: whether pages show columns of zeros, too.
    """

    keeps_zeros: bool = False

    title: str
    columns: list[Column]
    rows: list[Mapping[str, Any]]
    total: Mapping[str, Any] | None
    remarks: list[str]
    unit: str
    is_tree: bool
    is_open: bool
    prefix: str | None
    n_digits: int
    others: Callable[[Sequence[Mapping[str, Any]]], Mapping[str, Any]]
    most: int | None
    dropped_first: Sequence[str] | None
    labels: int

    def __init__(
        self,
        title: str,
        columns: Sequence[Column],
        rows: Sequence[Row],
        *,
        total: Row | None = None,
        remarks: Sequence[str] = (),
        unit: str = FLOPS,
        is_tree: bool = False,
        is_open: bool = True,
        prefix: str | None = "auto",
        n_digits: int = 1,
        others: Callable[[Sequence[Row]], Row] | None = None,
        most: int | None = None,
        dropped_first: Sequence[str] | None = DROPPED_FIRST,
        labels: int = 1,
    ) -> None:
        self.title, self.columns, self.rows, self.total = title, list(columns), list(rows), total
        self.remarks, self.unit, self.is_tree, self.is_open = list(remarks), unit, is_tree, is_open
        self.prefix, self.n_digits, self.others = prefix, n_digits, others or self._row_of_sums
        self.most, self.whole, self.dropped_first, self.labels = most, self, dropped_first, labels

    def __repr__(self) -> str:
        keys = ", ".join(column.key for column in self.columns)
        return f"<{type(self).__name__} {self.title!r}: {len(self)} rows, {keys[:99]}>"

    def __len__(self) -> int:
        return len(self.rows)

    def sorted(self: AnyTable, column: str | Column) -> AnyTable:
        """Return the table in the order of a column: numbers from the largest, text alphabetically.

        Raises:
            ValueError: if there is no such column.
        """
        if isinstance(column, str):
            column = choose({each.key: each for each in self.columns}, [column])[0]
        return self._with(in_order(self.rows, column, lambda row: row))

    def with_columns(self: AnyTable, names: Sequence[str]) -> AnyTable:
        """Return the table with these columns, in this order; unchanged if it has none of them."""
        by_name = {column.key: column for column in self.columns}
        shown = self._with(self.rows)
        chosen = [by_name[name] for name in names if name in by_name]
        if chosen:
            shown.columns, shown.dropped_first = chosen, None
        return shown

    def top(self: AnyTable, n: int | None, title: str = "") -> AnyTable:
        """Return the first rows, and a row ``others`` for the remaining ones.

        Args:
            n: the number of rows; None for all.
            title: the title if rows are omitted; default: the title of this table.

        Raises:
            TypeError, ValueError: if ``n`` is not a positive integer.
        """
        shown = limited(self.rows, n, self.others)
        return self if shown is self.rows else self.part(shown, title)

    def in_print(self: AnyTable) -> AnyTable:
        """Return the rows for ``print`` and notebooks; the title has their number."""
        most = MOST_ROWS if self.most is None else self.most
        if len(self) <= abs(most):
            return self
        which, rows = ("first", self.rows[:most]) if most > 0 else ("last", self.rows[most:])
        return self.part(rows, f"{self.title} (the {which} {abs(most)} of {len(self):,} rows)".strip())

    def part(self: AnyTable, rows: Sequence[Row], title: str = "") -> AnyTable:
        """Return a table with some of the rows; data formats still write all rows.

        A table without rows loses its total and is not shown.
        """
        shown = self._with(rows)
        shown.total = self.total if rows else None
        shown.title, shown.whole = title or self.title, self.whole
        return shown

    def text(
        self,
        unit: str | None = "auto",
        n_digits: int | None = None,
        *,
        fixed: bool = True,
        grouped: Collection[str] = WHOLE,
    ) -> RenderedTable:
        """Return the cells as text, for a renderer.

        Args:
            unit: the prefix of FLOPs and bytes.
            n_digits: digits after the decimal point; default: :attr:`n_digits`.
            fixed: whether trailing zeros are kept.
            grouped: the kinds of numbers with thousands separators.
        """
        from costcore.tables.columns import tabulate

        digits = self.n_digits if n_digits is None else n_digits
        total = 0 if self.is_tree else None if self.total is None else -1
        table = tabulate(self.columns, self._lines, unit, digits, fixed, total, grouped)
        return table._replace(is_tree=self.is_tree, unit=self.unit)

    def shown(self, unit: str | None = "auto", n_digits: int | None = None) -> RenderedTable:
        """Return the cells as text for ``print``, with the prefix of this table for ``auto``."""
        return self.text(self.prefix if unit == "auto" else unit, n_digits)

    def write(
        self,
        ost: IO[str] | None,
        mode: str | None,
        unit: str | None,
        n_digits: int | None,
        elsewhere: str = "table",
        has_lines: bool = False,
    ) -> None:
        """Write the table and its remarks as text; in a terminal, columns that do not fit its width are left out.

        Args:
            ost: the stream to write to; None for the standard output.
            mode: the name of the renderer. None: a table in a terminal, HTML in a notebook, and ``elsewhere`` in other
                streams.
            unit: the prefix of FLOPs and bytes, ``auto`` or ``autoaligned``.
            n_digits: digits after the decimal point; None for 10.
            elsewhere: the renderer of other streams, if ``mode`` is None.
            has_lines: whether boxes have lines between rows.

        Raises:
            TypeError, ValueError: if an argument is invalid.
        """
        from costcore.ledger.ledger import footer
        from costcore.tables.renderers import DRAWN, display_table, in_color, in_notebook, in_terminal, rendered
        from costcore.text.amounts import check_digits

        stream, left_out, asked = writable(ost or sys.stdout), list[str](), mode
        if isinstance(stream, Screen) and asked in DRAWN:
            self._write_on(stream, in_color(asked, stream), unit, check_digits(n_digits))
            return
        is_notebook = asked is None and ost is None and in_notebook()
        mode = in_color(asked or ("table" if stream.isatty() or is_notebook else elsewhere), stream)
        table = self.text(unit, check_digits(n_digits), fixed=mode in (*DRAWN, "latex"), grouped=groups_in(mode))
        table = table._replace(has_lines=has_lines)
        if is_notebook:
            display_table(table, self.remarks)
            return
        if self.dropped_first is not None:
            width = terminal_width(stream)
            table, left_out = in_terminal(table, self.columns, mode, width, self.dropped_first, self.labels)
        if mode == "md":  # encoding may turn branches of a tree into ``|``, which must be escaped
            table = table._replace(rows=[[encodable(cell, stream) for cell in row] for row in table.rows])
        stream.write(encodable(rendered(table, mode) + footer([*left_out, *self.remarks], mode), stream))

    def in_lines(self: AnyTable, n: int) -> AnyTable:
        """Return the first rows that fit in ``n`` lines, including the frame.

        For a tree, return the upper levels that fit, or the first rows if no level fits. The title describes the
        selection.
        """
        most = max(n - FRAME - (self.total is not None), FEWEST)
        if len(self) <= most:
            return self
        depths = [int(row["depth"]) for row in self.rows] if self.is_tree else []
        for depth in range(max(depths, default=0) - 1, 0, -1):
            if sum(each <= depth for each in depths) <= most:
                rows = [row for row, each in zip(self.rows, depths, strict=True) if each <= depth]
                return self.part(rows, f"(levels 1 to {depth} of {max(depths)} below the model)")
        title = self.title.partition(" (the first ")[0]
        return self.part(self.rows[:most], f"{title} (the first {most} of {len(self.whole):,} rows)".strip())

    def fitted(self, text: RenderedTable, width: int) -> tuple[RenderedTable, list[str]]:
        """Return the text of this table in lines of ``width`` characters, and a line that names the omitted columns.

        Columns that the user chose are never dropped.
        """
        if self.dropped_first is None:
            return text, []
        keys = [column.key for column in self.columns]
        first = order_of(keys, dict.fromkeys((*self.dropped_first, *DROPPED_FIRST)))
        last = [i for i in range(len(keys) - 1, 0, -1) if i not in first]
        always = always_shown(self.columns, text, self.labels)
        shown, dropped = fitted(text, width, [i for i in (*first, *last) if i not in always])
        return shown, remark_on((keys[i] for i in dropped), width)

    def _write_on(self, screen: Screen, mode: str, unit: str | None, n_digits: int | None) -> None:
        from costcore.ledger.ledger import footer
        from costcore.tables.renderers import rendered

        remarks = [part for line in self.remarks for part in wrapped(line, screen.width)]
        table = self.in_lines(screen.room - 1 - len(remarks))
        text, left_out = table.fitted(table.text(unit, n_digits), screen.width)
        screen.is_cut |= table is not self
        title = [table.title] if table is not self else []
        screen.write(rendered(text, mode) + footer([*title, *left_out, *self.remarks], mode))

    @property
    def _lines(self) -> list[Row]:
        return [*self.rows, *([] if self.total is None else [self.total])]

    def _with(self: AnyTable, rows: Sequence[Row]) -> AnyTable:
        new = copy.copy(self)
        new.rows = list(rows)
        new.whole = new
        return new

    def _row_of_sums(self, rows: Sequence[Row]) -> Row:
        """Return a row with the sums of columns in which every row has a number, labeled ``others``."""
        label = next((column.key for column in self.columns if column.kind not in NUMERIC), "")
        sums: dict[str, Any] = {label: "others"}
        for column in self.columns:
            values = [row.get(column.key) for row in rows]
            if column.kind in SUMMED and all(isinstance(v, (int, float)) or is_symbolic(v) for v in values):
                sums[column.key] = sum(values)
        return sums


# The overview of a result: figures, tables and remarks, as text for ``print``, HTML for notebooks, and Markdown.

# Plain text, for ``print``.


def to_text(
    answer: Content,
    mode: str = "table",
    unit: str | None = "auto",
    n_digits: int | None = None,
    is_whole: bool = True,
) -> str:
    """Return the title, one line per figure, the open tables, and the remarks.

    Args:
        answer: the content.
        mode: the name of the renderer of the tables.
        unit: the prefix of amounts; ``auto`` for the prefix of each table.
        n_digits: digits after the decimal point; None for the default of the content and of each table.
        is_whole: whether long tables have all their rows.
    """
    shown = answer.tables if is_whole else [each.in_print() for each in answer.tables]
    tables = [
        f"{printable(each.title)}:\n{rendered(each.shown(unit, n_digits), mode)}".rstrip("\n")
        for each in shown
        if each.is_open and each.rows
    ]
    figures = figures_text(answer, unit, n_digits)
    blocks = [printable(answer.title), figures, *tables, "\n".join(map(printable, answer.remarks))]
    return "\n".join(filter(None, blocks))


def table_to_text(table: RenderedTable, mode: str, remarks: Sequence[str]) -> str:
    """Return a table, and the remarks below it."""
    return (rendered(table, mode) + footer(remarks, mode)).rstrip("\n")


def figures_text(answer: Content, unit: str | None = "auto", n_digits: int | None = None) -> str:
    """Return one line per figure: title, value and note; arguments as for :func:`to_text`."""
    figures = figures_of(answer, unit, n_digits)
    titles = max((len(title) for title, _, _ in figures), default=0)
    values = max((len(value) for _, value, note in figures if note), default=0)
    return "\n".join(
        f"  {title:<{titles}}  {printable(value):>{values}}{printable(f'  {note}' if note else '')}"
        for title, value, note in figures
    )


# HTML without scripts, which notebooks strip: foldable elements, and checkboxes for the columns of a tree.


MOST_MODULES = 300
"""The maximum number of modules in the tree; deeper levels are part of the sums above them."""

MOST_CHILDREN = 40
"""The maximum number of children of one module; a row sums the others."""

FIRST_ROWS = 25
"""The maximum number of rows that are initially unfolded."""

DEEPEST = 24
"""The maximum number of levels; browsers and notebooks handle this nesting well."""


def to_html(answer: Content) -> str:
    """Return one element with the title, the figures, the tables, the remarks and the tree of modules.

    Names appear as text, never as markup. There is no script and no link. Colors come from the surrounding page, so it
    is readable in light and dark themes.
    """
    figures = "".join(_figure(*each) for each in figures_of(answer))
    blocks = [
        f"<p><strong>{html_text(answer.title)}</strong></p>",
        f"<table><tbody>{figures}</tbody></table>" if figures else "",
        *(_part(each.in_print()) for each in answer.tables),
        _remarks(answer.remarks),
        _tree(answer.tree, answer.unit) if answer.tree is not None and answer.tree["children"] else "",
    ]
    return f"<div>{''.join(blocks)}</div>"


def _figure(title: str, value: str, note: str) -> str:
    cells = f"<td style='text-align:right'>{html_text(value)}</td><td>{html_text(note)}</td>"
    return f"<tr><th scope='row' style='text-align:left'>{html_text(title)}</th>{cells}</tr>"


def _part(table: ReportTable) -> str:
    if not table.rows:
        return ""
    summary = f"<summary>{html_text(table.title)}</summary>"
    return f"<details{' open' * table.is_open}>{summary}{_html_table(table.shown())}</details>"


def _html_table(table: RenderedTable) -> str:
    looks = looks_of(table, is_styled=False)
    titles = [" ".join(filter(None, title)) for title in table.titles]
    body = "".join(f"<tr>{_cells('td', row, looks)}</tr>" for row in table.rows)
    return f"<table><thead><tr>{_cells('th', titles, looks)}</tr></thead><tbody>{body}</tbody></table>"


def _cells(tag: str, cells: Sequence[str], looks: Sequence[str]) -> str:
    return "".join(f"<{tag}{look}>{html_text(cell)}</{tag}>" for cell, look in zip(cells, looks, strict=True))


def _remarks(lines: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{html_text(line)}</li>' for line in lines)}</ul>" if lines else ""


COLUMNS: tuple[tuple[str, str, str, bool], ...] = (
    ("flops", "", "flops", True),
    ("flops%", "Share", "percent", True),
    ("n_params", "Parameters", "flops", True),
    ("macs", "MACs", "flops", False),
    ("mread", "Read", "bytes", False),
    ("mwrite", "Written", "bytes", False),
    ("output_shape", "Output shape", "shape", False),
)
"""The columns of the tree: key, title (empty for the unit), kind, and whether it is initially shown."""

STYLE = """
.costcore-tree { max-width: 68em; font-variant-numeric: tabular-nums; }
.costcore-tree label { margin-right: 1em; }
.costcore-tree details, .costcore-tree .leaf { margin-left: 1.2em; }
.costcore-tree summary { list-style-position: outside; cursor: pointer; }
.costcore-row { display: flex; gap: 0.8em; border-bottom: 1px solid #8883; }
.costcore-row > span { white-space: nowrap; }
.costcore-row > :first-child { flex: 1; min-width: 8em; overflow: hidden; text-overflow: ellipsis; }
.costcore-row > :not(:first-child) { flex: none; width: 6.4em; text-align: right; }
.costcore-row > .v6 { width: 11em; }
"""
"""The style sheet of the tree. Without it, the texts of a row are still on one line."""


def _tree(tree: Mapping[str, Any], unit: str) -> str:
    tree = folded_tree(tree, COMPARED)
    depth, n = _shown_depth(tree)
    rows = tree_rows(dict(tree), depth, None, MOST_CHILDREN, "csv")
    hidden = f" (modules below level {depth} are part of their sums)" if n > len(rows) else ""
    titles = [title or unit for _, title, _, _ in COLUMNS]
    choices = "".join(
        f"<label><input type='checkbox' class='c{i}'{' checked' * is_shown} /> {html_text(title)}</label>"
        for i, (title, (*_, is_shown)) in enumerate(zip(titles, COLUMNS, strict=True))
    )
    hiding = "".join(
        f".costcore-tree:has(.c{i}:not(:checked)) .v{i} {{ display: none; }}\n" for i in range(len(COLUMNS))
    )
    head = f"<div class='leaf'><strong>{_row('Module', titles)}</strong></div>"
    return (
        f"<div class='costcore-tree'><style>{STYLE}{hiding}</style><p>Modules{hidden}. Columns: {choices}</p>"
        f"{head}{''.join(_nested(rows, _open_depth(rows)))}</div>"
    )


def _shown_depth(tree: Mapping[str, Any]) -> tuple[int, int]:
    # The number of levels with at most MOST_MODULES modules in total.
    counts: dict[int, int] = {}
    for level, _ in walk(dict(tree)):
        counts[level] = counts.get(level, 0) + 1
    shown, depth = 1, 0
    while depth + 1 in counts and depth < DEEPEST and shown + counts[depth + 1] <= MOST_MODULES:
        depth += 1
        shown += counts[depth]
    return max(depth, 1), sum(counts.values())


def _open_depth(rows: Sequence[Mapping[str, Any]]) -> int:
    # Modules above this level are initially unfolded.
    depth, deepest = 1, max(row["depth"] for row in rows)
    while depth < deepest and sum(row["depth"] <= depth + 1 for row in rows) <= FIRST_ROWS:
        depth += 1
    return depth


def _nested(rows: Sequence[Mapping[str, Any]], open_depth: int) -> Iterator[str]:
    # Parents come before children, so a stack of open elements suffices.
    total = rows[0]["flops"]
    is_open: list[int] = []
    for row, after in zip(rows, [*rows[1:], None], strict=True):
        while is_open and is_open[-1] >= row["depth"]:
            is_open.pop()
            yield "</details>"
        if after is not None and after["depth"] > row["depth"]:
            is_open.append(row["depth"])
            yield f"<details{' open' * (row['depth'] < open_depth)}><summary>{_line(row, total)}</summary>"
        else:
            yield f"<div class='leaf'>{_line(row, total)}</div>"
    yield "</details>" * len(is_open)


def _line(row: Mapping[str, Any], total: Any) -> str:
    name = f"<strong>{html_text(row['name'] or row['type'] or 'total')}</strong>"
    kind = f" {html_text(row['type'])}" if row["type"] and row["name"] else ""
    same = f" (same as {html_text(row['same_as'])})" if row["same_as"] else ""
    unknown = f", {row['n_unknown']} not counted" if row.get("n_unknown") else ""
    return _row(f"{name}{kind}{same}{unknown}", [_cell(row, key, shown, total) for key, _, shown, _ in COLUMNS])


def _row(name: str, cells: Sequence[str]) -> str:
    spans = "".join(f" <span class='v{i}'>{html_text(cell)}</span>" for i, cell in enumerate(cells))
    return f"<span class='costcore-row'><span>{name}</span>{spans}</span>"


def _cell(row: Mapping[str, Any], key: str, kind: str, total: Any) -> str:
    value = row.get(key)
    if kind == "percent":
        return _share(float(value)) if isinstance(value, (int, float)) and total else ""
    if value is None or value == "":
        return ""
    return " × ".join(map(as_text, value)) if kind == "shape" else short(value, kind, fixed=True)


def _share(percent: float) -> str:
    return "<0.1%" if 0 < percent < 0.05 else f"{percent:.1f}%"


# Markdown, for notebooks and editors that do not render HTML.


def to_markdown(answer: Content, is_whole: bool = True) -> str:
    """Return the title, a list of the figures, the open tables, and a list of the remarks.

    With ``is_whole``, long tables have all their rows.
    """
    figures = [f"{title}: **{escaped(value)}**{_note(note)}" for title, value, note in figures_of(answer)]
    blocks = [f"**{escaped(answer.title)}**", _list(figures)]
    for table in answer.tables if is_whole else [each.in_print() for each in answer.tables]:
        if table.is_open and table.rows:
            blocks += [f"{escaped(table.title)}:", table_to_markdown(table.shown())]
    blocks.append(_list([escaped(line) for line in answer.remarks]))
    return "\n\n".join(block.rstrip("\n") for block in blocks if block) + "\n"


def _note(note: str) -> str:
    return f" ({escaped(note)})" if note else ""


def _list(lines: list[str]) -> str:
    return "".join(f"- {line}\n" for line in lines)


# Texts of figures.


class FigureText(NamedTuple):
    """Title, value with its unit, and note of a figure, which can be empty."""

    title: str
    value: str
    note: str


def figures_of(answer: Content, unit: str | None = "auto", n_digits: int | None = None) -> list[FigureText]:
    """Return the texts of the figures; arguments as for :meth:`Result.show`."""
    digits = None if unit is None else answer.n_digits if n_digits is None else n_digits
    return [FigureText(each.title, *_value_and_note(each, digits)) for each in answer.figures]


def _value_and_note(figure: Figure, digits: int | None) -> tuple[str, str]:
    value, kind, note = figure.value, figure.kind, figure.note
    if isinstance(value, Formatted):
        return value.text, note
    if kind == "duration":
        return duration(value, 3 if digits is None else digits), note
    if kind == "percent":
        return f"{value:.{3 if digits is None else digits}f}%", note
    if kind not in ("flops", "bytes", "count"):
        return as_text(value), note
    full = exact(value) + " B" * (kind == "bytes" and not figure.title.startswith("Bytes"))
    if digits is None or kind == "count" or is_symbolic(value):
        return full, note
    shown = readable(value, kind, digits)
    # If the shown value is rounded, the note has the exact one.
    own = [] if shown.removesuffix(" B") == full.removesuffix(" B") else [full]
    return shown, "; ".join([*own, *filter(None, [note])])
