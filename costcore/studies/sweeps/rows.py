"""Rows of tables of models: how a row is computed, which columns it has, and files to which rows are appended.

A failing model gives a row with the error as status. Rows are appended to JSON lines, CSV or Parquet under a lock, so
that an interrupted table can resume. The last section has the messages between the processes that compute rows.
"""

from __future__ import annotations

import csv
import json
import marshal
import os
import re
import warnings
from array import array
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from io import StringIO
from itertools import chain, islice
from math import isfinite, prod
from os import PathLike
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias, overload

from costcore.api.estimate import check_report, estimate, in_mode, load_model, module_search_path
from costcore.api.hook import input_arguments, saved_report
from costcore.counting import MOST_BITS
from costcore.errors import CostError, CostWarning, FileError, error_text, import_problem, short_repr, unknown
from costcore.files import exists, open_file, unreadable
from costcore.ledger.ledger import remarks_on_mode
from costcore.numbers import Dim, size_from, symbol_of
from costcore.plugins import with_plugin_hint
from costcore.registry import applicable_options, default_inputs, frontend_of, is_saved_report
from costcore.reports.exports import status
from costcore.reports.report import Report
from costcore.tables.quantity import Quantity, is_quantity, numbers, numeric, quantity
from costcore.text.amounts import jsonable
from costcore.text.output import printable, save_pieces
from costcore.trace.trace import has_names


class ModelRow(NamedTuple):
    """The row of one model.

    Attributes:
        name: the name of the model.
        costs: the figures by name of their column, ``flops``, ``n_params``, …; None for an unknown figure. Empty if
            the model failed.
        status: ``complete``, ``partial`` with the operators that are not counted, or the error if the model failed;
            with the default input if one was used, and the reason for each unknown figure.
        failed: True if the costs of the model could not be computed.
        arguments: the arguments of the function that returned the model, by name; None if it has none.
    """

    name: str
    costs: Mapping[str, Dim | float | None]
    status: str
    failed: bool = False
    arguments: Mapping[str, Any] | None = None

    @property
    def is_out_of_memory(self) -> bool:
        """Whether the model failed because it could not allocate memory."""
        return self.failed and self.status.startswith(OUT_OF_MEMORY)

    @property
    def label(self) -> str:
        """The name with the arguments, ``make(width=0.5, depth=2)``."""
        if self.arguments is None:
            return self.name
        return f"{self.name}({', '.join(f'{name}={value!r}' for name, value in self.plain_arguments.items())})"

    @property
    def plain_arguments(self) -> dict[str, Any]:
        """The arguments, functions and classes by their names."""
        arguments = self.arguments or {}
        return {name: getattr(value, "__qualname__", value) for name, value in arguments.items()}


@dataclass(frozen=True)
class Settings:
    """The settings of all rows of a table.

    Attributes:
        columns: the names of the figures, see :mod:`costcore.studies.sweeps.rows`.
        convention: the convention of FLOPs; None for costcore's.
        python_path: folders to search for the modules of targets, before the current folder.
        options: further arguments of :func:`costcore.estimate`.
        mode: the mode to put models into; None to keep it.
    """

    columns: Sequence[str]
    convention: str | PathLike[str] | None = None
    python_path: Sequence[str] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    mode: str | None = None


class NamedModel(NamedTuple):
    """A model to count.

    Attributes:
        name: its name.
        model: the model as for :func:`costcore.table`; with arguments, the function that returns it, or the target
            (``nets.py:make``) of that function.
        inputs: its inputs; with arguments, they may be a function of these.
        arguments: the arguments of the function; None if ``model`` is a model.
    """

    name: str
    model: Any
    inputs: Any = None
    arguments: Mapping[str, Any] | None = None


