"""Tables with one row per model, optionally computed in parallel."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass
from os import PathLike
from typing import IO, Any, NamedTuple, TypeAlias

from costcore.api.estimate import estimate
from costcore.api.load_model import evaluate, load_model, module_search_path
from costcore.counting.conventions.catalog import named
from costcore.counting.conventions.view import UNIT_NAMES
from costcore.dims import Dim
from costcore.errors import CostError, CostWarning
from costcore.registry.frontends import applicable_options
from costcore.reports.columns import Column
from costcore.reports.exports.facts import status
from costcore.reports.ledger import memory
from costcore.reports.report import Report
from costcore.reports.serialization.saved import saved_report
from costcore.reports.serialization.targets import writable
from costcore.reports.tables.renderers import rendered
from costcore.reports.tables.tabulate import tabulate

COLUMNS = (
    Column("name", "Model"),
    Column("n_params", "Params", "flops"),
    Column("flops", "FLOPs", "flops"),
    Column("macs", "MACs", "flops"),
    Column("mread", "MemRead", "bytes"),
    Column("mwrite", "MemWrite", "bytes"),
    Column("activations", "Activations", "bytes"),
    Column("status", "Status"),
)


class ModelRow(NamedTuple):
    """The row of one model.

    Attributes:
        name: the name of the model.
        costs: ``n_params``, ``flops``, ``macs``, ``mread``, ``mwrite`` and ``activations`` (bytes of the outputs of the
            counted calls in the forward pass); empty if the model failed.
        status: ``complete``, ``partial`` with the operators that are not counted, or the error if the model failed.
        failed: True if the costs of the model could not be computed.
    """

    name: str
    costs: Mapping[str, Dim]
    status: str
    failed: bool = False


@dataclass(frozen=True)
class ModelTable:
    """The costs of several models, one row per model, in the given order.

    Attributes:
        rows: one row per model.
        convention: the convention by which FLOPs are counted; empty for that of costcore.
    """

    rows: tuple[ModelRow, ...]
    convention: str = ""

    @property
    def failed(self) -> list[ModelRow]:
        """The rows of the models that failed."""
        return [row for row in self.rows if row.failed]

    def show(
        self,
        ost: IO[str] | None = None,
        mode: str = "table",
        unit: str | None = "autoaligned",
        n_digits: int | None = 2,
    ) -> None:
        """Write the table to a stream.

        Args:
            ost: the stream; default: standard output.
            mode: see :meth:`Report.show_report`.
            unit: see :meth:`Report.show_report`.
            n_digits: see :meth:`Report.show_report`.

        Raises:
            TypeError, ValueError: if an argument is invalid.
        """
        entries = [{"name": row.name, "status": row.status, **row.costs} for row in self.rows if not row.failed]
        titles = {"flops": f"{UNIT_NAMES[named(self.convention).unit]} ({self.convention})"} if self.convention else {}
        columns = [column._replace(title=titles.get(column.key, column.title)) for column in COLUMNS]
        table = tabulate(columns, entries, unit, n_digits, fixed=mode == "table")
        counted = iter(table.rows)
        blank = [""] * (len(COLUMNS) - 2)
        rows = [[row.name, *blank, f"failed: {row.status}"] if row.failed else next(counted) for row in self.rows]
        writable(ost or sys.stdout).write(rendered(table._replace(rows=rows), mode))


NamedModel: TypeAlias = "tuple[str, Any, Any]"
"""Name, model and inputs."""


def table(
    models: Iterable[Any] | Mapping[str, Any],
    inputs: Any = None,
    *,
    jobs: int | None = None,
    python_path: Sequence[str] = (),
    convention: str | PathLike[str] | None = None,
    **options: Any,
) -> ModelTable:
    """Compute the costs of several models, one row per model. If a model fails, its row has the error.

    Args:
        models: models as for :func:`costcore.estimate`, reports, or targets as on the command line
            (``"torchvision.models:resnet50"``, ``"net.onnx"``, a saved ``"report.json"``). A model may also be a tuple
            ``(name, model)`` or ``(name, model, inputs)``, and ``models`` may be a mapping of names to models.
        inputs: the inputs of all models without inputs of their own.
        jobs: the number of processes, by joblib (``pip install joblib``); -1 is one per core. Default: the setting of
            ``joblib.parallel_config``, with its backend (such as Dask or Ray), or else no parallelism.
        python_path: folders to search for the modules of targets, before the current folder.
        convention: the convention by which FLOPs are counted, see :meth:`costcore.Report.under`; default: costcore's.
        options: further arguments of :func:`costcore.estimate`, the same for all models. Options for files of one type
            (``dims``, ``shapes``, ``regroup``, ``check_shapes``, ``max_nodes``: ``.onnx``) are ignored for other
            targets, except that ``dims`` also applies to saved reports.

    Raises:
        CostError: if ``jobs`` is given and joblib is not installed.
        TypeError, ValueError: if an argument is invalid.
    """
    if isinstance(models, (str, bytes)) or not isinstance(models, Iterable):
        raise TypeError(f"models must be a list or mapping of models (got {models!r})")
    if jobs is not None and (isinstance(jobs, bool) or not isinstance(jobs, int) or jobs == 0):
        raise ValueError(f"jobs must be a number of processes, or -1 for one per core (got {jobs!r})")
    rules = None if convention is None else named(convention)
    if rules is not None and rules.needs_functions:
        options = {"spelled": True, **options}
    several = [_named(model, inputs) for model in (models.items() if isinstance(models, Mapping) else models)]
    tasks = _rows(several, jobs, list(python_path), {"convention": convention, **options})
    rows = dict(_progress(tasks, len(several)))
    ordered = tuple(rows[position] for position in range(len(several)))
    return ModelTable(ordered, "" if rules is None else str(convention))


def _named(model: Any, inputs: Any) -> NamedModel:
    if isinstance(model, tuple):
        if len(model) not in (2, 3) or not isinstance(model[0], str):
            raise TypeError(f"a tuple in models must be (name, model) or (name, model, inputs) (got {model!r})")
        return model[0], model[1], model[2] if len(model) == 3 else inputs
    return str(model) if isinstance(model, str) else type(model).__name__, model, inputs


def _rows(
    named: Sequence[NamedModel], jobs: int | None, python_path: list[str], options: Mapping[str, Any]
) -> Iterator[tuple[int, ModelRow]]:
    """Yield every row with its position, in the order in which they are finished."""
    tasks = [(position, *model, python_path, options) for position, model in enumerate(named)]
    joblib = _joblib(jobs)
    if joblib is None:
        yield from (_row(*task) for task in tasks)
        return
    done = set()
    try:
        for position, row in _in_parallel(joblib, jobs, tasks):
            done.add(position)
            yield position, row
    except BrokenExecutor:
        for task in tasks:
            if task[0] not in done:
                yield _in_own_process(joblib, task)


def _joblib(jobs: int | None) -> Any:
    """Return joblib, or None if it is not needed or, without ``jobs``, not installed."""
    if jobs == 1:
        return None
    try:
        import joblib
    except ImportError as error:
        if jobs is None:
            return None
        raise CostError(
            f"jobs={jobs} needs joblib, which cannot be imported ({error}). Run pip install joblib."
        ) from error
    return joblib


def _in_parallel(joblib: Any, jobs: int | None, tasks: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, ModelRow]]:
    backend, _ = joblib.parallel.get_active_backend()
    return_as = "generator_unordered" if backend.supports_return_generator else "list"
    call: Callable[..., Any] = joblib.delayed(_row)
    yield from joblib.Parallel(n_jobs=jobs, return_as=return_as)(call(*task) for task in tasks)


def _in_own_process(joblib: Any, task: tuple[Any, ...]) -> tuple[int, ModelRow]:
    """Run one task in a process of its own, after one of several parallel tasks ended its process."""
    try:
        return next(iter(_in_parallel(joblib, 2, [task])))
    except BrokenExecutor as error:
        reason = str(error).splitlines()[0]
        return task[0], ModelRow(
            task[1], {}, f"the process of this model ended (out of memory?): {reason}", failed=True
        )


def _row(
    position: int, name: str, model: Any, inputs: Any, python_path: Sequence[str], options: Mapping[str, Any]
) -> tuple[int, ModelRow]:
    """Return the row of one model with its position. This may run in another process."""
    try:
        with module_search_path(python_path, model), warnings.catch_warnings():
            warnings.simplefilter("ignore", CostWarning)  # the row lists the operators that are not counted
            convention, others = options["convention"], {k: v for k, v in options.items() if k != "convention"}
            report = _report(model, inputs, others, as_published=convention is not None)
            flops = {} if convention is None else {"flops": report.under(convention).total}
    except Exception as error:  # a failing model must not affect the rows of the others
        message = str(error) if isinstance(error, CostError) else f"{type(error).__name__}: {error}"
        return position, ModelRow(name, {}, message, failed=True)
    total = report.total_report
    costs = {key: total[key] for key in ("flops", "macs", "mread", "mwrite")}
    forward = [(call, cost) for call, cost, *_ in report.trace if call.phase == "forward"]
    activations = sum(memory(call, cost) for call, cost in forward if cost is not None)
    n_params = total.get("n_params_model", total["n_params"])
    return position, ModelRow(
        name, {"n_params": n_params, **costs, **flops, "activations": activations}, status(report)
    )


def _report(model: Any, inputs: Any, options: Mapping[str, Any], as_published: bool) -> Report:
    if isinstance(model, Report):
        return model
    if not isinstance(model, str):
        return estimate(model, inputs, **options)
    if model.endswith(".json"):
        return saved_report(model, options.get("fma_1flop", True), options.get("dims"))
    loaded = load_model(model)
    if as_published and not options.get("backward"):
        evaluate(loaded)
    return estimate(loaded, inputs, **applicable_options(model, options))


def _progress(rows: Iterable[tuple[int, ModelRow]], total: int) -> Iterable[tuple[int, ModelRow]]:
    if not sys.stderr.isatty():
        return rows
    from tqdm import tqdm

    bar: Iterable[tuple[int, ModelRow]] = tqdm(rows, desc="models", total=total, leave=False, file=sys.stderr)
    return bar
