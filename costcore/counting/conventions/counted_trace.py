"""The trace of a run whose FLOPs are the amounts of a convention."""

from __future__ import annotations

from dataclasses import replace

from costcore.counting.conventions.counting import Counts
from costcore.counting.conventions.view import UNIT_NAMES, amounts
from costcore.dims import Dim
from costcore.ir import Cost
from costcore.trace.trace import CallCost, Trace


def counted_trace(trace: Trace, counts: Counts) -> Trace:
    """Return the trace with amounts of a convention as FLOPs, and its unit and name in the run.

    An amount of several executions of a call stands for all of them, so such a call is counted as executed once.
    """
    records = [_counted(record, amount) for record, amount in zip(trace, amounts(counts, trace), strict=True)]
    unit = f"{UNIT_NAMES[counts.convention.unit]} ({counts.convention.name})"  # beside the MACs of costcore
    return Trace(tuple(records), replace(trace.run, convention=counts.convention.name, unit=unit))


def _counted(record: CallCost, amount: Dim) -> CallCost:
    call, cost = record.call, record.cost
    if cost is None:
        return record
    times = call.times
    if times == 1:
        return record._replace(cost=cost._replace(flops=amount))
    whole = Cost(amount, cost.mread * times, cost.mwrite * times, cost.params, cost.macs * times)
    return record._replace(call=call._replace(times=1), cost=whole)
