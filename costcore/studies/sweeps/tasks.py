"""A model as it is sent to another process, and the row that comes back."""

from __future__ import annotations

import pickle
import secrets
from contextlib import suppress
from importlib import import_module
from typing import Any

from costcore.api.user_code import runs_code
from costcore.errors import CostError
from costcore.registry.frontends import loaded, reader_of, specs
from costcore.studies.sweeps.process_pool import pool_of
from costcore.studies.sweeps.row import ModelRow, NamedModel, Settings, failure
from costcore.studies.sweeps.sources import Sources
from costcore.studies.sweeps.task import Plan, Task


class TaskMaker:
    """Makes the tasks of one call of ``table``.

    Args:
        settings: what all rows have in common.
        plan: the limits.
    """

    def __init__(self, settings: Settings, plan: Plan) -> None:
        self._settings, self._plan, self._run = settings, plan, secrets.token_hex(8)
        self._sources = Sources([*settings.python_path, ""])
        self._frontends: dict[str, tuple[str, ...]] = {}
        self._code: dict[str, bool] = {}

    def __call__(self, position: int, named: NamedModel) -> Task:
        """Return a model as a task."""
        content: bytes | ModelRow
        try:
            content = _pickled((named, self._settings))
        except Exception as error:  # pickling runs code of the user
            content = ModelRow(named.name, {}, f"the model cannot be pickled: {failure(error)}", True, named.arguments)
        frontends, is_code = self._frontends_of(named.model), self._is_code(named.model)
        return Task(position, named.name, content, frontends, self._plan, self._run, is_code)

    def _frontends_of(self, model: Any) -> tuple[str, ...]:
        """Return the frontends whose frameworks a model probably needs, as far as its code says without being run."""
        if not isinstance(model, str):
            return tuple(loaded())
        if model not in self._frontends:
            module = model.rpartition(":")[0]
            try:
                packages = self._sources.packages(module) if module else set()
            except OSError:  # its row has the error
                packages = set()
            reader = reader_of(model)
            names = [spec.name for spec in specs().values() if spec.name == reader or spec.framework in packages]
            self._frontends[model] = tuple(names)
        return self._frontends[model]

    def _is_code(self, model: Any) -> bool:
        if not isinstance(model, str):
            return runs_code(model)
        if model not in self._code:
            self._code[model] = runs_code(model)
        return self._code[model]


def compute(task: Task) -> tuple[int, ModelRow]:
    """Return the position and the row of a task, computed by a process of this worker of a cluster."""
    with pool_of(task.run, task.plan.memory_limit).process() as process:
        return next(process.rows(iter((task,))))


def _pickled(value: Any) -> bytes:
    """Return a value pickled, with the code of what is defined in the main module if joblib is installed."""
    for name in ("cloudpickle", "joblib.externals.cloudpickle"):  # joblib brings one or the other
        with suppress(ImportError):
            content: bytes = import_module(name).dumps(value)
            return content
    return pickle.dumps(value)


def memory_of(limit: object) -> int | None:
    """Return a limit of memory in bytes, given as a number of bytes or as ``"2 GiB"``; None for none.

    Raises:
        TypeError, ValueError: if it has another form.
        CostError: if this system cannot limit memory.
    """
    if limit is None:
        return None
    from costcore.text.amounts import parse_amount

    nbytes = parse_amount(limit, "memory_limit", "bytes")
    try:
        import resource
    except ImportError as error:
        raise CostError(f"memory_limit cannot be used on this system ({error})") from error
    del resource
    return nbytes
