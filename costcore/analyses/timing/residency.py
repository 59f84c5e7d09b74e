"""The least time in which a run brings from memory what no cache can hold.

A single call may find all that it reads in a cache of ``C`` bytes, but not every call of a run can: when a stretch of
calls begins, the cache holds at most ``C`` bytes, whatever it keeps and whatever its policy. Of the distinct bytes that
the stretch reads, without those that it writes itself before it reads them, all but ``C`` come from memory::

    stretch >= max(sum of the bounds of its calls, (distinct bytes - C) / bandwidth)

Stretches do not overlap, so their times add up, and every division of the run is a lower bound. Halves of halves are
tried, by the bytes read, down to stretches that fit the cache: so bytes that are read for the first time count, and
bytes that are read again after more than a cache of others. Bytes written do not, as they may be dead before they leave
the cache.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import fsum
from typing import NamedTuple

from costcore.analyses.devices.device import Device
from costcore.analyses.timing.group_time import GroupTime
from costcore.ir import Cost, Layer
from costcore.trace.trace import Trace

MOST_HALVINGS = 8
"""Each halving looks at all calls once more."""

ROUNDING = 1e-9
"""Sums of floats differ by less, as a part of them."""


class Step(NamedTuple):
    """A call, or a group of fused calls.

    Attributes:
        seconds: the least time by itself.
        reads: bytes read of every value, by the identity of the value.
        writes: the identities of the values that it produces.
    """

    seconds: float
    reads: Sequence[tuple[int, int]]
    writes: Sequence[int]


Values = Sequence[tuple[Sequence[tuple[int, int]], Sequence[int]]]
"""Of every call the bytes that it reads of every value, and the values that it produces."""


def least_seconds(trace: Trace, values: Values, groups: Sequence[GroupTime], fusion: str, device: Device) -> float:
    """Return the least time of a run by what it must bring from main memory, at least the sum of its groups.

    Args:
        trace: the run.
        values: its values, as :func:`values_of` returns them.
        groups: its groups, in order of execution.
        fusion: the level of fusion. Fused calls may compute a value again instead of reading it, so that only values
            count that the run does not produce.
        device: the device.
    """
    found = [(nearer, rate) for name, nearer, rate in device.levels() if name == "dram"]
    in_groups = fsum(group.bound_seconds for group in groups)
    if not found:
        return in_groups
    (capacity, rate), *_ = found
    if sum(n for reads, _ in values for _, n in reads) <= capacity:
        return in_groups
    steps = [*(_calls if fusion == "none" else _groups)(trace, values, groups)]
    seconds = [0.0, *accumulate(step.seconds for step in steps)]
    nbytes = [0, *accumulate(sum(n for _, n in step.reads) for step in steps)]

    def least(first: int, last: int, halvings: int) -> float:
        alone = seconds[last] - seconds[first]
        if nbytes[last] - nbytes[first] <= capacity:
            return alone
        whole = max(alone, (bytes_from_outside([step[1:] for step in steps[first:last]]) - capacity) / rate)
        middle = _half(nbytes, first, last)
        if not halvings or not first < middle < last:
            return whole
        return max(whole, least(first, middle, halvings - 1) + least(middle, last, halvings - 1))

    in_halves = least(0, len(steps), MOST_HALVINGS)
    return in_halves if in_halves > in_groups * (1 + ROUNDING) else in_groups


def values_of(trace: Trace) -> Iterator[tuple[Sequence[tuple[int, int]], Sequence[int]]]:
    """Yield of every call the bytes that it reads of every value, and the values that it produces.

    A view is the value that it shows. Operands without an identity do not count. Of a call without a cost nothing is
    known but what it produces.
    """
    same_as: dict[int, int] = {}
    parts: dict[tuple[int, int], list[int]] = {}
    for call, cost, *_ in trace.records:
        if cost is None:
            yield (), call.outputs
            continue
        key = id(call.layer), id(cost)
        if key not in parts:
            parts[key] = parts_read(call.layer, cost)
        pairs = zip(call.inputs, parts[key], strict=False)
        reads = [(same_as.get(identity, identity), nbytes) for identity, nbytes in pairs if identity]
        if call.inputs and cost.mread == cost.mwrite == 0:
            source = same_as.get(call.inputs[0], call.inputs[0])
            same_as.update(dict.fromkeys(call.outputs, source))
            yield reads, ()
        else:
            yield reads, call.outputs


def bytes_from_outside(values: Values) -> int:
    """Return the bytes of the values that calls read and no call produced, each once: weights, inputs, states.

    Of a value that is read in part, as the table of an embedding, the largest part that one call reads counts.
    """
    produced: set[int] = set()
    needed: dict[int, int] = {}
    for reads, writes in values:
        for value, nbytes in reads:
            if value not in produced:
                needed[value] = max(nbytes, needed.get(value, 0))
        produced.update(writes)
    return sum(needed.values())


def parts_read(layer: Layer, cost: Cost) -> list[int]:
    """Return the bytes that one execution needs of every operand; what is not read is taken off the largest ones."""
    parts = [int(tensor.nbytes) for tensor in layer.inputs.values()]
    unread = max(0, sum(parts) - int(cost.mread))
    for i in sorted(range(len(parts)), key=parts.__getitem__, reverse=True):
        taken = min(unread, parts[i])
        parts[i] -= taken
        unread -= taken
    return parts


def _calls(trace: Trace, values: Values, groups: Sequence[GroupTime]) -> Iterator[Step]:
    seconds = {group.name: group.bound_seconds for group in groups}
    for record, (reads, writes) in zip(trace.records, values, strict=True):
        yield Step(seconds.get(record.call.name, 0.0), reads, writes)


def _groups(trace: Trace, values: Values, groups: Sequence[GroupTime]) -> Iterator[Step]:
    produced = {value for _, writes in values for value in writes}
    of_call = {
        record.call.name: [(value, n) for value, n in reads if value not in produced]
        for record, (reads, _) in zip(trace.records, values, strict=True)
    }
    for group in groups:
        yield Step(group.bound_seconds, [read for call in group.calls for read in of_call[call.name]], ())


def _half(nbytes: Sequence[int], first: int, last: int) -> int:
    """Return where half of the bytes are read."""
    return min(max(bisect_left(nbytes, (nbytes[first] + nbytes[last]) / 2, first, last), first + 1), last - 1)