class Rows(Sequence[ModelRow]):
    """The rows computed so far, in the order of the models.

    Rows are stored packed and unpacked on access: a million take 0.1 GB.

    Args:
        models: the models, whose names and arguments the rows have.
        columns: the names of the figures.
    """

    def __init__(self, models: Sequence[NamedModel], columns: Sequence[str]) -> None:
        # Models that are objects are not kept alive.
        self._models = models if isinstance(models, Variants) else [*map(_label, models)]
        self._columns = tuple(columns)
        self._packed: list[bytes | ModelRow | None] = [None] * len(models)
        self._statuses: dict[str, int] = {}
        self._texts: Sequence[str] = ()
        self._places: Sequence[int] | None = None

    def add(self, position: int, row: ModelRow) -> None:
        """Set the row of a model."""
        status = self._statuses.setdefault(row.status, len(self._statuses))
        packed: bytes | ModelRow = row
        if row.name == self._models[position].name and tuple(row.costs) == self._columns * (not row.failed):
            with suppress(ValueError):  # not a number, but a formula
                packed = marshal.dumps((status, row.failed, *row.costs.values()), 2)
        self._packed[position] = packed
        self._places = None

    def has(self, position: int) -> bool:
        """Return whether the row of a model was computed."""
        return self._packed[position] is not None

    @property
    def places(self) -> Sequence[int]:
        """The positions of the models whose rows were computed."""
        if self._places is None:
            self._places = array("q", (i for i, packed in enumerate(self._packed) if packed is not None))
        return self._places

    def at(self, position: int) -> ModelRow:
        """Return the row of a model, which must have been computed."""
        packed = self._packed[position]
        if isinstance(packed, ModelRow):
            return packed._replace(arguments=self._models[position].arguments)
        assert packed is not None
        status, failed, *values = marshal.loads(packed)
        if len(self._texts) != len(self._statuses):
            self._texts = [*self._statuses]
        model = self._models[position]
        costs = {} if failed else dict(zip(self._columns, values, strict=True))
        return ModelRow(model.name, costs, self._texts[status], failed, model.arguments)

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, index: int) -> ModelRow: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[ModelRow, ...]: ...
    def __getitem__(self, index: int | slice) -> ModelRow | tuple[ModelRow, ...]:
        if isinstance(index, slice):
            return tuple(map(self.at, self.places[index]))
        return self.at(self.places[index])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (Rows, tuple)):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(tuple(self))


def _label(named: NamedModel) -> NamedModel:
    return named if isinstance(named.model, str) else named._replace(model=None, inputs=None)


class Variants(Sequence[NamedModel]):
    """The models of a grid, each created on access; the last argument varies fastest.

    Args:
        name: the name of all.
        model: the function, or its target.
        inputs: their inputs.
        grid: the values of every argument by its name.
    """

    def __init__(self, name: str, model: Any, inputs: Any, grid: Mapping[str, Sequence[Any]]) -> None:
        self.name, self.model, self.inputs, self.grid = name, model, inputs, grid
        self._n = prod(map(len, grid.values()))

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, index: int) -> NamedModel: ...
    @overload
    def __getitem__(self, index: slice) -> list[NamedModel]: ...
    def __getitem__(self, index: int | slice) -> NamedModel | list[NamedModel]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._n))]
        left = range(self._n)[index]
        chosen = []
        for values in reversed([*self.grid.values()]):
            left, place = divmod(left, len(values))
            chosen.append(values[place])
        return NamedModel(self.name, self.model, self.inputs, dict(zip(self.grid, reversed(chosen), strict=True)))


OUT_OF_MEMORY = "out of memory: "
"""The prefix of the status if the model could not allocate memory."""


def row_of(named: NamedModel, settings: Settings) -> ModelRow:
    """Return the row of one model. An exception is the status of its row."""
    try:
        with module_search_path(settings.python_path, named.model), warnings.catch_warnings():
            warnings.simplefilter("ignore", CostWarning)  # the row lists the operators that are not counted
            report, remarks = _report(named, settings)
            costs, reasons = figures_of(report, settings.columns)
            if settings.convention is not None and "flops" in costs:
                costs["flops"] = report.under(settings.convention).total
            said = [status(report), *remarks, *remarks_on_mode(report.trace), *reasons]
            return ModelRow(named.name, costs, "; ".join(said), arguments=named.arguments)
    except (Exception, SystemExit) as error:  # a failing model must not affect the rows of the others
        problem = failure(error, named.model)
        return ModelRow(named.name, {}, problem, failed=True, arguments=named.arguments)


def failure(error: BaseException, model: object = None) -> str:
    """Return the status of a model that raised ``error``, with the prefix :data:`OUT_OF_MEMORY` if memory ran out.

    The name of the model is not repeated: it is in the same row.
    """
    message = str(error) if isinstance(error, CostError) else f"{type(error).__name__}: {error}"
    message = message.removeprefix(f"{model} failed: ")
    return OUT_OF_MEMORY + message if _is_memory_error(error) else message


