"""The trace of a run whose FLOPs are the amounts of a convention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from costcore.ir import Cost
from costcore.numbers.dims import Dim
from costcore.trace.trace import CallCost, Trace


def counted_trace(trace: Trace, amounts: Sequence[Dim], convention: str, unit: str) -> Trace:
    """Return the trace with amounts of a convention as FLOPs, and its unit and name in the run.

    An amount of several executions of a call stands for all of them, so such a call is counted as executed once.

    Args:
        trace: the run.
        amounts: the amount of every call.
        convention: the name of the convention.
        unit: what it counts, in the plural.
    """
    records = [_counted(record, amount) for record, amount in zip(trace, amounts, strict=True)]
    unit = f"{unit} ({convention})"  # beside the MACs of costcore
    return Trace(tuple(records), replace(trace.run, convention=convention, unit=unit))


def _counted(record: CallCost, amount: Dim) -> CallCost:
    call, cost = record.call, record.cost
    if cost is None:
        return record
    times = call.times
    if times == 1:
        return record._replace(cost=cost._replace(flops=amount))
    whole = Cost(amount, cost.mread * times, cost.mwrite * times, cost.params, cost.macs * times, cost.mcomm * times)
    return record._replace(call=call._replace(times=1), cost=whole)
