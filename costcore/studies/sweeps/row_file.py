"""Files that rows are written to as they are computed, and from which an interrupted run goes on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from os import PathLike
from pathlib import Path
from typing import IO

from costcore.errors import CostError
from costcore.messages import error_text, short_repr
from costcore.studies.sweeps.file_lock import locked
from costcore.studies.sweeps.formats import (
    CSV,
    JSON_LINES,
    Record,
    amount,
    check_pyarrow,
    read_lines,
    read_parquet,
    write_parquet,
)
from costcore.studies.sweeps.row import ModelRow
from costcore.text.targets import save
from costcore.text.values import jsonable

FORMATS = {".jsonl": JSON_LINES, ".csv": CSV}
SUFFIXES = (*FORMATS, ".parquet")
"""Suffixes of files that rows are written to."""


class RowFile:
    """A file that rows are appended to; when all are there, it is put into the order of the models.

    It is a context, in which no other run may write the file.

    Its columns are ``name``, the arguments, the figures, ``status``, ``failed`` and ``key``. A Parquet file cannot be
    appended to: its rows are collected in a file with ``.jsonl`` after its name until all are there.

    Args:
        path: the file.
        arguments: the names of the arguments of all rows.
        figures: the names of the figures of all rows.

    Raises:
        ValueError: if the suffix is not one of :data:`SUFFIXES`, or if an argument has the name of another column.
        CostError: if the format needs a package that is not installed.
    """

    def __init__(self, path: str | PathLike[str], arguments: Sequence[str], figures: Sequence[str]) -> None:
        self.path = Path(path)
        suffix = self.path.suffix
        if suffix not in SUFFIXES:
            raise ValueError(f"output {str(path)!r} has an unknown suffix (expected one of {', '.join(SUFFIXES)})")
        self._names = ["name", *arguments, *figures, "status", "failed", "key"]
        if twice := [name for i, name in enumerate(self._names) if name in self._names[:i]]:
            raise ValueError(f"argument {twice[0]!r} has the name of a column of the output. Rename the argument.")
        self._figures = figures
        self._is_parquet = suffix == ".parquet"
        if self._is_parquet:
            check_pyarrow()
        self._lines = self.path.with_name(self.path.name + ".jsonl") if self._is_parquet else self.path
        self._format = FORMATS.get(suffix, JSON_LINES)
        self._stream: IO[str] | None = None
        self._stack = ExitStack()

    def __enter__(self) -> RowFile:
        """Lock the file.

        Raises:
            CostError: if another run writes it.
            OSError: if it cannot be written.
        """
        self._stack.enter_context(locked(self.path))
        return self

    def __exit__(self, *error: object) -> None:
        """Close the file as it is, with the rows that are there."""
        self._stack.close()

    def earlier(self) -> dict[str, ModelRow]:
        """Return the rows of an earlier run that did not fail, by key, without their arguments.

        Raises:
            CostError: if the file contains something else.
            OSError: if it cannot be read.
        """
        records = read_parquet(self.path) if self._is_parquet else []
        records += read_lines(self._lines, self._format, self._names)
        kept = (
            record
            for record in records
            if record.get("key") and str(record.get("failed")) == "False" and record.keys() >= set(self._figures)
        )
        return dict(map(self._row, kept))

    def _row(self, record: Record) -> tuple[str, ModelRow]:
        """Return the key and the row of a record.

        Raises:
            CostError: if a value is not what costcore writes.
        """
        for name in ("key", "name", "status"):
            if not isinstance(record[name], str):
                raise CostError(f"{self.path}: a row has the {name} {short_repr(record[name])} (expected a text)")
        figures = {}
        for name in self._figures:
            try:
                figures[name] = amount(record[name])
            except (ValueError, RecursionError) as error:
                text = " ".join(str(error).split())
                raise CostError(
                    f"{self.path}: the row of {short_repr(record['name'])} has the {name} {text:.200}"
                ) from error
        return record["key"], ModelRow(record["name"], figures, record["status"])

    def start(self, kept: Iterable[tuple[str, ModelRow]]) -> None:
        """Replace the file by the rows to keep, with their keys.

        Raises:
            OSError: if it cannot be written.
        """
        self._write(self._lines, kept)
        self._stream = self._stack.enter_context(self._lines.open("a", encoding="utf-8", newline="\n"))

    def add(self, key: str, row: ModelRow) -> None:
        """Append a row; it is in the file, whatever becomes of this process, when this returns.

        Raises:
            OSError: if it cannot be written.
        """
        assert self._stream is not None
        try:
            self._stream.write(self._format.line(self._record(key, row)))
            self._stream.flush()
        except OSError as error:
            with suppress(OSError):  # what could not be written cannot be flushed either
                self._stream.close()
            raise type(error)(f"{self._lines} cannot be written: {error_text(error)}") from error

    def finish(self, rows: Iterable[tuple[str, ModelRow]]) -> None:
        """Replace the file by all rows, in order.

        Raises:
            OSError: if it cannot be written.
        """
        assert self._stream is not None
        self._stream.close()
        if self._is_parquet:
            write_parquet(self.path, self._names, [self._record(key, row) for key, row in rows])
            self._lines.unlink()
        elif self.path.is_file():  # a pipe has its rows already
            self._write(self.path, rows)

    def _write(self, path: Path, rows: Iterable[tuple[str, ModelRow]]) -> None:
        lines = [self._format.line(self._record(key, row)) for key, row in rows]
        save("".join([self._format.header(self._names), *lines]), path)

    def _record(self, key: str, row: ModelRow) -> Record:
        values = {**row.plain_arguments, **row.costs, "name": row.name, "status": row.status}
        values |= {"failed": row.failed, "key": key}
        return {name: jsonable(values.get(name)) for name in self._names}