def _is_memory_error(error: BaseException | None) -> bool:
    for _ in range(100):
        if error is None:
            break
        # PyTorch raises a RuntimeError instead of a MemoryError.
        if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _report(named: NamedModel, settings: Settings) -> tuple[Report, list[str]]:
    options, inputs = settings.options, named.inputs
    model: Any = named.model
    is_step = bool(options.get("backward")) or options.get("optimizer") is not None
    if isinstance(model, str) and is_saved_report(model):
        model = saved_report(model, options.get("fma_1flop", True), options.get("dims"))
    if isinstance(model, Report):
        check_report(model, None, named.name, settings.mode, is_step)
        return model, []
    if named.arguments is not None and callable(inputs):
        inputs = inputs(**named.arguments)
    target = named.name
    remarks: list[str] = []
    if isinstance(model, str):
        target, model = model, load_model(model, named.arguments)
        inputs, remarks = _inputs_or_default(inputs, model, target)
        options = applicable_options(target, model, options)
    elif named.arguments is not None:
        model = model(**named.arguments)
    is_made = isinstance(named.model, str) or named.arguments is not None
    if is_made:
        in_mode(model, target, settings.mode, is_step)
    report = estimate(model, inputs, **_needed(model, inputs, settings), **options)
    check_report(report, model if is_made else None, target, settings.mode, is_step)
    return report, remarks


def _inputs_or_default(inputs: Any, model: Any, target: str) -> tuple[Any, list[str]]:
    default = default_inputs(model, target) if inputs is None else None
    if default is None:
        return inputs, []
    return default.inputs, [f"using default input {input_arguments(default.inputs)} ({default.source})"]


def _needed(model: Any, inputs: Any, settings: Settings) -> dict[str, Any]:
    needed = {option: value for name in settings.columns for option, value in figure(name).needs.items()}
    if not needed:
        return {}
    spec = frontend_of(model)
    accepted = {"record_api_calls", *spec.options, *spec.model_options} - settings.options.keys()
    if has_names(inputs):
        accepted.discard("memory")  # with named sizes, memory has no formula
    return {name: value for name, value in needed.items() if name in accepted}


# File formats: JSON lines, CSV and Parquet.


Record: TypeAlias = "dict[str, Any]"
"""A row by column, all values of plain JSON types."""

MOST_BYTES = 2**32
"""The maximum size of a file of rows."""

MOST_LINE = 2**26
"""The maximum bytes of a line; rows of many formulas have some thousand."""

AT_ONCE = 2**14
"""The rows of a Parquet file that are converted at once."""

LONGEST = 10**5
"""The maximum length of a figure; formulas of large models have a few thousand characters."""

ALWAYS = ("name", "status", "failed", "key")
"""The columns of every file of rows."""


class LineFormat(NamedTuple):
    """A format with one line per row, to which rows can be appended.

    Attributes:
        header: returns the line above the rows of these columns, which may be empty.
        line: returns the line of a row; all rows have the same columns.
        records: returns the rows in the lines of a file. Raises a ``ValueError`` for other lines.
        is_begun: returns whether an unfinished line, the only one of a file, is the beginning of a row.
    """

    header: Callable[[Sequence[str]], str]
    line: Callable[[Record], str]
    records: Callable[[Iterator[str]], Iterator[Record]]
    is_begun: Callable[[str, Sequence[str]], bool]


def read_lines(path: Path, form: LineFormat, names: Sequence[str] = ()) -> Iterator[Record]:
    """Yield the rows of a file without an unfinished last line; no rows if the file does not exist.

    Args:
        path: the file.
        form: its format.
        names: the columns, to recognize a file with a single unfinished line.

    Raises:
        CostError: if it is not a file of rows.
        OSError: if it cannot be read.
    """
    if not exists(path):
        return
    try:
        yield from form.records(_lines(path, form, names))
    except CostError:
        raise
    except (ValueError, RecursionError, csv.Error) as error:
        raise CostError(f"{path} does not contain rows that costcore wrote: {error}") from error


