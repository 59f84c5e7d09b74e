"""The formats of files of rows: JSON lines, CSV and Parquet."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import StringIO
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from costcore.counting.pricing import MOST_BITS
from costcore.errors import CostError, FileError
from costcore.files import exists, open_file, read_text, unreadable
from costcore.messages import error_text, import_problem, short_repr
from costcore.numbers.expressions import size_from, symbol_of
from costcore.text.escape import printable

Record: TypeAlias = "dict[str, Any]"
"""A row by column, all values of plain JSON types."""

MOST_BYTES = 2**32
"""The largest file of rows that is read."""

LONGEST = 10**5
"""The most characters of a figure; formulas of large models have a few thousand."""

ALWAYS = ("name", "status", "failed", "key")
"""The columns that every file of rows has."""


class LineFormat(NamedTuple):
    """A format with one line per row, to which rows can be appended.

    Attributes:
        header: returns the line above the rows of these columns, which may be empty.
        line: returns the line of a row; all rows have the same columns.
        records: returns the rows in the lines of a file. Raises a ``ValueError`` if these are not rows.
        is_begun: returns whether a file that ends before its first line does is one of these columns.
    """

    header: Callable[[Sequence[str]], str]
    line: Callable[[Record], str]
    records: Callable[[list[str]], Iterable[Record]]
    is_begun: Callable[[str, Sequence[str]], bool]


def read_lines(path: Path, form: LineFormat, names: Sequence[str] = ()) -> list[Record]:
    """Return the rows of a file; a last line that was not finished is left out. No file has no rows.

    Args:
        path: the file.
        form: its format.
        names: the columns, by which a file is recognized whose only line was not finished.

    Raises:
        CostError: if it is not a file of rows.
        OSError: if it cannot be read.
    """
    if not exists(path):
        return []
    *lines, unfinished = read_text(path, limit=MOST_BYTES).split("\n")
    if not lines and not form.is_begun(unfinished, names):
        raise CostError(f"{path} does not contain rows that costcore wrote: its only line is not the beginning of one")
    try:
        records = [*form.records(lines)]
    except (ValueError, RecursionError, csv.Error) as error:
        raise CostError(f"{path} does not contain rows that costcore wrote: {error}") from error
    return records


def _json_line(record: Record) -> str:
    return json.dumps(record, ensure_ascii=False) + "\n"


def _json_records(lines: list[str]) -> Iterator[Record]:
    for number, line in enumerate(lines, 1):
        record = json.loads(line)
        if not isinstance(record, dict) or not record.keys() >= set(ALWAYS):
            raise ValueError(f"line {number} is not a row")
        yield record


def _is_begun_json(text: str, names: Sequence[str]) -> bool:
    """Return whether a text is the beginning of a row: names in order, each with a value, the last of which may end."""
    scan, at = json.JSONDecoder().raw_decode, 0
    for i, name in enumerate(names):
        key = f"{', ' if i else '{'}{json.dumps(name, ensure_ascii=False)}: "
        if not text.startswith(key, at):
            return key.startswith(text[at:])
        try:
            _, at = scan(text, at + len(key))
        except (ValueError, RecursionError):
            return _is_cut(text[at + len(key) :])
    return text[at:] in ("", "}")


def _is_cut(value: str) -> bool:
    """Return whether a text begins as a value in JSON does, but does not end."""
    return value == "" or value[0] in '"[{' or any(each.startswith(value) for each in ("null", "true", "false", "-"))


def _csv_line(values: Iterable[Any]) -> str:
    """Return a line of CSV; line breaks inside a value are escaped, so that every row is one line."""
    out = StringIO()
    csv.writer(out, lineterminator="\n").writerow("" if value is None else printable(str(value)) for value in values)
    return out.getvalue()


def _csv_records(lines: list[str]) -> Iterator[Record]:
    if not lines:
        return
    names, *rows = csv.reader(lines)
    if not set(names) >= set(ALWAYS):
        raise ValueError(f"line 1 does not have the columns {', '.join(ALWAYS)}")
    for row in rows:
        yield dict(zip(names, row, strict=False))


JSON_LINES = LineFormat(lambda names: "", _json_line, _json_records, _is_begun_json)
CSV = LineFormat(
    _csv_line,
    lambda record: _csv_line(record.values()),
    _csv_records,
    lambda text, names: _csv_line(names).startswith(text),
)


def amount(value: Any) -> Any:
    """Return the figure that a file contains: a number, an expression, or None for an unknown one.

    Raises:
        ValueError: if it is something else, or larger than any figure.
    """
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f"{short_repr(value)} is not a number")
    if isinstance(value, str):
        value = _parsed(value)
    is_finite = not isinstance(value, float) or isfinite(value)
    if not is_finite or (isinstance(value, int) and value.bit_length() > MOST_BITS):
        raise ValueError(f"{short_repr(value)} is larger than any figure")
    return value


def _parsed(text: str) -> Any:
    if len(text) > LONGEST:
        raise ValueError(f"{short_repr(text)} is longer than any figure")
    if re.fullmatch(r"-?[0-9]{1,400}", text):
        return int(text)
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?(e-?[0-9]+)?", text):
        return float(text)
    try:
        return size_from(text, symbol_of)
    except TypeError:  # a function of sizes, such as a maximum, which is only printed
        return symbol_of(text)


def read_parquet(path: Path) -> list[Record]:
    """Return the rows of a Parquet file; no file has no rows.

    Raises:
        CostError: if it is not a file of rows.
        OSError: if it cannot be read.
    """
    from pyarrow import ArrowInvalid
    from pyarrow.parquet import read_table

    if not exists(path):
        return []
    try:
        open_file(path).close()  # raises if it is a device
        records: list[Record] = read_table(path).to_pylist()
    except FileError:
        raise
    except OSError as error:  # of a pipe, or of pyarrow
        raise unreadable(path, error) from error
    except ArrowInvalid as error:
        raise CostError(f"{path} is not a Parquet file: {error}") from error
    if any(not record.keys() >= set(ALWAYS) for record in records):
        raise CostError(f"{path} does not contain rows that costcore wrote: columns are missing")
    return records


def write_parquet(path: Path, names: Sequence[str], records: Sequence[Record]) -> None:
    """Write rows to a Parquet file, which is replaced atomically.

    Raises:
        OSError: if it cannot be written.
    """
    from pyarrow import table
    from pyarrow.parquet import write_table

    content = table({name: _arrow_column([record[name] for record in records]) for name in names})
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        write_table(content, temporary)
        temporary.replace(path)
    except OSError as error:
        raise OSError(error.errno, f"{path} cannot be written: {error_text(error)}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _arrow_column(values: Sequence[Any]) -> Any:
    """Return a column; values of several types, or too large for 64 bits, as text."""
    from pyarrow import ArrowInvalid, ArrowTypeError, array

    try:
        return array(values)
    except (ArrowInvalid, ArrowTypeError, OverflowError):
        return array([None if value is None else str(value) for value in values])


def check_pyarrow() -> None:
    """Check that pyarrow is installed.

    Raises:
        CostError: if it is not.
    """
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise CostError(import_problem("a .parquet file", "pyarrow", error)) from error
