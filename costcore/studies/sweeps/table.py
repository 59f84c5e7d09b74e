"""Tables of models: one row per model, or per variant of a grid; with progress, resumed rows and the Pareto front.

Rows are computed in this process, in several, or on a cluster (:mod:`costcore.studies.sweeps.process`). An interrupted
table resumes from its file: the key of a row identifies model, inputs, options and versions.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import sys
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib.metadata import PackageNotFoundError, entry_points, version
from math import isfinite
from os import PathLike
from pathlib import Path
from time import monotonic
from typing import IO, Any

from costcore._version import __version__
from costcore.api.estimate import MODES, check_target
from costcore.errors import short_repr, unknown
from costcore.ir import Tensor
from costcore.numbers import as_text
from costcore.registry import frontend_for_file, is_saved_report, library_target, specs
from costcore.studies.sweeps.process import Plan, Sources, memory_of
from costcore.studies.sweeps.process import rows as computed_rows
from costcore.studies.sweeps.rows import (
    DEFAULT_COLUMNS,
    ModelRow,
    NamedModel,
    RowFile,
    Rows,
    Settings,
    Variants,
    check_columns,
    figure,
)
from costcore.tables.answer import Content, data_frame
from costcore.tables.columns import in_order
from costcore.tables.html import Axis, Point, scatter, section
from costcore.tables.renderers import in_notebook, progress
from costcore.tables.result import Result, Table
from costcore.text.output import Column


def table(
    models: Iterable[Any] | Mapping[str, Any],
    inputs: Any = None,
    *,
    jobs: int | None = None,
    timeout: float | None = None,
    memory_limit: int | str | None = None,
    output: str | PathLike[str] | None = None,
    resume: bool = False,
    python_path: Sequence[str] = (),
    convention: str | PathLike[str] | None = None,
    columns: Iterable[str] | None = None,
    mode: str | None = None,
    **options: Any,
) -> ModelTable:
    """Compute the costs of several models, one row per model. If a model fails, its row has the error.

    By default, models are counted in this process, so a model can crash it. With ``jobs``, ``timeout`` or
    ``memory_limit``, and on a cluster, they are counted in other processes: if a model ends its process, hangs or fills
    the memory, its row says so.

    Args:
        models: models as for :func:`costcore.estimate`, reports, or targets as on the command line
            (``"torchvision.models:resnet50"``, ``"net.onnx"``, a saved ``"report.json"``). A model may also be a tuple
            ``(name, model)`` or ``(name, model, inputs)``, and ``models`` may be a mapping of names to models.
        inputs: the inputs of all models without inputs of their own. Without any, targets of libraries
            (``"timm:resnet50"``) are counted on their default input, as the status of their row says.
        jobs: the number of processes; -1 is one per core. Default: the setting of ``joblib.parallel_config`` with its
            backend (such as Dask or Ray), or else this process.
        timeout: the seconds that a model may take.
        memory_limit: the memory that the process of a model may allocate, with that of Python and the framework, as
            bytes or ``"2 GiB"`` (Linux).
        output: a ``.jsonl``, ``.csv`` or ``.parquet`` file that every row is written to as it comes.
        resume: reuse the rows of ``output`` that did not fail, if model, inputs, options and versions are the same. A
            file is the same model if its content is the same, and a function if its code is, with all modules that it
            imports. Models given as objects are always counted again.
        python_path: folders to search for the modules of targets, before the current folder.
        convention: the convention by which FLOPs are counted, see :meth:`costcore.Report.under`; default: costcore's.
        columns: the figures to show, in order: any quantity that :func:`costcore.quantities` lists (``"macs"``,
            ``"peak_memory"``, ``"bound_seconds@mine.toml:bfloat16"``), and conventions by their name (``"fvcore"``). An
            option that a figure needs, such as ``memory=True``, is turned on. Default: parameters, FLOPs, MACs, bytes
            read and written, and activations.
        mode: ``"train"`` or ``"evaluation"``: the mode of models that targets and functions make; default: their own
            mode, see :func:`costcore.api.estimate.in_mode`. Models given as objects keep their mode.
        options: further arguments of :func:`costcore.estimate`, the same for all models. Options for files of one type
            (``dims``, ``shapes``, ``regroup``, ``check_shapes``, ``max_nodes``: ``.onnx``) are ignored for other
            targets, except that ``dims`` also applies to saved reports.

    Raises:
        CostError: if ``output`` contains something else, or needs a package that is not installed.
        OSError: if ``output`` cannot be read or written.
        TypeError, ValueError: if an argument is invalid.
    """
    if isinstance(models, (str, bytes)) or not isinstance(models, Iterable):
        raise TypeError(f"models must be a list or mapping of models (got {models!r})")
    if jobs is not None and (isinstance(jobs, bool) or not isinstance(jobs, int) or jobs == 0):
        raise ValueError(f"jobs must be a number of processes, or -1 for one per core (got {jobs!r})")
    if resume and output is None:
        raise ValueError(
            "resume needs the .jsonl, .csv or .parquet file of the earlier run as output (--output rows.jsonl)"
        )
    if mode not in (None, *MODES):
        raise ValueError(unknown("mode", mode, MODES))
    if convention is not None:
        from costcore.analyses.conventions.convention import needs_functions

        options = {"record_api_calls": True, **options} if needs_functions(convention) else options
    settings = Settings(check_columns(columns), convention, list(python_path), options, mode)
    several: Sequence[NamedModel]
    if isinstance(models, Variants):
        several = models
    else:
        several = [_named(model, inputs) for model in (models.items() if isinstance(models, Mapping) else models)]
    plan = Plan(jobs, _seconds(timeout), memory_of(memory_limit))
    return model_table(several, settings, plan, output, resume)


def _named(model: Any, inputs: Any) -> NamedModel:
    if isinstance(model, NamedModel):
        return model
    if isinstance(model, tuple):
        if len(model) not in (2, 3) or not isinstance(model[0], str):
            raise TypeError(f"a tuple in models must be (name, model) or (name, model, inputs) (got {model!r})")
        return NamedModel(model[0], model[1], model[2] if len(model) == 3 else inputs)
    return NamedModel(model if isinstance(model, str) else type(model).__name__, model, inputs)


def _seconds(timeout: object) -> float | None:
    if timeout is None:
        return None
    is_number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
    if not is_number or not isfinite(timeout) or timeout <= 0:  # type: ignore[arg-type, operator]
        raise ValueError(f"timeout must be a positive number of seconds (got {timeout!r})")
    return float(timeout)  # type: ignore[arg-type]


# Sweeps: one row per variant of a model.


def sweep(
    make: Callable[..., Any] | str,
    grid: Mapping[str, Iterable[Any]],
    inputs: Any = None,
    *,
    columns: Iterable[str] | None = None,
    **options: Any,
) -> ModelTable:
    """Compute the costs of all variants made by a function, one row per combination of its arguments.

    For example::

        sweep(make, {"width": [0.5, 0.75, 1.0], "depth": range(2, 20)}, (1, 3, 224, 224), columns=["macs"])

    Args:
        make: a function that takes the arguments by name and returns a model, or its target, ``"nets.py:make"``.
        grid: the values of every argument by its name. The last argument varies fastest.
        inputs: the inputs of all variants, as for :func:`costcore.estimate`, or a function that takes the arguments by
            name and returns the inputs.
        columns: the figures to show, see :func:`costcore.table`.
        options: all further arguments of :func:`costcore.table`: ``jobs``, ``timeout``, ``memory_limit``, ``output``,
            ``resume``, ``convention``, ``python_path``, ``mode``, and those of :func:`costcore.estimate`.

    Returns:
        The table, with the arguments as columns. Continue with ``to_dataframe()`` or ``scatter(x, y, target)``.

    Raises:
        CostError, OSError: if ``output`` cannot be read or written.
        TypeError, ValueError: if an argument is invalid.
    """
    return table(variants(make, grid, inputs), columns=columns, **options)


def variants(
    make: Callable[..., Any] | str, grid: Mapping[str, Iterable[Any]], inputs: Any, name: str | None = None
) -> Variants:
    """Return the models of a grid; arguments as for :func:`sweep`, and ``name``, the name of all variants.

    Raises:
        TypeError, ValueError: if an argument is invalid.
    """
    if isinstance(make, str):
        check_target(make)
        if frontend_for_file(make) or is_saved_report(make):
            raise ValueError(f"cannot sweep a file: pass module:function (got {make!r})")
    elif not callable(make):
        raise TypeError(f"make must be a function that returns a model, or its target (got {short_repr(make)})")
    if name is None:
        name = make if isinstance(make, str) else getattr(make, "__name__", type(make).__name__)
    return Variants(name, make, inputs, checked_grid(grid))


# Grids.


MOST_VARIANTS = 1_000_000
"""The maximum number of combinations of a grid."""


def checked_grid(grid: Mapping[str, Iterable[Any]]) -> dict[str, Sequence[Any]]:
    """Return the values of every argument by its name.

    Raises:
        TypeError: if a name is not a string, or its values are not a list.
        ValueError: if an argument has no values, or if there are more than :data:`MOST_VARIANTS` combinations.
    """
    if not isinstance(grid, Mapping):
        raise TypeError(f"a grid must be a mapping of arguments to lists of values (got {short_repr(grid)})")
    values = {name: _grid_values(name, each) for name, each in grid.items()}
    n = math.prod(map(len, values.values()))
    if n > MOST_VARIANTS:
        raise ValueError(f"the grid has {n:,} combinations (expected at most {MOST_VARIANTS:,})")
    return values


def _grid_values(name: Any, given: Any) -> Sequence[Any]:
    if not isinstance(name, str) or not name.isidentifier():
        raise TypeError(f"an argument of a grid must be a name (got {name!r})")
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise TypeError(f"{name} must be a list of values (got {short_repr(given)})")
    values = given if isinstance(given, (Sequence, range)) else list(given)
    if not len(values):
        raise ValueError(f"{name} has no values, so the grid has no combinations")
    return values


# Computation: keep the rows in the file, compute the others, and write each row as soon as it is computed.


class TableInterrupted(KeyboardInterrupt):
    """Ctrl-C while a table is computed.

    Attributes:
        table: the rows computed so far.
    """

    def __init__(self, table: ModelTable) -> None:
        super().__init__(f"interrupted after {len(table.rows)} models")
        self.table = table


def model_table(
    models: Sequence[NamedModel],
    settings: Settings,
    plan: Plan,
    output: str | PathLike[str] | None,
    resume: bool,
) -> ModelTable:
    """Return the table of these models.

    Args:
        models: the models.
        settings: the settings of all rows.
        plan: how the rows are computed.
        output: the file that the rows are written to; None for none.
        resume: whether to reuse the rows of the file, except failed ones.

    Raises:
        CostError, OSError: if the file cannot be read or written.
        ValueError: if the name of the file or of an argument is invalid.
        TableInterrupted: if Ctrl-C was pressed.
    """
    rows = Rows(models, settings.columns)
    try:
        if output is None:
            _compute(rows, models, settings, plan)
        else:
            with RowFile(output, argument_names(models), settings.columns) as file:
                keys = Keys(map(Identity(settings).key, models))
                if resume:
                    for key, row in file.earlier():
                        for position in keys.positions(key):
                            rows.add(position, row)
                else:
                    file.set_aside(keys)
                file.start((keys[position], rows.at(position)) for position in rows.places)
                _compute(rows, models, settings, plan, lambda position, row: file.add(keys[position], row))
                file.finish(lambda: ((keys[position], rows.at(position)) for position in rows.places))
    except KeyboardInterrupt as error:
        raise TableInterrupted(_table_of(models, rows, settings)) from error
    return _table_of(models, rows, settings)


def _compute(
    rows: Rows,
    models: Sequence[NamedModel],
    settings: Settings,
    plan: Plan,
    add: Callable[[int, ModelRow], None] | None = None,
) -> None:
    left = _Remaining(models, rows)
    with closing(computed_rows(left, settings, plan)) as computed:
        for position, row in with_progress(computed, len(left)):
            rows.add(position, row)
            if add is not None:
                add(position, row)


class _Remaining(Mapping[int, NamedModel]):
    # A view of the models that have no row yet.

    def __init__(self, models: Sequence[NamedModel], rows: Rows) -> None:
        self._models = models
        self._places = array("q", (i for i in range(len(models)) if not rows.has(i)))

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def __getitem__(self, position: int) -> NamedModel:
        return self._models[position]


class Keys:
    """The keys of the rows of a table by position, in 16 bytes each; a dict of a million takes 0.3 GB.

    Args:
        keys: the keys, 32 hexadecimal digits; ``""`` for a model without one.
    """

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests, self._has = bytearray(), bytearray()
        for key in keys:
            self._digests += bytes.fromhex(key or _NO_KEY)
            self._has.append(bool(key))

    def __getitem__(self, position: int) -> str:
        return self._digest(position).hex() if self._has[position] else ""

    def _digest(self, position: int) -> bytes:
        return bytes(self._digests[16 * position : 16 * position + 16])

    @cached_property
    def _order(self) -> array[int]:
        return array("q", sorted((i for i, has in enumerate(self._has) if has), key=self._digest))

    def positions(self, key: str) -> Iterator[int]:
        """Yield the positions of the models with a key."""
        try:
            digest = bytes.fromhex(key)
        except ValueError:
            return
        for i in range(bisect_left(self._order, digest, key=self._digest), len(self._order)):
            if self._digest(self._order[i]) != digest:
                break
            yield self._order[i]

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and next(self.positions(key), None) is not None


_NO_KEY = "0" * 32


def argument_names(models: Sequence[NamedModel]) -> tuple[str, ...]:
    """Return the names of the arguments of all models, in order of first use."""
    if isinstance(models, Variants):
        return tuple(models.grid)
    return tuple(dict.fromkeys(name for named in models for name in named.arguments or ()))


def _table_of(models: Sequence[NamedModel], rows: Rows, settings: Settings) -> ModelTable:
    convention = "" if settings.convention is None else str(settings.convention)
    return ModelTable(rows, convention, settings.columns, argument_names(models))


# Progress: a bar on a terminal, occasional lines in a log.


LINE_SECONDS = 30
"""The seconds between two lines in a log; a table that takes less time has none."""


def with_progress(rows: Iterable[tuple[int, ModelRow]], total: int) -> Iterator[tuple[int, ModelRow]]:
    """Yield the rows, and report their number, rate and failures on standard error."""
    if sys.stderr.isatty() or in_notebook():
        yield from _with_bar(rows, total)
    else:
        yield from with_lines(rows, total, sys.stderr, monotonic)


def _with_bar(rows: Iterable[tuple[int, ModelRow]], total: int) -> Iterator[tuple[int, ModelRow]]:
    failed, bar = 0, progress(rows, "models", total, delay=0.0)
    with closing(bar):
        for position, row in bar:
            if row.failed:
                failed += 1
                bar.set_postfix(failed=failed)
            yield position, row


def with_lines(
    rows: Iterable[tuple[int, ModelRow]], total: int, stream: IO[str], clock: Callable[[], float]
) -> Iterator[tuple[int, ModelRow]]:
    """Yield the rows, and write a line to ``stream`` every :data:`LINE_SECONDS`, and after the last row.

    Args:
        rows: the rows with their positions.
        total: their number.
        stream: where the lines are written.
        clock: returns the time in seconds.
    """
    start = last = clock()
    failed = 0
    for done, (position, row) in enumerate(rows, 1):
        failed += row.failed
        now = clock()
        if now - last >= LINE_SECONDS or (done == total and last > start):
            last = now
            rate = done / (now - start)
            left = f"{_duration((total - done) / rate)} left" if done < total else f"in {_duration(now - start)}"
            print(f"models: {done} of {total}, {failed} failed, {rate:.3g} per second, {left}", file=stream, flush=True)
        yield position, row


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


# Keys of rows: equal for equal model, inputs, options and versions.


MOST_ELEMENTS = 1 << 20
"""The maximum number of elements of an array in a key."""


class NoIdentityError(Exception):
    """A value that cannot be recognized in a later run, such as a model without the code that made it."""


class Identity:
    """Makes the keys of the rows of one run.

    A file is identified by its content, a function by the source of its module and of the modules that it imports,
    installed packages by their version.

    Args:
        settings: the settings of all rows.
    """

    def __init__(self, settings: Settings) -> None:
        self._sources = Sources([*settings.python_path, ""])
        self._targets: dict[str, Any] = {}
        try:
            self._common = [_versions(), self._settings(settings)]
        except NoIdentityError:
            self._common = []

    def key(self, named: NamedModel) -> str:
        """Return the key of the row of a model; empty if the model cannot be recognized in a later run."""
        if not self._common:
            return ""
        try:
            model = self._model(named)
            parts = [*self._common, named.name, model, self._value(named.inputs), self._value(named.arguments)]
        except (NoIdentityError, OSError):  # a file that cannot be read is an error of its row
            return ""
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]

    def _settings(self, settings: Settings) -> Any:
        convention = str(settings.convention)
        rules = self._sources.of_file(Path(convention)) if convention.endswith(".toml") else ""
        options = self._value({**settings.options, "mode": settings.mode})
        files = (name.partition("@")[2] or name for name in settings.columns)  # as `seconds@mine.toml:float16`
        paths = [file[: file.rindex(".toml") + 5] for file in files if ".toml" in file]
        return [convention, rules, list(settings.columns), *map(self._sources.of_file, map(Path, paths)), options]

    def _model(self, named: NamedModel) -> Any:
        if not isinstance(named.model, (str, PathLike)):
            if named.arguments is None:
                raise NoIdentityError
            return self._value(named.model)
        target = str(named.model)
        if target not in self._targets:
            self._targets[target] = self._target(target)
        return self._targets[target]

    def _target(self, target: str) -> Any:
        if library_target(target) is not None:
            raise NoIdentityError
        if frontend_for_file(target) or is_saved_report(target):
            return [target, self._sources.of_file(Path(target))]
        module, _, name = target.rpartition(":")
        if not module:
            raise NoIdentityError  # not a target: the row has the error
        return [name, self._sources.of_module(module)]

    def _value(self, value: Any) -> Any:
        if value is None or isinstance(value, (bool, int, float, str)):
            return [type(value).__name__, repr(value)]
        if isinstance(value, Mapping):
            return ["mapping", [[self._value(key), self._value(each)] for key, each in value.items()]]
        if isinstance(value, (Tensor, range, PathLike)) or type(value).__name__ == "dtype":
            return [type(value).__name__, repr(value)]
        if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview)):
            return [type(value).__name__, [self._value(each) for each in value]]
        if isinstance(value, partial):
            return ["partial", *map(self._value, (value.func, value.args, value.keywords))]
        if inspect.isroutine(value) or inspect.isclass(value):
            return self._function(value)
        return _array(value)

    def _function(self, function: Any) -> Any:
        if inspect.ismethod(function) and not inspect.isclass(function.__self__):
            raise NoIdentityError
        try:
            source = inspect.getsource(function)
            code_of_file = self._sources.of_source(Path(inspect.getsourcefile(function) or ""))
        except (OSError, TypeError) as error:
            raise NoIdentityError from error
        cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
        made_with = [cells, getattr(function, "__defaults__", None), getattr(function, "__kwdefaults__", None)]
        code = getattr(function, "__code__", None)  # differs between two functions on one line
        parts = [function.__qualname__, source, code_of_file, self._value(made_with)]
        return ["function", *parts, code.co_code.hex() if code else ""]


def _array(value: Any) -> Any:
    if not hasattr(value, "dtype") or not hasattr(value, "__array__"):
        raise NoIdentityError
    try:
        array = value.__array__()
    except (RuntimeError, TypeError, ValueError) as error:  # values on a device, or of a type that numpy lacks
        raise NoIdentityError from error
    if array.size > MOST_ELEMENTS or array.dtype.hasobject:
        raise NoIdentityError
    return [str(value.dtype), list(array.shape), hashlib.sha256(array.tobytes()).hexdigest()]


def _versions() -> list[str]:
    versions = [__version__]
    for spec in specs().values():
        try:
            versions.append(f"{spec.framework} {version(spec.framework)}")
        except PackageNotFoundError:
            continue
    plugins = [f"{each.dist.name} {each.dist.version}" for each in entry_points(group="costcore") if each.dist]
    return [*versions, *sorted(plugins)]


# The result.


NAME, STATUS = Column("name", "Model"), Column("status", "Status")


@dataclass(frozen=True, repr=False)
class ModelTable(Result):
    """The costs of several models, one row per model, in the given order.

    Attributes:
        rows: one row per model.
        convention: the convention of FLOPs; empty for costcore's.
        columns: the names of the figures of every row.
        arguments: the names of the arguments of all rows.
        compared: the figures of which the rows are the Pareto front; empty if the table has all rows.
        dominated: the rows that are not on the front.
    """

    rows: Sequence[ModelRow]
    convention: str = ""
    columns: Sequence[str] = DEFAULT_COLUMNS
    arguments: Sequence[str] = ()
    compared: Sequence[str] = ()
    dominated: tuple[ModelRow, ...] = ()

    def __repr__(self) -> str:
        return f"<ModelTable: {self._count}>"

    @property
    def _count(self) -> str:
        n, failed = len(self.rows), len(self.failed)
        return f"{n:,} model{'s' * (n != 1)}" + (f", {failed:,} failed" if failed else "")

    @property
    def failed(self) -> list[ModelRow]:
        """The rows of the models that failed."""
        return [row for row in self.rows if row.failed]

    def show(
        self, ost: IO[str] | None = None, mode: str = "table", unit: str | None = "auto", n_digits: int | None = None
    ) -> None:
        """Write the table, with all of its rows; arguments as for :meth:`costcore.tables.result.Table.show`."""
        if mode in ("json", "html"):
            super().show(ost, mode)
        else:
            self._table.show(ost, mode, unit, n_digits)

    def _text(self, *form: Any, **options: Any) -> str:
        return self._table._text(*form, **options)

    @property
    def _table(self) -> Table:
        columns = [NAME, *map(self._column, (*self.arguments, *self.columns)), STATUS]
        always = ("name", "flops", "macs", "n_params")
        dropped_first = [each for each in reversed([*self.arguments, *self.columns]) if each not in always]
        rows = [*map(_entry, self.rows)]
        return Table("Models", columns, rows, prefix="autoaligned", n_digits=2, dropped_first=dropped_first)

    def _content(self) -> Content:
        whole = len(self.rows) + len(self.dominated)
        title = f"{len(self.rows):,} of {whole:,} models are Pareto-optimal" if self.compared else self._count
        return Content(title, (), [self._table])

    def _pictures(self) -> str:
        rows = [_values(row) for row in (*self.rows, *self.dominated) if not row.failed]
        figures = [name.removeprefix(LARGE) for name in self.compared or self.columns]
        known = [name for name in figures if all(_is_amount(row.get(name)) for row in rows)][:2]
        if len(known) < 2 or len(rows) < 2:
            return ""
        x, y = known
        best = len(self.rows) if self.compared else 0
        points = [
            Point(row[x], row[y], ", ".join(_names(row, self.arguments)).rpartition("/")[2], i < best)
            for i, row in enumerate(rows)
        ]
        axes = [Axis(column.title, column.kind) for column in map(self._column, known)]
        return section(f"{axes[1].title} over {axes[0].title}", scatter(points, *axes))

    def to_dataframe(self) -> Any:
        """Return a ``pandas.DataFrame`` with one row per model: name, arguments, figures, ``status`` and ``failed``.

        Raises:
            CostError: if pandas is not installed.
        """
        names = ["name", *self.arguments, *self.columns, "status", "failed"]
        return data_frame({name: [_values(row).get(name) for row in self.rows] for name in names})

    def scatter(self, x: str, y: str, target: str | PathLike[str], color: str | None = None) -> None:
        """Draw one column over another, a point per model, to an SVG, PNG or PDF file, with the Pareto front.

        The front has the Pareto-optimal points (smaller is better), or all rows of the result of :meth:`pareto`.
        Points of the front, or all of up to 20 points, are labeled with the name of their model or its arguments.

        Args:
            x: the name of a figure, or of an argument with numbers.
            y: the same for the vertical axis.
            target: the path of the file; its suffix is the format.
            color: the same for the colors of the points; default: one color.

        Raises:
            CostError: if matplotlib is not installed, or if no row has numbers for both.
            OSError: if the file cannot be written.
            ValueError: if there is no such column, or if the suffix is unknown.
        """
        from costcore.tables.pictures import Axis, check_suffix, draw, save_figure

        known = [*self.arguments, *self.columns]
        if missing := [name for name in (x, y, color or x) if name not in known]:
            raise ValueError(unknown("column", missing, known))
        rows = [_values(row) for row in (*self.rows, *self.dominated) if not row.failed]
        axes = {name: Axis(self._column(name), [row.get(name) for row in rows]) for name in (x, y, color or x)}
        best = [*range(len(self.rows))] if self.compared else front(rows, (x, y))
        suffix = check_suffix(target)
        names = [", ".join(_names(row, self.arguments)) for row in rows]
        models = dict.fromkeys(str(row["name"]) for row in rows)
        name = next(iter(models)).rpartition("/")[2] if len(models) == 1 else f"{len(rows):,} models"
        title = f"{name} by {', '.join(self.arguments)}" if self.arguments else name
        shades = None if color is None else axes[color]
        figure = draw(axes[x], axes[y], names=names, color=shades, best=best, title=title)
        save_figure(figure, target, suffix)

    def save(self, path: str | PathLike[str]) -> None:
        """Write a file as every result does; the picture of a front is the scatter plot of its first two figures."""
        from costcore.tables.pictures import SUFFIXES as PICTURES

        if len(self.compared) > 1 and Path(path).suffix in PICTURES:
            x, y, *_ = (name.removeprefix(LARGE) for name in self.compared)
            self.scatter(x, y, path)
        else:
            super().save(path)

    def pareto(self, *names: str) -> ModelTable:
        """Return the Pareto-optimal rows by some figures.

        Args:
            names: figures, or arguments with numbers, to minimize: ``"macs", "peak_memory"``; with a minus sign before
                the name, ``"-n_params"``, to maximize.

        Raises:
            ValueError: if there is no such column.
        """
        known = [*self.arguments, *self.columns]
        if missing := [name for name in names if name.removeprefix(LARGE) not in known]:
            raise ValueError(unknown("column", missing, known))
        rows = [row for row in self.rows if not row.failed]
        best = front([*map(_values, rows)], names)
        dominated = tuple(row for i, row in enumerate(rows) if i not in set(best))
        return replace(self, rows=tuple(rows[i] for i in best), compared=names, dominated=dominated)

    def sorted(self, name: str) -> ModelTable:
        """Return the rows in the order of a column: numbers from the largest, text alphabetically; failed rows last.

        Args:
            name: a figure, an argument, ``"name"`` or ``"status"``.

        Raises:
            ValueError: if there is no such column.
        """
        known = [*LABELS, *self.arguments, *self.columns]
        if name not in known:
            raise ValueError(unknown("column", name, known))
        values = [_values(row).get(name) for row in self.rows if not row.failed]
        column = Column(name, name, "count" if all(map(_is_amount, values)) else "text")
        rows = in_order(self.rows, column, _values)
        return replace(self, rows=tuple(sorted(rows, key=lambda row: row.failed)))

    def _column(self, name: str) -> Column:
        if name in self.arguments:
            return Column(name, name)
        column = figure(name).column
        if name == "flops" and self.convention:
            from costcore.analyses.conventions.convention import UNIT_NAMES, find_convention

            return column._replace(title=f"{UNIT_NAMES[find_convention(self.convention).unit]} ({self.convention})")
        return column


def _values(row: ModelRow) -> dict[str, Any]:
    return {
        **(row.arguments or {}),
        **row.costs,
        "name": row.name,
        "status": row.status,
        "failed": row.failed,
    }


def _names(row: Mapping[str, Any], arguments: Sequence[str]) -> list[str]:
    return [str(row[name]) for name in arguments if name in row] or [str(row["name"])]


def _is_amount(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _entry(row: ModelRow) -> dict[str, Any]:
    status = f"failed: {row.status}" if row.failed else row.status
    arguments = {name: as_text(value) for name, value in row.plain_arguments.items()}
    figures = {name: value for name, value in row.costs.items() if value is not None}
    return {**arguments, **figures, "name": row.name, "status": status}


# The Pareto front.


LABELS = ("name", "status")
"""The columns of every table besides its arguments and figures."""

LARGE = "-"
"""The prefix of figures to maximize."""


def front(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[int]:
    """Return the positions of the rows that no other row dominates, in order.

    A row dominates another one if it is at least as good in every figure, and better in one. Rows without a number for
    one of the figures are not part of the front; of equal rows, all are.

    Args:
        rows: values by name.
        names: the figures to minimize; with :data:`LARGE` before the name, to maximize.
    """
    points: dict[int, tuple[Any, ...]] = {}
    for i, row in enumerate(rows):
        values: list[Any] = [row.get(name.removeprefix(LARGE)) for name in names]
        if all(map(_is_amount, values)):
            points[i] = tuple(
                -value if name.startswith(LARGE) else value for name, value in zip(names, values, strict=True)
            )
    best: list[tuple[Any, ...]] = []
    found = []
    for i in sorted(points, key=points.__getitem__):  # a row is dominated only by one before it
        point = points[i]
        if not any(other != point and all(a <= b for a, b in zip(other, point, strict=True)) for other in best):
            best.append(point)
            found.append(i)
    return sorted(found)