def _lines(path: Path, form: LineFormat, names: Sequence[str]) -> Iterator[str]:
    n_read = n = 0
    with open_file(path) as file:
        try:
            while line := file.readline(MOST_LINE + 1):
                n_read += len(line)
                if len(line) > MOST_LINE or n_read > MOST_BYTES:
                    most = f"{MOST_BYTES:,} bytes" if n_read > MOST_BYTES else f"{MOST_LINE:,} bytes in a line"
                    raise FileError(f"{path} cannot be read: it has more than {most}")
                text = line.decode("utf-8")
                if text.endswith("\n"):
                    n += 1
                    yield text[:-1].removesuffix("\r")
                elif not n and not form.is_begun(text, names):
                    raise CostError(
                        f"{path} does not contain rows that costcore wrote: its only line is not the beginning of one"
                    )
        except OSError as error:
            raise unreadable(path, error) from error
        except UnicodeDecodeError as problem:
            raise FileError(f"{path} is not a text in UTF-8: {problem}") from problem


def _json_line(record: Record) -> str:
    return json.dumps(record, ensure_ascii=False) + "\n"


def _json_records(lines: Iterator[str]) -> Iterator[Record]:
    for number, line in enumerate(lines, 1):
        record = json.loads(line)
        if not isinstance(record, dict) or not record.keys() >= set(ALWAYS):
            raise ValueError(f"line {number} is not a row")
        yield record


def _is_begun_json(text: str, names: Sequence[str]) -> bool:
    # The last value may be cut off anywhere.
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
    return value == "" or value[0] in '"[{' or any(each.startswith(value) for each in ("null", "true", "false", "-"))


def _csv_line(values: Iterable[Any]) -> str:
    out = StringIO()
    # Line breaks are escaped: every row must be one line, so that a cut last line can be dropped.
    csv.writer(out, lineterminator="\n").writerow("" if value is None else printable(str(value)) for value in values)
    return out.getvalue()


