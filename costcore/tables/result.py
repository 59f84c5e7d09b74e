"""The base class of results: it prints them, shows them in notebooks, and writes them in every format."""

from __future__ import annotations

import copy
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol, cast, overload

from costcore.errors import unknown
from costcore.ledger.ledger import footer
from costcore.tables.answer import Content, ReportTable, figures_text, table_of
from costcore.tables.columns import choose
from costcore.tables.quantity import Quantity, registered
from costcore.tables.renderers import one_stream, rendered
from costcore.text.output import Column, Screen, Target, encodable, json_text, printable, save, wrapped, writable

if TYPE_CHECKING:
    from costcore.tables.pictures import Picture, Theme


class Result(ABC):
    """A result with figures and tables that prints, displays in notebooks, and is written in all formats.

    A subclass defines its figures and tables in ``_content``. It may add methods, but no writers.

    ``print`` and notebooks show the first rows of a long table (:data:`costcore.tables.answer.MOST_ROWS`);
    :meth:`show`, files and data have all of them. A table with a row ``others`` is complete only in data.
    """

    @abstractmethod
    def _content(self) -> Content:
        """Return the figures and tables."""

    def __str__(self) -> str:
        return encodable(self._text(is_whole=False))

    def _repr_html_(self) -> str:
        # No script or style sheet, because notebooks strip them.
        from costcore.tables.answer import to_html

        return to_html(self._content())

    def _repr_markdown_(self) -> str:
        from costcore.tables.answer import to_markdown

        return to_markdown(self._content(), is_whole=False)

    def _text(
        self, mode: str = "table", unit: str | None = "auto", n_digits: int | None = None, *, is_whole: bool = True
    ) -> str:
        # Like :meth:`show`; ``print`` only needs some of the rows.
        from costcore.tables.answer import to_text

        return to_text(self._content(), mode, unit, n_digits, is_whole)

    def show(
        self,
        ost: IO[str] | None = None,
        mode: str = "table",
        unit: str | None = "auto",
        n_digits: int | None = None,
    ) -> None:
        """Write the text of ``print``, with all rows of its tables, or another format.

        Args:
            ost: the stream to write to; default: standard output at the time of the call.
            mode: ``table``, ``color`` or a mode of a plug-in, for text; ``md``, ``latex``, ``csv``, ``json``, ``html``.
            unit: the prefix of amounts, ``auto`` or ``autoaligned``, as for :meth:`costcore.Report.show_report`.
            n_digits: digits after the decimal point; default: as in ``print``.

        Raises:
            TypeError, ValueError: if an argument is invalid.
        """
        from costcore.tables.renderers import DRAWN, in_color

        stream = writable(ost or sys.stdout)
        mode = in_color(mode, stream)
        # A subclass that overrides ``_text`` is prose, unless it has a table.
        is_prose = type(self)._text is not Result._text and not any(
            t.rows and t.is_open for t in self._content().tables
        )
        if isinstance(stream, Screen) and mode in DRAWN and not is_prose:
            write_answer(self._content(), stream, mode, unit, n_digits)
            return
        writers: dict[str, Callable[[], str]] = {
            "md": self.to_markdown,
            "csv": self.to_csv,
            "json": self.to_json,
            "html": self.to_html,
            "latex": partial(latex_of, self, unit, n_digits),
        }
        text = writers[mode]() if mode in writers else f"{self._text(mode, unit, n_digits)}\n"
        stream.write(encodable(text, stream))

    def to_dict(self) -> dict[str, Any]:
        """Return title, figures, tables and remarks in plain JSON types; symbolic expressions as text.

        ``costcore/tables/result.schema.json`` describes them. Integers are exact.
        """
        from costcore.tables.answer import to_dict

        return to_dict(self._content())

    def to_json(self, target: Target = None, indent: int | None = None) -> str:
        """Return :meth:`to_dict` as JSON text, and write it to ``target``, a path or a stream, if given.

        Args:
            target: a path, which is replaced atomically, or a stream.
            indent: spaces per level; default: everything on one line.

        Raises:
            OSError: if the path cannot be written.
        """
        return save(json_text(self.to_dict(), indent) + "\n", target)

    def to_csv(self, target: Target = None, table: int = 0) -> str:
        """Return the exact values of one table as CSV, or of the figures if there is no table.

        The first line has the keys of the columns.

        Args:
            target: a path, which is replaced atomically, or a stream, to which the text is also written.
            table: the index of the table.

        Raises:
            ValueError: if there is no such table.
            OSError: if the path cannot be written.
        """
        from costcore.tables.answer import table_of, to_csv

        return save(to_csv(table_of(self._content(), table)), target)

    def to_pandas(self, table: int = 0) -> Any:
        """Return the exact values of one table as a ``pandas.DataFrame``, or of the figures if there is no table.

        Raises:
            ValueError: if there is no such table.
            CostError: if pandas is not installed.
        """
        from costcore.tables.answer import table_of, to_pandas

        return to_pandas(table_of(self._content(), table))

    def to_markdown(self, target: Target = None) -> str:
        """Return figures, tables and remarks as Markdown, and write them to ``target`` if given."""
        from costcore.tables.answer import to_markdown

        return save(to_markdown(self._content()), target)

    def to_latex(self, target: Target = None) -> str:
        r"""Return the tables as LaTeX (booktabs and siunitx), and write them to ``target`` if given.

        Each table is a ``tabular`` after a comment with its title; put it into a ``table`` environment.
        """
        return save(latex_of(self), target)

    def to_excel(self, target: str | PathLike[str]) -> None:
        """Write an ``.xlsx`` file with the exact values: a sheet for the figures, and one for each table.

        Raises:
            CostError: if pandas or openpyxl is not installed.
            OSError: if the path cannot be written.
        """
        from costcore.tables.answer import to_excel

        to_excel(self._content(), target)

    def to_html(self, target: Target = None, title: str = "", made: str = "") -> str:
        """Return one self-contained HTML page without a script, and write it to ``target`` if given.

        Args:
            target: a path, which is replaced atomically, or a stream.
            title: the heading of the page; default: the name of the model if known, else the title of the result.
            made: the command that wrote the page, and the date, to show on the page; default: none, so that equal
                results give equal pages.

        Raises:
            OSError: if the path cannot be written.
        """
        from costcore.tables.html import page

        return save(page(self._content(), title, made=made, pictures=self._pictures()), target)

    def _pictures(self) -> str:
        # The HTML of pictures, between summary and tables of the page.
        return ""

    def plot(self, *, theme: str = "light", target: str | PathLike[str] | None = None) -> Picture:
        """Return the plot of this result with its rows, and write it to ``target`` if given.

        The default plot has a bar for the first amount of each row of the first table.

        Args:
            theme: ``light`` or ``dark``.
            target: an ``.svg``, ``.png`` or ``.pdf`` image, or a ``.csv`` file with the rows.

        Raises:
            CostError: if there is nothing to draw, or if matplotlib is not installed and there is a target.
            ValueError: for another theme or suffix.
            OSError: if the file cannot be written.
        """
        from costcore.tables.pictures import theme_of

        picture = self._picture(theme_of(theme))
        if target is not None:
            picture.save(target)
        return picture

    def _picture(self, theme: Theme) -> Picture:
        from costcore.tables.pictures import MEASURED, amounts_in, bars_of

        answer = self._content()
        for each in answer.tables:
            if amounts_in(each.columns, each.rows):
                return bars_of([each.title, answer.model or answer.title], each.columns, each.rows, theme)
        # Only figures of one kind are drawn together.
        kinds = {kind: [each for each in answer.figures if each.kind == kind] for kind in MEASURED}
        kind, shown = max(kinds.items(), key=lambda item: len(item[1]))
        rows = [{"title": each.title, "value": each.value} for each in shown]
        return bars_of([answer.model, answer.title], [Column("title", ""), Column("value", "", kind)], rows, theme)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the result to a file; the suffix selects the format.

        Text: ``.txt``, ``.md``, ``.csv``, ``.tex``, ``.json``, ``.html``. A workbook: ``.xlsx``. The picture of
        :meth:`plot`: ``.svg``, ``.png``, ``.pdf``.

        Raises:
            ValueError: for another suffix.
            OSError: if the path cannot be written.
        """
        suffixes: dict[str, Callable[[str | PathLike[str]], object]] = {
            ".md": self.to_markdown,
            ".csv": self.to_csv,
            ".json": self.to_json,
            ".html": self.to_html,
            ".tex": lambda target: save(latex_of(self), target),
            ".xlsx": self.to_excel,
            **dict.fromkeys((".svg", ".png", ".pdf"), lambda target: self.plot(target=target)),
            **self._further_formats(),
        }
        suffix = Path(path).suffix.lower()
        if suffix == ".txt":
            save(f"{self._text()}\n", path)
        elif suffix in suffixes:
            suffixes[suffix](path)
        else:
            raise ValueError(unknown("suffix", suffix, (".txt", *suffixes)))

    def _further_formats(self) -> Mapping[str, Callable[[str | PathLike[str]], object]]:
        return {}


def model_of(result: Result) -> str:
    """Return the name of the model of a result; empty if unknown."""
    return result._content().model


def latex_of(result: Result, unit: str | None = "auto", n_digits: int | None = None) -> str:
    """Return the tables of a result as LaTeX, each after a comment with its title; the figures if there are none.

    Args:
        result: the result.
        unit: the prefix of amounts; ``auto`` for one per column, because only numbers with one unit can be aligned.
        n_digits: digits after the decimal point; default: 3.
    """
    answer = result._content()
    tables = [each for each in answer.tables if each.rows] or [table_of(answer, 0)]
    prefix, blocks = "autoaligned" if unit == "auto" else unit, []
    for each in tables:
        text = each.text(prefix, 3 if n_digits is None else n_digits, grouped=())
        blocks.append(f"% {printable(each.title)}\n{rendered(text, 'latex')}")
    return "\n".join(blocks)


class StaticResult(Result):
    """A result with fixed content, in every format; ``pictures`` are HTML for its page."""

    def __init__(self, answer: Content, pictures: str = "") -> None:
        self._fixed_content, self._fixed_pictures = answer, pictures

    def _content(self) -> Content:
        return self._fixed_content

    def _pictures(self) -> str:
        return self._fixed_pictures


def with_rows_and_columns(result: Result, columns: Sequence[str] | None, sort: str | None, top: int | None) -> Result:
    """Return a result whose tables have only some columns, and sorted and limited rows.

    Args:
        result: the result.
        columns: the columns to show; default: all. A table without any of them shows all its columns.
        sort: the column to sort by, numbers from the largest, text alphabetically. A table without it keeps its order.
        top: the maximum number of rows of each table, with a row ``others`` for the remaining ones; None for all.

    Raises:
        TypeError, ValueError: if no table has a column, or if ``top`` is not a positive integer.
    """
    if columns is None and sort is None and top is None:
        return result
    answer = result._content()
    known = {column.key: column for table in answer.tables for column in table.columns}
    chosen = [column.key for column in choose(known, columns)] if columns else []
    order = None if sort is None else choose(known, [sort])[0].key
    tables = []
    for table in answer.tables:
        has_order = any(column.key == order for column in table.columns)
        in_order = table.sorted(order) if has_order and order is not None else table
        tables.append(in_order.top(top).with_columns(chosen))
    return StaticResult(answer._replace(tables=tables))


def _of_report(name: str) -> Any:
    def method(self: Any, *args: Any, **options: Any) -> Any:
        return getattr(self.report, name)(*args, **options)

    method.__name__, method.__doc__ = name, f"As :meth:`costcore.Report.{name}`, of :attr:`report`."
    return method


class OfReport(Result):
    """A result that wraps a report, and has the data formats of the report."""

    to_dict: Any = _of_report("to_dict")
    to_json: Any = _of_report("to_json")
    to_csv: Any = _of_report("to_csv")
    to_pandas: Any = _of_report("to_pandas")
    to_markdown: Any = _of_report("to_markdown")
    to_html: Any = _of_report("to_html")
    plot: Any = _of_report("plot")


# Output on a screen: only the rows and columns that fit.


def write_answer(answer: Content, screen: Screen, mode: str, unit: str | None, n_digits: int | None) -> None:
    """Write the title of a result, one line per figure, its tables, and its remarks.

    Tables share the remaining lines of the screen.

    Args:
        answer: the content of the result.
        screen: the stream with its size.
        mode: ``table`` or ``color``, for a terminal with colors.
        unit: the prefix of amounts, ``auto`` or ``autoaligned``.
        n_digits: digits after the decimal point; None for the default of the content and of each table.
    """
    figures = figures_text(answer, unit, n_digits)
    screen.write("".join(f"{block}\n" for block in (printable(answer.title), figures) if block))
    tables = [each for each in answer.tables if each.is_open and each.rows]
    remarks = [part for line in answer.remarks for part in wrapped(printable(line), screen.width)]
    for i, table in enumerate(tables):
        left = screen.room - 1 - len(remarks)
        shown = table.in_print().in_lines(left // (len(tables) - i) - 1)
        screen.is_cut |= shown is not table
        text, said = shown.fitted(shown.shown(unit, n_digits), screen.width)
        title = f"{printable(shown.title)}:\n" if shown.title else ""
        screen.write(f"{title}{rendered(text, mode)}{footer(said, mode)}")
    screen.write("".join(f"{printable(line)}\n" for line in answer.remarks))


# Tables of exact values.


class Table(ReportTable, Result):
    """A single table as a result.

    For its attributes, see :class:`costcore.tables.answer.ReportTable`.
    """

    def show(
        self,
        ost: IO[str] | None = None,
        mode: str = "table",
        unit: str | None = "auto",
        n_digits: int | None = None,
    ) -> None:
        """Write the table with all rows; in a terminal, columns that do not fit are dropped.

        Args:
            ost: the stream to write to; default: standard output at the time of the call.
            mode: ``csv``, ``md``, ``table``, ``color``, ``json``, ``html``, or a mode of a plug-in.
            unit: the prefix of amounts, or ``autoaligned``; None for exact numbers; ``auto`` for the prefix of
                ``print``.
            n_digits: digits after the decimal point; default: as in ``print``.

        Raises:
            TypeError, ValueError: if an argument is invalid.
        """
        if mode in ("json", "html"):
            super().show(ost, mode)
        else:
            prefix = self.prefix if unit == "auto" else unit
            self.write(ost, mode, prefix, self.n_digits if n_digits is None else n_digits)

    def _text(
        self, mode: str = "table", unit: str | None = "auto", n_digits: int | None = None, *, is_whole: bool = True
    ) -> str:
        from costcore.tables.answer import table_to_text

        table = self if is_whole else self.in_print()
        more = [] if table is self else [table.title]
        return table_to_text(table.shown(unit, n_digits), mode, [*more, *self.remarks])

    def _content(self) -> Content:
        own = copy.copy(self)
        own.keeps_zeros = True  # its columns were chosen
        own.whole = own
        return Content(self.title, (), [own], self.remarks)


# The common arguments of methods that write a table.


class WritesTable(Protocol):
    """A method that writes a table."""

    def __call__(
        self,
        ost: IO[str] | None = None,
        mode: str | None = None,
        unit: str | None = ...,
        columns: Sequence[str] | None = ...,
        n_digits: int | None = 3,
        dst: IO[str] | None = None,
        *,
        sort: str | None = None,
        top: int | None = ...,
        **of_table: Any,
    ) -> None:
        """Write the table; arguments as for :meth:`costcore.Report.show_report`."""


class TableOptions(Protocol):
    """:class:`WritesTable` as an attribute of a class."""

    @overload
    def __get__(self, result: None, owner: Any = None) -> Callable[..., None]: ...
    @overload
    def __get__(self, result: object, owner: Any = None) -> WritesTable: ...


def writes_table(
    default: Sequence[str] | None = None,
    unit: str | None = "autoaligned",
    top: int | None = None,
    elsewhere: str = "table",
    by_mode: bool = False,
    has_lines: bool = False,
) -> Callable[[Callable[..., ReportTable]], TableOptions]:
    """Return a decorator that turns a method which returns a table into a method which writes it.

    The decorated method is called with ``top``, and with ``columns``, ``sort`` and options of the table that are not
    None.

    Args:
        default: the default columns of the table.
        unit: the default prefix of amounts.
        top: the default number of rows.
        elsewhere: the format of streams that are neither a terminal nor a notebook.
        by_mode: whether the method also gets ``mode``, because the rows depend on it.
        has_lines: whether boxes have lines between rows if the caller requested a mode.
    """

    def decorate(table_of: Callable[..., ReportTable]) -> TableOptions:
        def show(
            self: Any,
            ost: IO[str] | None = None,
            mode: str | None = None,
            unit: str | None = unit,
            columns: Sequence[str] | None = default,
            n_digits: int | None = 3,
            dst: IO[str] | None = None,
            *,
            sort: str | None = None,
            top: int | None = top,
            **of_table: Any,
        ) -> None:
            given = {"columns": default if columns is None else columns, "sort": sort, **of_table}
            if by_mode:
                given["mode"] = mode
            table = table_of(self, top=top, **{name: value for name, value in given.items() if value is not None})
            table.write(one_stream(ost, dst), mode, unit, n_digits, elsewhere, has_lines and mode == "table")

        show.__name__, show.__qualname__ = table_of.__name__, table_of.__qualname__
        show.__doc__, show.__module__ = table_of.__doc__, table_of.__module__
        return cast("TableOptions", show)

    return decorate


# The table of all quantities.


COLUMNS = (
    Column("name", "Quantity"),
    Column("kind", "Kind"),
    Column("doc", "What it is"),
    Column("of", "Known of"),
    Column("needs", "Needs"),
    Column("certainty", "Certainty"),
)


def quantities() -> Table:
    """Return a table of all quantities of a run, including those of plug-ins.

    ``flops@CONVENTION`` is a placeholder for ``flops@fvcore`` and so on.

    Raises:
        CostError: if a plug-in fails, or if two quantities have the same name.
    """
    rows = [
        {
            **{key: getattr(each, key) for key in ("name", "kind", "doc", "certainty")},
            "of": _known_of(each),
            "needs": ", ".join(f"{option}={value}" for option, value in each.needs.items()),
        }
        for each in registered().values()
    ]
    dropped = ("certainty", "kind", "needs", "of")
    return Table("Quantities", COLUMNS, rows, most=len(rows), dropped_first=dropped)


def _known_of(quantity: Quantity) -> str:
    # A quantity with a parameter has values for the same items as its namesake without one.
    plain = registered().get(quantity.name.partition("@")[0], quantity)
    return "run" if plain.is_of_run_only and not (plain is quantity and quantity.at) else "calls, groups, run"
