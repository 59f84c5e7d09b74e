"""The span of a trace, divided among calls, other work and idle time without a remainder."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from costcore.trace.profile import CallTime, Elsewhere, Interval, Profile, Stream, divide

from .nesting import BEFORE, short_name
from .places import Step
from .records import Kernel, Op, Recorded

COPIES = "copies and fills"
OTHER_STEPS = "of another step"
NO_CALL = "inside of operators without a call"

_COMMUNICATION = re.compile(r"nccl|rccl|oneccl|allreduce|all_reduce|reduce_scatter|all_gather|allgather", re.IGNORECASE)
_TRANSFER = re.compile(r"Mem_?cpy.*(HtoD|DtoH|HostToDevice|DeviceToHost)", re.IGNORECASE)
_TF32 = re.compile(r"tf32|(?<!bf16_)s1688gemm(?!.*bf16)", re.IGNORECASE)


def profile_of(recorded: Recorded, ops: Sequence[Op], owners: Mapping[Op, int], step: Step | None) -> Profile:
    """Return what was measured.

    Args:
        recorded: the trace.
        ops: the operators of the step.
        owners: the position of the call of each operator that is one.
        step: the step; None for everything.
    """
    if any(kernel.start < kernel.end for kernel in recorded.kernels):
        return _on_device(recorded, ops, owners)
    return _on_host(recorded, ops, owners, step)


def _on_device(recorded: Recorded, ops: Sequence[Op], owners: Mapping[Op, int]) -> Profile:
    inside = {kernel: op for op in ops for kernel in op.kernels}
    has_other_steps = len(inside) < sum(not kernel.reason for kernel in recorded.kernels)
    own = [*inside] if inside and has_other_steps else recorded.kernels
    start, end = min(kernel.start for kernel in own), max(kernel.end for kernel in own)
    intervals, lengths, counts, aside = [], Counter[Any](), Counter[Any](), Counter[Any]()
    for kernel in recorded.kernels:
        if kernel.end <= start or kernel.start >= end:
            continue
        owner = _owner(kernel, inside.get(kernel), owners)
        is_last = kernel.kind != "kernel" or _COMMUNICATION.search(kernel.name) is not None
        intervals.append(Interval(kernel.start, kernel.end, (int(is_last), kernel.start), owner))
        lengths[owner] += min(kernel.end, end) - max(kernel.start, start)
        counts[owner] += 1
        if kernel.kind == "memset" or _TRANSFER.search(kernel.name):
            aside[owner] += min(kernel.end, end) - max(kernel.start, start)
    alone, idle = divide(intervals, start, end)
    host = _host_times(ops, owners)
    calls = {
        position: CallTime(
            lengths[position], host.get(position, 0), alone.get(position, 0), counts[position], aside[position]
        )
        for position in {*owners.values()}
    }
    elsewhere = _elsewhere(lengths, alone, counts)
    tf32 = any(_TF32.search(kernel.name) for kernel in recorded.kernels)
    streams = _streams(recorded.kernels, start, end)
    return Profile(recorded.device, "device", end - start, idle, dict(sorted(calls.items())), elsewhere, streams, tf32)


def _owner(kernel: Kernel, op: Op | None, owners: Mapping[Op, int]) -> Any:
    """Return the position of the call that a kernel works for, or what it is otherwise."""
    around = op
    while around is not None and around not in owners:
        around = around.parent
    if around is not None:
        return owners[around]
    name = short_name(kernel.name) if kernel.kind == "kernel" else kernel.name
    if kernel.reason:
        return kernel.reason, name
    return (COPIES if kernel.kind != "kernel" else OTHER_STEPS if op is None else NO_CALL), name


def _on_host(recorded: Recorded, ops: Sequence[Op], owners: Mapping[Op, int], step: Step | None) -> Profile:
    start = min(op.start for op in ops) if step is None else step.start
    end = max(op.end for op in ops) if step is None else step.end
    intervals = [
        Interval(op.start, op.end, (0 if op in owners else 1, -op.start), owners.get(op, (NO_CALL, "")))
        for op in ops
        if op in owners or op.parent is None
    ]
    alone, idle = divide(intervals, start, end)
    host = _host_times(ops, owners)
    calls = {i: CallTime(0, host.get(i, 0), alone.get(i, 0), 0) for i in sorted({*owners.values()})}
    elsewhere = _elsewhere(Counter(alone), alone, Counter(alone.keys()))
    return Profile(recorded.device, "host", end - start, idle, calls, elsewhere)


def _host_times(ops: Iterable[Op], owners: Mapping[Op, int]) -> dict[int, int]:
    """Return how long the host was in each call, without the calls inside of it."""
    found: Counter[int] = Counter()
    for op in ops:
        if op in owners:
            found[owners[op]] += op.end - op.start
            around = op.parent
            while around is not None and around not in owners:
                around = around.parent
            if around is not None:
                found[owners[around]] -= op.end - op.start
    return {position: max(length, 0) for position, length in found.items()}


def _elsewhere(
    lengths: Mapping[Any, int], alone: Mapping[Any, int], counts: Mapping[Any, int]
) -> tuple[Elsewhere, ...]:
    found = [
        Elsewhere(owner[0], owner[1], lengths[owner], alone.get(owner, 0), counts[owner])
        for owner in lengths
        if isinstance(owner, tuple)
    ]
    return tuple(sorted(found, key=lambda each: (each.what != BEFORE, -each.alone, each.name)))


def _streams(kernels: Iterable[Kernel], start: int, end: int) -> tuple[Stream, ...]:
    by_stream: dict[Any, list[Kernel]] = defaultdict(list)
    for kernel in kernels:
        if kernel.start < end and kernel.end > start:
            by_stream[kernel.stream].append(kernel)
    found = []
    for (device, number), on_stream in sorted(by_stream.items(), key=lambda item: str(item[0])):
        gaps, free = [], start
        for kernel in sorted(on_stream, key=lambda each: each.start):
            if kernel.start > free:
                gaps.append(kernel.start - free)
            free = max(free, min(kernel.end, end))
        if end > free:
            gaps.append(end - free)
        idle = sum(gaps)
        found.append(Stream(f"{device}/{number}", end - start - idle, idle, max(gaps, default=0), len(gaps)))
    return tuple(found)
