"""Rows that are computed by the workers of a backend of joblib, such as those of a Dask or Ray cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeAlias

from costcore.studies.sweeps.row import ModelRow, NamedModel
from costcore.studies.sweeps.task import Task
from costcore.studies.sweeps.tasks import compute

Numbered: TypeAlias = "tuple[int, ModelRow]"
"""A row with its position in the table."""

Models: TypeAlias = "Mapping[int, NamedModel]"
Tasks: TypeAlias = "Callable[[int, NamedModel], Task]"
"""A function that returns a model and its position as a task."""

PER_WORKER = 4
"""Tasks per worker that are sent ahead, and that are computed alone after a worker was lost."""

WORKER_LOST = {"BrokenExecutor", "KilledWorker", "RayActorError", "WorkerCrashedError"}
"""The exceptions of joblib, Dask and Ray if the process of a worker has ended."""

SAFE_PATH = "PYTHONSAFEPATH"
"""The variable by which Python does not put the current folder on the search path."""


def configured_joblib() -> Any:
    """Return joblib if ``joblib.parallel_config`` is active in this thread, else None."""
    joblib = sys.modules.get("joblib")
    if joblib is None:
        return None
    backend, n_jobs = joblib.parallel.get_active_backend()
    return None if n_jobs is None and type(backend).__name__ == "LokyBackend" else joblib


def rows_on_cluster(joblib: Any, models: Models, task_of: Tasks, jobs: int | None) -> Generator[Numbered, None, None]:
    """Yield the rows from the workers of the active backend; a model whose worker was lost has a row that says so."""
    backend, configured = joblib.parallel.get_active_backend()
    jobs = jobs or configured or -1  # some backends take None as one worker
    n_workers = max(1, joblib.effective_n_jobs(jobs))
    name = type(backend).__name__
    if name == "DaskDistributedBackend":
        yield from _by_dask(backend.client, models, task_of, PER_WORKER * n_workers)
    elif name == "RayBackend":
        yield from _by_ray(models, task_of, PER_WORKER * n_workers)
    else:
        with isolated_workers():
            yield from _by_joblib(joblib, models, task_of, jobs, PER_WORKER * n_workers)


@contextmanager
def isolated_workers() -> Iterator[None]:
    """Let Python processes that a library starts meanwhile not search the current folder (from Python 3.11 on).

    Those of joblib and multiprocessing begin with ``-m`` or ``-c``, and get the search path of this process later.
    """
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(SAFE_PATH, None)
        else:
            os.environ[SAFE_PATH] = before


def _by_dask(client: Any, models: Models, task_of: Tasks, ahead: int) -> Iterator[Numbered]:
    """Yield the rows from a Dask cluster, whose client is asked directly: joblib waits for ever for a lost task."""
    from distributed import as_completed

    waiting = iter(models.items())
    names: dict[Any, tuple[int, str]] = {}

    def send(some: Iterable[tuple[int, NamedModel]]) -> list[Any]:
        futures = []
        for position, named in some:
            futures.append(client.submit(compute, task_of(position, named), pure=False))
            names[futures[-1].key] = position, named.name
        return futures

    running = as_completed(send(islice(waiting, ahead)))
    try:
        for future in running:
            running.update(send(islice(waiting, 1)))
            position, name = names.pop(future.key)
            error = future.exception()
            yield future.result() if error is None else (position, _lost(name, error))
    finally:
        client.cancel(list(running.futures))


def _by_ray(models: Models, task_of: Tasks, ahead: int) -> Iterator[Numbered]:
    """Yield the rows from a Ray cluster, which is asked directly for the same reason."""
    import ray

    waiting = iter(models.items())
    remote = ray.remote(compute)
    running: dict[Any, tuple[int, str]] = {}
    try:
        while True:
            for position, named in islice(waiting, ahead - len(running)):
                running[remote.remote(task_of(position, named))] = position, named.name
            if not running:
                return
            (done,), _ = ray.wait(list(running), num_returns=1)
            position, name = running.pop(done)
            try:
                yield ray.get(done)
            except ray.exceptions.RayError as error:
                yield position, _lost(name, error)
    finally:
        for reference in running:
            ray.cancel(reference)


def _by_joblib(joblib: Any, models: Models, task_of: Tasks, jobs: int | None, ahead: int) -> Iterator[Numbered]:
    """Yield the rows from another backend.

    After a worker was lost, some of the models without a row are computed alone, because one of them may be the reason.
    """
    left = dict(models)
    while left:
        tasks = (task_of(position, named) for position, named in list(left.items()))
        try:
            for position, row in _in_parallel(joblib, tasks, jobs, ahead):
                del left[position]
                yield position, row
        except Exception as error:
            if not _is_worker_lost(error):
                raise
            for position in list(left)[:ahead]:
                yield _alone(joblib, task_of(position, left.pop(position)), jobs)


def _in_parallel(joblib: Any, tasks: Iterable[Task], jobs: int | None, ahead: int) -> Iterator[Numbered]:
    """Yield rows as they are finished, or in batches if the backend cannot return single ones."""
    call = joblib.delayed(compute)
    backend, _ = joblib.parallel.get_active_backend()
    if backend.supports_return_generator:
        parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
        yield from parallel(call(task) for task in tasks)
        return
    tasks = iter(tasks)
    with joblib.Parallel(n_jobs=jobs, batch_size=1) as parallel:
        while batch := [*islice(tasks, ahead)]:
            yield from parallel(call(task) for task in batch)


def _alone(joblib: Any, task: Task, jobs: int | None) -> Numbered:
    """Return the row of one task while no other is computed."""
    try:
        return next(iter(_in_parallel(joblib, [task], jobs, 1)))
    except Exception as error:
        if not _is_worker_lost(error):
            raise
        return task.position, _lost(task.name, error)


def _lost(name: str, error: Exception) -> ModelRow:
    """Return the row of a model whose worker was lost.

    Raises:
        Exception: ``error``, if it is anything else.
    """
    if not _is_worker_lost(error):
        raise error
    reason = str(error).partition("\n")[0]
    return ModelRow(name, {}, f"the worker of this model ended: {type(error).__name__}: {reason}", failed=True)


def _is_worker_lost(error: Exception) -> bool:
    return any(base.__name__ in WORKER_LOST for base in type(error).__mro__)
