"""Many models in one table, each read in its own process."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass
from typing import IO, Any, NamedTuple, TypeAlias

from costcore.api.estimate import estimate
from costcore.api.load_model import load_model, looking_in
from costcore.dims import Dim
from costcore.errors import CostError, CostWarning
from costcore.registry.frontends import fitting
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


class Row(NamedTuple):
    """One model of a table.

    Attributes:
        name: what it is called.
        costs: ``n_params``, ``flops``, ``macs``, ``mread``, ``mwrite`` and ``activations`` (bytes of what
            the counted calls of the forward pass write); empty where it failed.
        status: ``complete``, ``partial`` with the unknown operators, or why it failed.
        failed: whether it did.
    """

    name: str
    costs: Mapping[str, Dim]
    status: str
    failed: bool = False


@dataclass(frozen=True)
class Table:
    """Costs of models, one row each, in the order they were given."""

    rows: tuple[Row, ...]

    @property
    def failed(self) -> list[Row]:
        """The rows that could not be told."""
        return [row for row in self.rows if row.failed]

    def show(
        self,
        ost: IO[str] | None = None,
        mode: str = "table",
        unit: str | None = "autoaligned",
        n_digits: int | None = 2,
    ) -> None:
        """Write it to a stream, standard output where none is given; ``mode``, ``unit`` and ``n_digits`` as in reports.

        Raises:
            TypeError, ValueError: for an argument that is not accepted; says what is.
        """
        good = [{"name": row.name, "status": row.status, **row.costs} for row in self.rows if not row.failed]
        table = tabulate(COLUMNS, good, unit, n_digits, fixed=mode == "table")
        told = iter(table.rows)
        blank = [""] * (len(COLUMNS) - 2)
        rows = [[row.name, *blank, f"failed: {row.status}"] if row.failed else next(told) for row in self.rows]
        writable(ost or sys.stdout).write(rendered(table._replace(rows=rows), mode))


Named: TypeAlias = "tuple[str, Any, Any]"


def table(
    models: Iterable[Any] | Mapping[str, Any],
    inputs: Any = None,
    *,
    jobs: int | None = None,
    python_path: Sequence[str] = (),
    **options: Any,
) -> Table:
    """The costs of many models, one row each; a model that fails has a row that says why.

    Args:
        models: models as for :func:`costcore.estimate`, reports, or targets as on the command line
            (``"torchvision.models:resnet50"``, ``"net.onnx"``, a saved ``"report.json"``), which are loaded in the
            process that reads them; each may be a tuple ``(name, model)`` or ``(name, model, inputs)``. A mapping
            gives the names.
        inputs: what models are run on that say nothing else.
        jobs: processes at work, by joblib (``pip install "costcore[parallel]"``); -1 is one a core. Where not given,
            what ``joblib.parallel_config`` says, with whatever backend (Dask, Ray) it names, else one after the other
            in this process.
        python_path: folders where targets look for modules before the current one.
        options: further arguments of :func:`costcore.estimate`, the same for all; what only files of one kind take
            (``dims``, ``shapes``, ``regroup``, ``check_shapes``: ``.onnx``) other targets are not given, but saved
            reports with symbols are given ``dims``.

    Raises:
        CostError: where ``jobs`` asks for processes and joblib is not installed.
        TypeError, ValueError: for an argument that is not accepted; says what is.
    """
    if isinstance(models, (str, bytes)) or not isinstance(models, Iterable):
        raise TypeError(f"models must be a list of models, got {models!r}")
    if jobs is not None and (isinstance(jobs, bool) or not isinstance(jobs, int) or jobs == 0):
        raise ValueError(f"jobs must be a number of processes, or -1 for one a core, got {jobs!r}")
    named = [_named(model, inputs) for model in (models.items() if isinstance(models, Mapping) else models)]
    rows = dict(_progress(_rows(named, jobs, list(python_path), options), len(named)))
    return Table(tuple(rows[position] for position in range(len(named))))


def _named(model: Any, inputs: Any) -> Named:
    if isinstance(model, tuple):
        if len(model) not in (2, 3) or not isinstance(model[0], str):
            raise TypeError(f"a model in a tuple is (name, model) or (name, model, inputs), got {model!r}")
        return model[0], model[1], model[2] if len(model) == 3 else inputs
    return str(model) if isinstance(model, str) else type(model).__name__, model, inputs


def _rows(
    named: Sequence[Named], jobs: int | None, python_path: list[str], options: Mapping[str, Any]
) -> Iterator[tuple[int, Row]]:
    """Every row with its position, as they become known."""
    tasks = [(position, *one, python_path, options) for position, one in enumerate(named)]
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
                yield _alone(joblib, task)


def _joblib(jobs: int | None) -> Any:
    """joblib, where it is wanted and there."""
    if jobs == 1:
        return None
    try:
        import joblib
    except ImportError as error:
        if jobs is None:
            return None
        raise CostError(
            f'jobs={jobs} needs joblib, which cannot be imported ({error}); pip install "costcore[parallel]"'
        ) from error
    return joblib


def _in_parallel(joblib: Any, jobs: int | None, tasks: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, Row]]:
    backend, _ = joblib.parallel.get_active_backend()
    as_they_come = "generator_unordered" if backend.supports_return_generator else "list"
    call: Callable[..., Any] = joblib.delayed(_row)
    yield from joblib.Parallel(n_jobs=jobs, return_as=as_they_come)(call(*task) for task in tasks)


def _alone(joblib: Any, task: tuple[Any, ...]) -> tuple[int, Row]:
    """A task by itself in a process that it may take down with it: one of those at work did."""
    try:
        return next(iter(_in_parallel(joblib, 2, [task])))
    except BrokenExecutor as error:
        reason = str(error).splitlines()[0]
        return task[0], Row(task[1], {}, f"the process that read it ended (out of memory?): {reason}", failed=True)


def _row(
    position: int, name: str, model: Any, inputs: Any, python_path: Sequence[str], options: Mapping[str, Any]
) -> tuple[int, Row]:
    """One row, in whatever process this runs."""
    try:
        with looking_in(python_path, model), warnings.catch_warnings():
            warnings.simplefilter("ignore", CostWarning)  # the row says what is unknown
            report = _report(model, inputs, options)
    except Exception as error:  # whatever a model does, the others have their rows
        words = str(error) if isinstance(error, CostError) else f"{type(error).__name__}: {error}"
        return position, Row(name, {}, words, failed=True)
    total = report.total_report
    costs = {key: total[key] for key in ("flops", "macs", "mread", "mwrite")}
    forward = [(call, cost) for call, cost, *_ in report.trace if call.phase == "forward"]
    activations = sum(memory(call, cost) for call, cost in forward if cost is not None)
    n_params = total.get("n_params_model", total["n_params"])
    return position, Row(name, {"n_params": n_params, **costs, "activations": activations}, status(report))


def _report(model: Any, inputs: Any, options: Mapping[str, Any]) -> Report:
    if isinstance(model, Report):
        return model
    if not isinstance(model, str):
        return estimate(model, inputs, **options)
    if model.endswith(".json"):
        return saved_report(model, options.get("fma_1flop", True), options.get("dims"))
    return estimate(load_model(model), inputs, **fitting(model, options))


def _progress(rows: Iterable[tuple[int, Row]], total: int) -> Iterable[tuple[int, Row]]:
    if not sys.stderr.isatty():
        return rows
    from tqdm import tqdm

    bar: Iterable[tuple[int, Row]] = tqdm(rows, desc="models", total=total, leave=False, file=sys.stderr)
    return bar
