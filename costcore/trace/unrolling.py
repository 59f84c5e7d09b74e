"""Write the calls of a folded loop as often as they run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from costcore.ir import Layer, Tensor
from costcore.trace.call import Call, with_names
from costcore.trace.trace import CallCost, Trace

FEWEST = 3
"""The repetitions of a loop whose ids are kept: the first is special, and the others follow at equal distances."""


def ids_of(call: Call) -> tuple[int, ...]:
    """Return all ids of a call: operands, memory, and what is saved."""
    return (*call.inputs, *call.outputs, *call.storages, *call.saved)


def unrolled(trace: Trace) -> Trace:
    """Return a run whose loops are folded with every call of them, as it ran."""
    unfolded = trace.run.unfolded
    assert unfolded is not None
    records: list[CallCost] = []
    lengths = dict(unfolded.folds)
    at = 0
    while at < len(trace):
        length = lengths.get(at, 1)
        body = [(trace.records[i], unfolded.ids[i]) for i in range(at, at + length)]
        for k in range(int(body[0][0].call.times) if at in lengths else 1):
            records += (_repetition(record, ids, k) if at in lengths else _once(record, ids) for record, ids in body)
        at += length
    calls = with_names(record.call for record in records)
    run = trace.run.recording(unfolded=None)
    return Trace(tuple(record._replace(call=call) for record, call in zip(records, calls, strict=True)), run)


def _nth(of_first: Sequence[int], k: int) -> int:
    """Return the id in repetition k from those in the first three."""
    first, second, third = of_first
    return first if k == 0 else second + (k - 1) * (third - second)


def _repetition(record: CallCost, ids: Sequence[Any], k: int) -> CallCost:
    """Return a call of a loop as it ran in repetition k, from its ids in the first three."""
    n = len(ids) // FEWEST
    at_k = [_nth(each, k) for each in zip(ids[:n], ids[n : 2 * n], ids[2 * n :], strict=True)]
    return record._replace(call=_with_ids(record.call, at_k)._replace(times=1))


def _once(record: CallCost, ids: Sequence[Any]) -> CallCost:
    """Return a call outside of loops; if it joins the results of all repetitions, with all of them as operands."""
    call, layer = _with_ids(record.call, ids), record.call.layer
    if len(layer.inputs) != 1 or len(call.inputs) != FEWEST:
        return record._replace(call=call)
    ((name, joined),) = layer.inputs.items()
    n = int(joined.shape[0])
    tensor = Tensor(joined.shape[1:], joined.dtype, joined.role)
    prefix = name.rstrip("0123456789")
    layer = Layer(layer.op, {f"{prefix}{i}": tensor for i in range(n)}, layer.outputs, layer.attrs)
    inputs = tuple(_nth(call.inputs, k) for k in range(n))
    storages = call.storages and (
        *(_nth(call.storages[:FEWEST], k) for k in range(n)),
        *call.storages[FEWEST:],
    )
    return record._replace(call=call._replace(layer=layer, inputs=inputs, storages=storages))


def _with_ids(call: Call, ids: Sequence[Any]) -> Call:
    """Return a call with other ids, see :func:`ids_of`."""
    left = iter(ids)

    def like(old: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(next(left) for _ in old)

    return call._replace(
        inputs=like(call.inputs), outputs=like(call.outputs), storages=like(call.storages), saved=like(call.saved)
    )
