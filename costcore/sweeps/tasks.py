"""A model as it is sent to another process, and the row that comes back."""

from __future__ import annotations

import pickle
from typing import Any, NamedTuple

from costcore.errors import CostError
from costcore.sweeps.process_pool import ProcessPool, pool_of
from costcore.sweeps.row import ModelRow, NamedModel, Settings, failure


class Plan(NamedTuple):
    """How rows are computed.

    Attributes:
        jobs: the number of processes; -1 for one per core; None for the setting of joblib, or else this process.
        timeout: the seconds that a model may take; None for no limit.
        memory_limit: the bytes of memory that the process of a model may allocate; None for no limit.
    """

    jobs: int | None = None
    timeout: float | None = None
    memory_limit: int | None = None


class Task(NamedTuple):
    """A model to compute in another process.

    Attributes:
        position: its position in the table.
        name: its name.
        content: its model, inputs and settings, pickled; or its row, if they cannot be pickled.
        plan: the limits.
        run: identifies the call of ``table``; processes are not shared between calls, because code may have changed.
    """

    position: int
    name: str
    content: bytes | ModelRow
    plan: Plan
    run: str


def make_task(position: int, named: NamedModel, settings: Settings, plan: Plan, run: str) -> Task:
    """Return a model as a task."""
    content: bytes | ModelRow
    try:
        content = _pickled((named, settings))
    except Exception as error:  # pickling runs code of the user
        content = ModelRow(named.name, {}, f"the model cannot be pickled: {failure(error)}", True, named.arguments)
    return Task(position, named.name, content, plan, run)


def compute(task: Task, pool: ProcessPool | None = None) -> tuple[int, ModelRow]:
    """Return the position and the row of a task.

    Args:
        task: the task.
        pool: the processes to use; default: those of this worker of a cluster.
    """
    if isinstance(task.content, ModelRow):
        return task.position, task.content
    with (pool or pool_of(task.run, task.plan.memory_limit)).process() as process:
        return task.position, process.row(task.name, task.content, task.plan.timeout)


def _pickled(value: Any) -> bytes:
    """Return a value pickled, with the code of what is defined in the main module if joblib is installed."""
    try:
        from joblib.externals.cloudpickle import dumps
    except ImportError:
        return pickle.dumps(value)
    content: bytes = dumps(value)
    return content


def memory_of(limit: object) -> int | None:
    """Return a limit of memory in bytes, given as a number of bytes or as ``"2 GiB"``; None for none.

    Raises:
        TypeError, ValueError: if it has another form.
        CostError: if this system cannot limit memory.
    """
    if limit is None:
        return None
    from costcore.reports.text.amounts import parse_amount

    try:
        nbytes = parse_amount(limit, "mread")
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace("mread", "memory_limit")) from None
    try:
        import resource
    except ImportError as error:
        raise CostError(f"memory_limit cannot be used on this system ({error})") from error
    del resource
    return nbytes
