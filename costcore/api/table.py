"""Tables with one row per model, optionally computed in parallel."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from os import PathLike
from typing import Any

from costcore.counting.conventions.catalog import named
from costcore.errors import CostError
from costcore.sweeps.figures import check_columns
from costcore.sweeps.model_table import ModelTable
from costcore.sweeps.row import ModelRow, NamedModel, Settings, row_of


def table(
    models: Iterable[Any] | Mapping[str, Any],
    inputs: Any = None,
    *,
    jobs: int | None = None,
    python_path: Sequence[str] = (),
    convention: str | PathLike[str] | None = None,
    columns: Iterable[str] | None = None,
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
        columns: the figures to show, in order: names in :data:`costcore.sweeps.figures.FIGURES` (``"macs"``,
            ``"peak_memory"``), and conventions (``"fvcore"``). An option that a figure needs, such as ``memory=True``,
            is turned on. Default: parameters, FLOPs, MACs, bytes read and written, and activations.
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
    settings = Settings(check_columns(columns), convention, list(python_path), options)
    several = [_named(model, inputs) for model in (models.items() if isinstance(models, Mapping) else models)]
    rows = dict(_progress(_rows(several, jobs, settings), len(several)))
    ordered = tuple(rows[position] for position in range(len(several)))
    return ModelTable(ordered, "" if rules is None else str(convention), settings.columns)


def _named(model: Any, inputs: Any) -> NamedModel:
    if isinstance(model, tuple):
        if len(model) not in (2, 3) or not isinstance(model[0], str):
            raise TypeError(f"a tuple in models must be (name, model) or (name, model, inputs) (got {model!r})")
        return NamedModel(model[0], model[1], model[2] if len(model) == 3 else inputs)
    return NamedModel(model if isinstance(model, str) else type(model).__name__, model, inputs)


def _rows(models: Sequence[NamedModel], jobs: int | None, settings: Settings) -> Iterator[tuple[int, ModelRow]]:
    """Yield every row with its position, in the order in which they are finished."""
    tasks = [(position, model, settings) for position, model in enumerate(models)]
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
            task[1].name, {}, f"the process of this model ended (out of memory?): {reason}", failed=True
        )


def _row(position: int, model: NamedModel, settings: Settings) -> tuple[int, ModelRow]:
    """Return the row of one model with its position. This may run in another process."""
    return position, row_of(model, settings)


def _progress(rows: Iterable[tuple[int, ModelRow]], total: int) -> Iterable[tuple[int, ModelRow]]:
    if not sys.stderr.isatty():
        return rows
    from tqdm import tqdm

    bar: Iterable[tuple[int, ModelRow]] = tqdm(rows, desc="models", total=total, leave=False, file=sys.stderr)
    return bar
