"""The shape of every result: exact figures and tables, from which every format follows."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from costcore.text.encoding import encodable
from costcore.text.escape import json_text
from costcore.text.screen import Screen
from costcore.text.targets import Target, save, writable

if TYPE_CHECKING:
    from costcore.tables.answer import Answer


class Result(ABC):
    """A result: it prints, notebooks show it, and it is written as data, for people and for other programs.

    A subclass states its figures and tables once, in ``_answer``, and adds methods of its own, but no writer.

    ``print`` and notebooks show the first rows of a long table (:data:`costcore.tables.table_data.MOST_ROWS`);
    :meth:`show`, files and data have all of them. A table that ends with a row ``others`` is whole only in data.
    """

    @abstractmethod
    def _answer(self) -> Answer:
        """Return the figures and tables."""

    def __str__(self) -> str:
        return encodable(self._text(is_whole=False))

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: no script and no style sheet, and names only as text."""
        from costcore.tables.overview.to_html import to_html

        return to_html(self._answer())

    def _repr_markdown_(self) -> str:
        """Return Markdown for a notebook without HTML."""
        from costcore.tables.overview.to_markdown import to_markdown

        return to_markdown(self._answer(), is_whole=False)

    def _text(
        self, mode: str = "table", unit: str | None = "auto", n_digits: int | None = None, *, is_whole: bool = True
    ) -> str:
        """Return the text of :meth:`show`, with the same arguments; of ``print`` if it need not be whole."""
        from costcore.tables.overview.to_text import to_text

        return to_text(self._answer(), mode, unit, n_digits, is_whole)

    def show(
        self,
        ost: IO[str] | None = None,
        mode: str = "table",
        unit: str | None = "auto",
        n_digits: int | None = None,
    ) -> None:
        """Write what ``print`` shows, with all rows of its tables, or another format.

        Args:
            ost: the stream to write to; default: standard output at the time of the call.
            mode: ``table``, ``color``, or a mode of a plug-in, for text; ``md``, ``csv``, ``json``, or ``html``.
            unit: the prefix of amounts, ``auto`` or ``autoaligned``, as for :meth:`costcore.Report.show_report`.
            n_digits: digits after the decimal point; default: as many as ``print`` shows.

        Raises:
            TypeError, ValueError: if an argument is invalid.
        """
        from costcore.tables.on_screen import write_answer
        from costcore.tables.show import DRAWN, in_color

        stream = writable(ost or sys.stdout)
        mode = in_color(mode, stream)
        # sentences of a subclass are its answer, if no table follows them
        is_prose = type(self)._text is not Result._text and not any(t.rows and t.is_open for t in self._answer().tables)
        if isinstance(stream, Screen) and mode in DRAWN and not is_prose:
            write_answer(self._answer(), stream, mode, unit, n_digits)
            return
        writers = {"md": self.to_markdown, "csv": self.to_csv, "json": self.to_json, "html": self.to_html}
        text = writers[mode]() if mode in writers else f"{self._text(mode, unit, n_digits)}\n"
        stream.write(encodable(text, stream))

    def to_dict(self) -> dict[str, Any]:
        """Return title, figures, tables and remarks in plain JSON types; symbolic expressions as text.

        ``costcore/tables/result.schema.json`` describes them. Integers are exact.
        """
        from costcore.tables.data import to_dict

        return to_dict(self._answer())

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
        """Return the exact values of one table as CSV, or those of the figures if there is no table.

        The first line has the keys of the columns.

        Args:
            target: a path, which is replaced atomically, or a stream, to which the text is also written.
            table: which of the tables.

        Raises:
            ValueError: if there is no such table.
            OSError: if the path cannot be written.
        """
        from costcore.tables.data import table_of, to_csv

        return save(to_csv(table_of(self._answer(), table)), target)

    def to_pandas(self, table: int = 0) -> Any:
        """Return the exact values of one table as a ``pandas.DataFrame``, or those of the figures without a table.

        Raises:
            ValueError: if there is no such table.
            CostError: if pandas is not installed.
        """
        from costcore.tables.data import table_of, to_pandas

        return to_pandas(table_of(self._answer(), table))

    def to_markdown(self, target: Target = None) -> str:
        """Return figures, tables and remarks as Markdown, and write them to ``target`` if given."""
        from costcore.tables.overview.to_markdown import to_markdown

        return save(to_markdown(self._answer()), target)

    def to_html(self, target: Target = None, title: str = "") -> str:
        """Return one self-contained HTML page without a script, and write it to ``target`` if given.

        Args:
            target: a path, which is replaced atomically, or a stream.
            title: heading of the page; default: that of the result.

        Raises:
            OSError: if the path cannot be written.
        """
        from costcore.tables.html import page

        return save(page(self._answer(), title), target)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the result to a file, whose suffix is the format: ``.txt``, ``.md``, ``.csv``, ``.json`` or ``.html``.

        Raises:
            ValueError: for another suffix.
            OSError: if the path cannot be written.
        """
        from costcore.messages import unknown

        suffixes: dict[str, Callable[[str | PathLike[str]], object]] = {
            ".md": self.to_markdown,
            ".csv": self.to_csv,
            ".json": self.to_json,
            ".html": self.to_html,
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
        """Return what writes files of further suffixes."""
        return {}


class Stated(Result):
    """An answer by itself, in every format."""

    def __init__(self, answer: Answer) -> None:
        self._stated = answer

    def _answer(self) -> Answer:
        return self._stated


def arranged(result: Result, columns: Sequence[str] | None, sort: str | None, top: int | None) -> Result:
    """Return a result whose tables have chosen columns, and are sorted and limited.

    Args:
        result: the result.
        columns: the columns to show; a table without any of them, and None, show all.
        sort: the column to sort by: numbers from the largest, text alphabetically; a table without it, and None, keep
            the order.
        top: the maximum number of rows of each table, with a row ``others`` for the remaining ones; None for all.

    Raises:
        TypeError, ValueError: if no table has a column, or if ``top`` is not a positive integer.
    """
    if columns is None and sort is None and top is None:
        return result
    from costcore.tables.columns import choose

    answer = result._answer()
    known = {column.key: column for table in answer.tables for column in table.columns}
    chosen = [column.key for column in choose(known, columns)] if columns else []
    order = None if sort is None else choose(known, [sort])[0].key
    tables = []
    for table in answer.tables:
        has_order = any(column.key == order for column in table.columns)
        in_order = table.sorted(order) if has_order and order is not None else table
        tables.append(in_order.top(top).with_columns(chosen))
    return Stated(answer._replace(tables=tables))


def _of_report(name: str) -> Any:
    def method(self: Any, *args: Any, **options: Any) -> Any:
        return getattr(self.report, name)(*args, **options)

    method.__name__, method.__doc__ = name, f"As :meth:`costcore.Report.{name}`, of :attr:`report`."
    return method


class OfReport(Result):
    """A result that has a report: data formats are those of the report."""

    to_dict: Any = _of_report("to_dict")
    to_json: Any = _of_report("to_json")
    to_csv: Any = _of_report("to_csv")
    to_pandas: Any = _of_report("to_pandas")
    to_markdown: Any = _of_report("to_markdown")
    to_html: Any = _of_report("to_html")
