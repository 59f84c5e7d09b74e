"""Reads a trace, whichever of its formats it has."""

from __future__ import annotations

from os import PathLike, fsdecode

from costcore.errors import CostError

from .execution_trace import ExecutionTraceReader
from .json_stream import JsonStream
from .kineto import KinetoReader
from .records import Op, Recorded


def read(path: str | PathLike[str]) -> Recorded:
    """Return everything that a trace says.

    Raises:
        CostError: if the file cannot be read, or is not a trace.
    """
    stream = JsonStream(path, ("traceEvents", "nodes"))
    kineto, execution = KinetoReader(), ExecutionTraceReader()
    has_nodes = False
    for key, value in stream:
        if key == "nodes":
            has_nodes = True
            execution.add(value)
        elif key in ("traceEvents", ""):
            kineto.add(value)
            if kineto.is_no_trace:
                raise CostError(f"{fsdecode(path)} is not a trace: most of its events have no valid time")
        else:
            kineto.add_head(key, value)
    recorded = execution.finish() if has_nodes else kineto.finish()
    recorded.is_cut = stream.is_cut
    return recorded


def join_execution_trace(recorded: Recorded, other: Recorded, name: str) -> None:
    """Give operators of the profiler the ids, results and overloads that an execution trace has for them.

    Both number what they record alike while they run together.

    Raises:
        CostError: if the two have no operator in common.
    """
    by_number: dict[int, Op] = {op.identity: op for op in other.ops}
    n = 0
    for op in recorded.ops:
        twin = by_number.get((op.details or {}).get("rf_id", 0))
        if twin is not None and twin.name == op.name and twin.arguments is not None:
            op.arguments, op.outputs, op.schema = twin.arguments, twin.outputs, twin.schema
            n += 1
    if not n:
        raise CostError(f"{name} was not recorded together with the trace: no operator has a number of the other")
    recorded.has_shapes = True
