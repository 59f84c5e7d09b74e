"""A model that another process computes, and the limits that it has there."""

from __future__ import annotations

from typing import NamedTuple

from costcore.studies.sweeps.row import ModelRow


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
        frontends: the frontends that it probably needs; the time to import them is not part of its own.
        plan: the limits.
        run: identifies the call of ``table``; processes are not shared between calls, because code may have changed.
        is_code: whether the model is Python code, which may import from the current folder. A file never does.
    """

    position: int
    name: str
    content: bytes | ModelRow
    frontends: tuple[str, ...]
    plan: Plan
    run: str
    is_code: bool = True