def _csv_records(lines: Iterator[str]) -> Iterator[Record]:
    rows = csv.reader(lines)
    names = next(rows, None)
    if names is None:
        return
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
    """Parse a figure of a file: a number, an expression, or None for an unknown figure.

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
    except TypeError:  # a function of sizes, such as a maximum: only printed
        return symbol_of(text)


def read_parquet(path: Path) -> Iterator[Record]:
    """Yield the rows of a Parquet file; no rows if it does not exist.

    Raises:
        CostError: if it is not a file of rows.
        OSError: if it cannot be read.
    """
    from pyarrow import ArrowInvalid
    from pyarrow.parquet import ParquetFile

    if not exists(path):
        return
    try:
        open_file(path).close()  # raises if it is a device
        with ParquetFile(path) as file:
            if not {*file.schema_arrow.names} >= {*ALWAYS}:
                raise CostError(f"{path} does not contain rows that costcore wrote: columns are missing")
            for batch in file.iter_batches(AT_ONCE):
                yield from batch.to_pylist()
    except FileError:
        raise
    except OSError as error:  # of a pipe, or of pyarrow
        raise unreadable(path, error) from error
    except ArrowInvalid as error:
        raise CostError(f"{path} is not a Parquet file: {error}") from error


def write_parquet(path: Path, names: Sequence[str], records: Callable[[], Iterator[Record]]) -> None:
    """Atomically replace a Parquet file.

    Args:
        path: the file.
        names: its columns.
        records: returns the rows. It is called twice, because the type of a column depends on all rows.

    Raises:
        OSError: if it cannot be written.
    """
    from pyarrow import field, null, schema, table
    from pyarrow.parquet import ParquetWriter

    found = dict.fromkeys(names, _ArrowType(null()))
    for chunk in _chunks(records()):
        found = {name: each.with_values([record[name] for record in chunk]) for name, each in found.items()}
    types = {name: each.kind for name, each in found.items()}
    content = schema([field(name, each) for name, each in types.items()])
    # In the same folder: a rename is atomic only within a file system.
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with ParquetWriter(temporary, content) as file:
            for chunk in _chunks(records()):
                columns = {
                    name: _arrow_column([record[name] for record in chunk], each) for name, each in types.items()
                }
                file.write_table(table(columns, schema=content))
        temporary.replace(path)
    except OSError as error:
        raise OSError(error.errno, f"{path} cannot be written: {error_text(error)}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _chunks(records: Iterator[Record]) -> Iterator[list[Record]]:
    while chunk := [*islice(records, AT_ONCE)]:
        yield chunk


class _ArrowType(NamedTuple):
    # The type of a column, and the range of its integers. Values of several types, or too large for 64 bits, are texts.

    kind: Any
    low: int = 0
    high: int = 0

    def with_values(self, values: Sequence[Any]) -> _ArrowType:
        from pyarrow import ArrowInvalid, ArrowTypeError, array, float64, int64, null, string

        try:
            own = array(values).type
        except (ArrowInvalid, ArrowTypeError, OverflowError):
            return _ArrowType(string())
        ints = [value for value in values if value is not None] if own == int64() else ()
        low, high = min((self.low, *ints)), max((self.high, *ints))
        kinds = {self.kind, own} - {null()}
        if len(kinds) < 2:
            kind = next(iter(kinds), null())
        elif kinds == {int64(), float64()} and low >= -(2**53) and high <= 2**53:
            kind = float64()
        else:
            kind = string()
        return _ArrowType(kind, low, high)


def _arrow_column(values: Sequence[Any], kind: Any) -> Any:
    from pyarrow import array, string

    if kind == string():
        values = [None if value is None else str(value) for value in values]
    return array(values, kind)


def check_pyarrow() -> None:
    """Check that pyarrow is installed.

    Raises:
        CostError: if it is not.
    """
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise CostError(import_problem("a .parquet file", "pyarrow", error)) from error


# Files of rows, from which an interrupted run resumes.


FORMATS = {".jsonl": JSON_LINES, ".csv": CSV}

SUFFIXES = (*FORMATS, ".parquet")
"""Suffixes of files of rows."""


class RowFile:
    """A file that rows are appended to; at the end it is rewritten in the order of the models.

    Context manager: no other run may write the file inside.

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

    path: Path

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
        """Close the file with the rows written so far."""
        self._stack.close()

    def earlier(self) -> Iterator[tuple[str, ModelRow]]:
        """Yield the key and the row of every model that did not fail in an earlier run. These rows have no arguments.

        If a key has several rows, the last one counts.

        Raises:
            CostError: if the file contains something else.
            OSError: if it cannot be read.
        """
        written = read_parquet(self.path) if self._is_parquet else ()
        for record in chain(written, read_lines(self._lines, self._format, self._names)):
            is_kept = record.get("key") and str(record.get("failed")) == "False"
            if is_kept and record.keys() >= set(self._figures):
                yield self._row(record)

    def set_aside(self, keys: Container[str]) -> None:
        """Rename a file that has rows of these keys, and warn: the user may have forgotten to resume.

        Raises:
            OSError: if it cannot be renamed.
        """
        has_file = self.path.is_file() or self._lines.is_file()
        try:
            n_rows = len({key for key, _ in self.earlier() if key in keys}) if has_file else 0
        except CostError:  # not a file of rows: it is replaced, as requested
            return
        if n_rows:
            for path in {self.path, self._lines}:
                if path.is_file():
                    path.replace(path.with_name(f"{path.name}.bak"))
            message = (
                f"up to date and computed again: {n_rows:,} row{'s' * (n_rows != 1)}. The file was renamed to "
                f"{self.path.name}.bak. To keep such rows, pass resume=True (--resume)."
            )
            warnings.warn(message, CostWarning, stacklevel=4)

    def _row(self, record: Record) -> tuple[str, ModelRow]:
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
        """Append a row; on return it is in the file, even if this process is killed.

        Raises:
            OSError: if it cannot be written.
        """
        assert self._stream is not None
        try:
            self._stream.write(self._format.line(self._record(key, row)))
            self._stream.flush()
        except OSError as error:
            with suppress(OSError):  # the failed write cannot be flushed either
                self._stream.close()
            raise type(error)(f"{self._lines} cannot be written: {error_text(error)}") from error

    def finish(self, rows: Callable[[], Iterable[tuple[str, ModelRow]]]) -> None:
        """Replace the file by all rows, in order.

        Args:
            rows: returns them, with their keys.

        Raises:
            OSError: if it cannot be written.
        """
        assert self._stream is not None
        self._stream.close()
        if self._is_parquet:
            write_parquet(self.path, self._names, lambda: (self._record(key, row) for key, row in rows()))
            self._lines.unlink()
        elif self.path.is_file():  # a pipe has its rows already
            self._write(self.path, rows())

    def _write(self, path: Path, rows: Iterable[tuple[str, ModelRow]]) -> None:
        lines = (self._format.line(self._record(key, row)) for key, row in rows)
        pieces = chain([self._format.header(self._names)], lines)
        save_pieces((piece.encode("utf-8", "backslashreplace") for piece in pieces), path)

    def _record(self, key: str, row: ModelRow) -> Record:
        values = {**row.plain_arguments, **row.costs, "name": row.name, "status": row.status}
        values |= {"failed": row.failed, "key": key}
        return {name: jsonable(values.get(name)) for name in self._names}


