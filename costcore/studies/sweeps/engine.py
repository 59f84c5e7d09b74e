"""The rows of a table as they are computed: in this process, in others beside it, or on a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from queue import SimpleQueue
from typing import TypeAlias

from costcore.studies.sweeps.cluster import configured_joblib, rows_on_cluster
from costcore.studies.sweeps.process_pool import ProcessPool
from costcore.studies.sweeps.row import ModelRow, NamedModel, Settings, row_of
from costcore.studies.sweeps.tasks import Plan, Task, TaskMaker, compute

Numbered: TypeAlias = "tuple[int, ModelRow]"
"""A row with its position in the table."""

Tasks: TypeAlias = "Callable[[int, NamedModel], Task]"
"""A function that returns a model and its position as a task."""


def rows(models: Mapping[int, NamedModel], settings: Settings, plan: Plan) -> Generator[Numbered, None, None]:
    """Yield the row of every model with its position, in the order in which they are finished.

    If neither ``plan`` nor the configuration of joblib says otherwise, models are counted in this process. Else each
    worker has a process in which it counts one model after the other.
    """
    joblib = configured_joblib()
    if plan == Plan() and joblib is None:
        yield from ((position, row_of(named, settings)) for position, named in models.items())
        return
    task_of = TaskMaker(settings, plan)
    if joblib is None:
        found = _rows_beside(models, task_of, plan)
    else:
        found = rows_on_cluster(joblib, models, task_of, plan.jobs)
    with closing(found):
        for position, row in found:
            yield position, row._replace(arguments=models[position].arguments)


def _rows_beside(models: Mapping[int, NamedModel], task_of: Tasks, plan: Plan) -> Generator[Numbered, None, None]:
    """Yield the rows from processes beside this one, each with a thread that waits for it."""
    n = number_of_processes(plan.jobs)
    pool, threads = ProcessPool(plan.memory_limit), ThreadPoolExecutor(n)
    done: SimpleQueue[Future[Numbered]] = SimpleQueue()
    try:
        for i, (position, named) in enumerate(models.items()):
            threads.submit(compute, task_of(position, named), pool).add_done_callback(done.put)
            if i >= 2 * n:  # bounds the number of pickled models
                yield done.get().result()
        for _ in range(min(len(models), 2 * n)):
            yield done.get().result()
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
        pool.interrupt()
        threads.shutdown()
        pool.close()


def number_of_processes(jobs: int | None) -> int:
    """Return the number of processes that ``jobs`` stands for: -1 is one per core, -2 one less; None is 1."""
    if jobs is None or jobs > 0:
        return jobs or 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores + 1 + jobs)
