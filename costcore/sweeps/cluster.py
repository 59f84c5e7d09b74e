"""Rows that are computed by the workers of a backend of joblib, such as those of a Dask or Ray cluster."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from costcore.sweeps.row import ModelRow, NamedModel
from costcore.sweeps.tasks import Task, compute

WORKER_LOST = {"BrokenExecutor", "KilledWorker", "RayActorError"}
"""The exceptions of joblib's own backends, of Dask and of Ray if the process of a worker has ended."""

PER_WORKER = 4
"""Models per worker: in a batch of a backend that returns batches, and computed alone after a worker was lost."""


def configured_joblib() -> Any:
    """Return joblib if ``joblib.parallel_config`` is active in this thread, else None."""
    joblib = sys.modules.get("joblib")
    if joblib is None:
        return None
    backend, n_jobs = joblib.parallel.get_active_backend()
    return None if n_jobs is None and type(backend).__name__ == "LokyBackend" else joblib


def rows_on_cluster(
    joblib: Any, models: Mapping[int, NamedModel], task_of: Callable[[int, NamedModel], Task], jobs: int | None
) -> Generator[tuple[int, ModelRow], None, None]:
    """Yield the rows from the workers of the active backend.

    After a worker was lost, some of the models without a row are computed alone, because one of them may be the reason;
    if it is, its row says so.
    """
    left = dict(models)
    while left:
        tasks = (task_of(position, named) for position, named in list(left.items()))
        try:
            for position, row in _in_parallel(joblib, tasks, jobs):
                del left[position]
                yield position, row
        except Exception as error:
            if not _is_worker_lost(error):
                raise
            for position in list(left)[: PER_WORKER * _n_workers(joblib, jobs)]:
                yield _alone(joblib, task_of(position, left.pop(position)), jobs)


def _in_parallel(joblib: Any, tasks: Iterable[Task], jobs: int | None) -> Iterator[tuple[int, ModelRow]]:
    """Yield rows as they are finished, or in batches if the backend cannot return single ones."""
    call = joblib.delayed(compute)
    backend, _ = joblib.parallel.get_active_backend()
    if backend.supports_return_generator:
        parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
        yield from parallel(call(task) for task in tasks)
        return
    tasks = iter(tasks)
    with joblib.Parallel(n_jobs=jobs, batch_size=1) as parallel:
        while batch := [*islice(tasks, PER_WORKER * _n_workers(joblib, jobs))]:
            yield from parallel(call(task) for task in batch)


def _alone(joblib: Any, task: Task, jobs: int | None) -> tuple[int, ModelRow]:
    """Return the row of one task while no other is computed."""
    try:
        return next(iter(_in_parallel(joblib, [task], jobs)))
    except Exception as error:
        if not _is_worker_lost(error):
            raise
        reason = str(error).splitlines()[0]
        status = f"the worker of this model ended (out of memory?): {type(error).__name__}: {reason}"
        return task.position, ModelRow(task.name, {}, status, failed=True)


def _is_worker_lost(error: Exception) -> bool:
    return any(base.__name__ in WORKER_LOST for base in type(error).__mro__)


def _n_workers(joblib: Any, jobs: int | None) -> int:
    _, configured = joblib.parallel.get_active_backend()
    n: int = joblib.effective_n_jobs(configured if jobs is None else jobs)
    return max(1, n)
