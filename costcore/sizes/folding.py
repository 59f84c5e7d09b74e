"""Fold the calls of an unrolled loop into those of its body, which run several times."""

from __future__ import annotations

from collections.abc import Sequence

from costcore.ir import Layer, Tensor
from costcore.sizes.outline import is_free
from costcore.trace.trace import CallCost, Trace

LONGEST_BODY = 256
"""The maximum number of calls, of those that cost something, in a body that is looked for."""

JOINING = ("concat", "stack")
"""Operators of a list of operands, whose cost is that of all operands as one."""


def folded(trace: Trace) -> Trace:
    """Return the run with consecutive equal blocks of calls written once, with the number of times that they run.

    Calls that cost nothing are left out of such a block. A list of equal operands, such as the outputs of all steps
    that are stacked, is written as one operand with another axis.
    """
    priced = [i for i, record in enumerate(trace) if not is_free(record)]
    records = {i: _with_one_list(trace.records[i]) for i in priced}
    numbers: dict[object, int] = {}
    keys = [numbers.setdefault(_key(records[i]), len(numbers)) for i in priced]
    times: dict[int, int] = {}
    dropped: set[int] = set()
    at = 0
    while at < len(keys):
        length, count = _repeats(keys, at)
        for step in range(length * count):
            times[priced[at + step]] = count
            if step >= length:
                dropped.add(priced[at + step])
        if count > 1:
            dropped.update(i for i in range(priced[at], priced[at + length * count - 1]) if i not in records)
        at += length * count
    return Trace(
        tuple(_repeated(records.get(i, record), times.get(i, 1)) for i, record in enumerate(trace) if i not in dropped),
        trace.run,
    )


def _repeats(keys: Sequence[int], at: int) -> tuple[int, int]:
    """Return the length of the block at a position and how often it follows itself, so that most calls are folded."""
    best = 1, 1
    for length in range(1, min(LONGEST_BODY, (len(keys) - at) // 2) + 1):
        if keys[at + length] != keys[at]:
            continue
        block = keys[at : at + length]
        count = 1
        while keys[at + count * length : at + (count + 1) * length] == block:
            count += 1
        if count > 1 and length * count > best[0] * best[1]:
            best = length, count
    return best


def _key(record: CallCost) -> object:
    call = record.call
    return call.layer, call.native, call.module, call.phase, call.region, call.times, record.uncounted


def _repeated(record: CallCost, count: int) -> CallCost:
    return record if count == 1 else record._replace(call=record.call._replace(times=record.call.times * count))


def _with_one_list(record: CallCost) -> CallCost:
    """Return a call that joins equal operands with all of them as one."""
    layer = record.call.layer
    tensors = set(layer.inputs.values())
    if layer.op not in JOINING or len(tensors) != 1:
        return record
    (tensor,) = tensors
    joined = Tensor((len(layer.inputs), *tensor.shape), tensor.dtype, tensor.role)
    layer = Layer(layer.op, {next(iter(layer.inputs)): joined}, layer.outputs, layer.attrs)
    return record._replace(call=record.call._replace(layer=layer))