# Columns: quantities, and conventions by their name alone.


DEFAULT_COLUMNS = ("n_params", "flops", "macs", "mread", "mwrite", "activations")
"""The default columns."""

TITLES: Mapping[str, str] = {"n_params": "Params"}
"""Titles that differ from other tables."""


def figure(name: str) -> Quantity:
    """Return the quantity of a column; ``n_params`` counts the whole model here, ``fvcore`` is ``flops@fvcore``.

    Raises:
        ValueError: if there is neither a quantity nor a convention of that name, or if its values are text.
        CostError, OSError: if a file in the name cannot be read.
    """
    if not is_quantity(name):
        from costcore.analyses.conventions.convention import conventions, find_convention

        try:
            find_convention(name)
        except ValueError as error:
            if isinstance(error, CostError):
                raise
            raise ValueError(with_plugin_hint(unknown("column", name, [*numbers(), *conventions()]))) from error
    found = numeric(name if is_quantity(name) else f"flops@{name}")
    if name == "n_params":
        found = quantity("n_params_model")._replace(kind="flops")
    return found._replace(name=name, title=TITLES.get(name, found.title))


def check_columns(columns: Iterable[str] | None) -> tuple[str, ...]:
    """Return the names of the columns of a table; default: :data:`DEFAULT_COLUMNS`.

    Raises:
        TypeError: if ``columns`` is not a list of names.
        ValueError: if it is empty, or contains a name twice or an unknown one.
    """
    if columns is None:
        return DEFAULT_COLUMNS
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise TypeError(f"columns must be a list of names (got {columns!r})")
    chosen = tuple(columns)
    if not all(isinstance(name, str) for name in chosen):
        raise TypeError(f"columns must be a list of names (got {chosen!r})")
    if not chosen:
        raise ValueError(f"columns is empty (expected one or several of {', '.join(numbers())}, or a convention)")
    if twice := [name for i, name in enumerate(chosen) if name in chosen[:i]]:
        raise ValueError(f"column {twice[0]!r} is given twice")
    for name in chosen:
        figure(name)
    return chosen


def figures_of(report: Report, columns: Sequence[str]) -> tuple[dict[str, Dim | float | None], list[str]]:
    """Return the figures of a report by name, None if unknown, and the reasons for unknown figures."""
    values: dict[str, Dim | float | None] = {}
    reasons: list[str] = []
    for name in columns:
        found = figure(name)
        try:
            values[name] = found.total(report.ledger)
            missing = found.missing(report.ledger)
            reasons += [f"{name} is unknown: {'; '.join(missing)}"] if values[name] is None else missing
        except CostError as error:
            values[name] = None
            reasons.append(f"{name} is unknown: {error}")
    return values, reasons


# Lock against a second run that writes the same file.


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Context manager: hold the lock of a file against other runs of this or another process.

    The lock is a file next to ``path``, which the system unlocks when the process ends for any reason. Pipes, terminals
    and systems without such locks are not locked.

    Raises:
        CostError: if another run has it.
        OSError: if the lock cannot be written.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    path = path.resolve()
    if path.exists() and not path.is_file():
        yield
        return
    lock = path.with_name(f".{path.name}.lock")
    while True:
        try:
            held = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise type(error)(f"{path} cannot be written: {error_text(error)}") from error
        try:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise CostError(
                    f"{path} is being written by another run. Wait for it, or name another file."
                ) from error
            if not _is_same_file(held, lock):  # its owner removed it meanwhile
                continue
            try:
                yield
            finally:
                lock.unlink(missing_ok=True)
            return
        finally:
            os.close(held)


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


# Messages to and from the process that computes rows: a length of eight bytes, then the content.


LENGTH = 8

STARTED = b"started"
"""The first reply to a task; the row follows."""


def write_frame(stream: IO[bytes], content: bytes) -> None:
    """Write a message and flush it.

    Raises:
        OSError: if the process at the other end has ended.
    """
    stream.write(len(content).to_bytes(LENGTH, "big") + content)
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes | None:
    """Return the next message, or None if the process at the other end has ended."""
    length = stream.read(LENGTH)
    if len(length) < LENGTH:
        return None
    size = int.from_bytes(length, "big")
    content = stream.read(size)
    return content if len(content) == size else None
