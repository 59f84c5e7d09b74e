"""Fold the calls of an unrolled loop into those of its body, which run several times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from costcore.analyses.sizes.outline import Outline, is_free, sample_of
from costcore.ir import Layer, Tensor
from costcore.trace.run import Unfolded
from costcore.trace.trace import CallCost, Trace
from costcore.trace.unrolling import FEWEST, ids_of

LONGEST_BODY = 256
"""The maximum number of calls, of those that cost something, in a body that is looked for."""

JOINING = ("concat", "stack")
"""Operators of a list of operands, whose cost is that of all operands as one."""

NOT_UNROLLED = "loops are written once: after fusion, and as calls, give integers in place of names for exact numbers"
"""What a report says whose loops cannot be written out again."""


def folded(trace: Trace, keeps_ids: bool) -> Trace:
    """Return the run with consecutive equal blocks of calls written once, with the number of times that they run.

    A list of equal operands, such as the outputs of all steps that are stacked, is written as one operand with another
    axis.

    Args:
        trace: the run.
        keeps_ids: whether to keep what :func:`~costcore.trace.unrolling.unrolled` needs. Only blocks that have the same
            free calls each time, and run three times or more, are folded then. Otherwise calls that cost nothing are
            left out of blocks.
    """
    outlines = sample_of(trace).outlines if keeps_ids else ()
    ids: dict[int, tuple[int, ...]] = {}
    folds: list[tuple[int, int]] = []
    priced = [i for i, record in enumerate(trace) if not is_free(record)]
    records = {i: _with_one_list(trace.records[i], FEWEST if keeps_ids else 1) for i in priced}
    numbers: dict[object, int] = {}
    keys = [numbers.setdefault(_key(records[i]), len(numbers)) for i in priced]
    times: dict[int, int] = {}
    dropped: set[int] = set()
    at = 0
    while at < len(keys):
        length, count = _repeats(keys, at)
        if keeps_ids:
            blocks = _whole_blocks(outlines, priced, at, length, count) if count >= FEWEST else []
            for same in zip(*blocks, strict=True):
                times[same[0]] = count
                dropped.update(same[1:])
                ids[same[0]] = tuple(i for j in same[:FEWEST] for i in ids_of(trace.records[j].call))
            folds += [(block[0], len(block)) for block in blocks[:1]]
        elif count > 1:
            block = priced[at : at + length * count]
            times.update(dict.fromkeys(block[:length], count))
            dropped.update(block[length:], (i for i in range(block[0], block[-1]) if i not in records))
        at += length * count
    kept = [i for i in range(len(trace)) if i not in dropped]
    new = tuple(_repeated(records.get(i, trace.records[i]), times.get(i, 1)) for i in kept)
    if not keeps_ids:
        return Trace(new, replace(trace.run, notes=(*trace.run.notes, NOT_UNROLLED)))
    unfolded = tuple(ids.get(i) or ids_of(record.call) for i, record in zip(kept, new, strict=True))
    return Trace(new, trace.run.recording(unfolded=Unfolded(tuple((kept.index(i), n) for i, n in folds), unfolded)))


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


def _whole_blocks(outlines: Sequence[Outline], priced: Sequence[int], at: int, length: int, count: int) -> list[range]:
    """Return the positions of the calls of each repetition of a block, with free calls; none if these differ."""
    firsts = [priced[at + length * k] for k in range(count)]
    lasts = [priced[at + length * (k + 1) - 1] for k in range(count)]
    behind = len(outlines) - lasts[-1] - 1
    between = firsts[1] - lasts[0] - 1
    for leading in range(max(between - behind, 0), min(between, firsts[0]) + 1):
        blocks = [range(f - leading, last + between - leading + 1) for f, last in zip(firsts, lasts, strict=True)]
        if len({tuple(outlines[i] for i in block) for block in blocks}) == 1:
            return blocks
    return []


def _key(record: CallCost) -> object:
    call = record.call
    return call.layer, call.native, call.module, call.phase, call.region, call.times, call.parameters, record.uncounted


def _repeated(record: CallCost, count: int) -> CallCost:
    return record if count == 1 else record._replace(call=record.call._replace(times=record.call.times * count))


def _with_one_list(record: CallCost, kept: int) -> CallCost:
    """Return a call that joins equal operands with all of them as one, and the ids of the first ones."""
    call, layer = record.call, record.call.layer
    tensors, n = set(layer.inputs.values()), len(layer.inputs)
    if layer.op not in JOINING or len(tensors) != 1 or n < kept:
        return record
    (tensor,) = tensors
    joined = Tensor((n, *tensor.shape), tensor.dtype, tensor.role)
    layer = Layer(layer.op, {next(iter(layer.inputs)): joined}, layer.outputs, layer.attrs)
    storages = call.storages[:kept] + call.storages[n:]
    return record._replace(call=call._replace(layer=layer, inputs=call.inputs[:kept], storages=storages))
