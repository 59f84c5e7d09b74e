"""The rows of a table as they are computed: in this process, in others beside it, or on a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from queue import Empty, SimpleQueue
from typing import TypeAlias

from costcore.studies.sweeps.cluster import configured_joblib, rows_on_cluster
from costcore.studies.sweeps.process_pool import ProcessPool
from costcore.studies.sweeps.row import ModelRow, NamedModel, Settings, row_of
from costcore.studies.sweeps.task import Plan, Task
from costcore.studies.sweeps.tasks import TaskMaker

Numbered: TypeAlias = "tuple[int, ModelRow]"
"""A row with its position in the table."""

Tasks: TypeAlias = "Callable[[int, NamedModel], Task]"
"""A function that returns a model and its position as a task."""

AHEAD = 3
"""Tasks per process that are pickled at a time: one is computed, one may wait in the process, one for any of them."""


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
    n = min(number_of_processes(plan.jobs), len(models))
    pool, threads = ProcessPool(plan.memory_limit), ThreadPoolExecutor(n or 1)
    tasks: SimpleQueue[Task | None] = SimpleQueue()
    done: SimpleQueue[Numbered | Future[None]] = SimpleQueue()

    def work() -> None:
        with pool.process() as process:
            for numbered in process.rows(iter(tasks.get, None)):
                done.put(numbered)

    def row() -> Numbered:
        while isinstance(found := done.get(), Future):
            found.result()  # raises what ended a thread
        return found

    try:
        for _ in range(n):
            threads.submit(work).add_done_callback(done.put)
        for i, (position, named) in enumerate(models.items()):
            tasks.put(task_of(position, named))
            if i >= AHEAD * n:
                yield row()
        for _ in range(n):
            tasks.put(None)
        for _ in range(min(len(models), AHEAD * n)):
            yield row()
    finally:
        with suppress(Empty):
            while True:
                tasks.get_nowait()
        for _ in range(n):
            tasks.put(None)
        pool.interrupt()
        threads.shutdown()
        pool.close()


def number_of_processes(jobs: int | None) -> int:
    """Return the number of processes that ``jobs`` stands for: -1 is one per core, -2 one less; None is 1."""
    if jobs is None or jobs > 0:
        return jobs or 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores + 1 + jobs)
