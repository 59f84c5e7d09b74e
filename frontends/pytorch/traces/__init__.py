"""The frontend of traces: it counts a run that ``torch.profiler`` or an execution trace observer recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from costcore.graphs.graph import ROWS, accepts, capture, native_names

if TYPE_CHECKING:
    from costcore.trace.run import Recorder

__all__ = ["ROWS", "accepts", "capture", "estimate", "native_names"]


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
