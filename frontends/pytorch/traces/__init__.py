"""The frontend of traces: what a run costs, from what ``torch.profiler`` or an execution trace recorded of it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from costcore.trace.recorder import Recorder
    from costcore.translate import Row

ROWS: tuple[Row, ...] = ()


def capture(recorder: Recorder) -> AbstractContextManager[object] | None:
    """Return None: the frontend of PyTorch records what runs."""
    return None


def accepts(model: object) -> bool:
    """Return False: a trace is recognized as a file, by its content."""
    return False


def native_names(op: object) -> tuple[str, ...]:
    """Return (): the frontend of PyTorch knows the names of its operators."""
    return ()


def estimate(
    recorder: Recorder,
    model: Any,
    inputs: Any = None,
    *,
    et: Any = None,
    profiler_step: int | None = None,
    graphs: Any = None,
) -> None:
    """Record the calls of a trace; see :func:`.trace_file.estimate`."""
    from .trace_file import estimate  # few runs read a trace

    estimate(recorder, model, inputs, et=et, profiler_step=profiler_step, graphs=graphs)
