"""The trace of a run whose bytes are those after fusion."""

from __future__ import annotations

from costcore.analyses.fusion.groups import traffic_of_calls
from costcore.errors import CostError
from costcore.numbers.symbolic import expanded_sum
from costcore.trace.run import Fusion
from costcore.trace.trace import Trace


def fused_trace(trace: Trace, level: str) -> Trace:
    """Return the trace with the bytes after fusion as costs, and the groups in the run.

    Within a group, the first call that reads a value is charged with reading it, and the call that produces a value
    with writing it. All other amounts of the costs are unchanged.

    Raises:
        ValueError: if the level is unknown.
        CostError: if the bytes of the trace are already those after fusion, or if a calculator states an invalid
            pattern.
    """
    if trace.run.fusion is not None:
        raise CostError(
            f"this report is already fused at level {trace.run.fusion.level!r}. Fuse the report from which it was made."
        )
    groups, amounts = traffic_of_calls(trace, level)
    records = tuple(
        record if record.cost is None else record._replace(cost=record.cost._replace(mread=read, mwrite=written))
        for record, (read, written) in zip(trace, amounts, strict=True)
    )
    unfused = expanded_sum((cost.mread + cost.mwrite) * call.times for call, cost, *_ in trace if cost is not None)
    return Trace(records, trace.run.recording(fusion=Fusion(level, tuple(groups), unfused)))
