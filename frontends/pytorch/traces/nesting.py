"""Finds what is inside of what: operators on each thread, and which operator launched which work of the device."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from .records import Kernel, Launch, Op, Recorded, Span, Thread

BEFORE = "launched before the window"
OUTSIDE = "launched outside of operators"


def add_launches(recorded: Recorded) -> None:
    """Add an operator for every launch of a graph, and for every kernel that no operator around it launched.

    The kernels that a graph launches have one launch in the file.
    """
    threads = nest(recorded.ops)
    starts = {thread: [op.start for op in ops] for thread, ops in threads.items()}
    by_launch: dict[int, list[Kernel]] = defaultdict(list)
    for kernel in recorded.kernels:
        by_launch[kernel.correlation].append(kernel)
    for number, kernels in by_launch.items():
        launch = recorded.launches.get(number)
        if launch is None:
            continue
        around = innermost(threads.get(launch.thread, ()), starts.get(launch.thread, ()), launch.start)
        if is_graph(launch) and len(kernels) > 1:
            name = f"graph::{launch.name}"
        elif around is None and kernels[0].kind == "kernel":
            name = f"kernel::{short_name(kernels[0].name)}"
        else:
            continue
        op = Op(name, (), launch.start, launch.start, launch.thread, kernels=kernels)
        recorded.ops.append(op)
        for kernel in kernels:
            kernel.is_taken = True
    for op in recorded.ops:
        op.parent = None
        op.children.clear()


def short_name(kernel: str) -> str:
    """Return the name of a kernel without its parameters and types."""
    words = re.split(r"[<(]", kernel.removeprefix("void ").replace("(anonymous namespace)::", ""), maxsplit=1)
    return words[0].strip().rpartition(" ")[2][:100] or kernel[:100]


def nest(ops: Iterable[Op]) -> dict[Thread, list[Op]]:
    """Give operators their parents and children by time; return those of each thread by their start."""
    threads: dict[Thread, list[Op]] = defaultdict(list)
    for op in ops:
        threads[op.thread].append(op)
    for on_thread in threads.values():
        on_thread.sort(key=lambda op: (op.start, -op.end))
        around: list[Op] = []
        for op in on_thread:
            while around and around[-1].end <= op.start and (around[-1].start, around[-1].end) != (op.start, op.end):
                around.pop()
            if around:
                op.parent = around[-1]
                around[-1].children.append(op)
            around.append(op)
    return dict(threads)


def innermost(on_thread: Sequence[Op], starts: Sequence[int], time: int) -> Op | None:
    """Return the innermost operator of a thread that runs at a time."""
    at = bisect_right(starts, time) - 1
    op = on_thread[at] if at >= 0 else None
    while op is not None and op.end < time:
        op = op.parent
    return op


def join_kernels(recorded: Recorded, threads: Mapping[Thread, Sequence[Op]]) -> None:
    """Give every piece of work of the device to the operator that launched it, or a reason why there is none.

    The launch has the same correlation number, and the innermost operator around it on its thread launched. The number
    ``External id`` is used only for work without a launch in the file, and only if one operator has it: in old files it
    is the correlation number.
    """
    starts = {thread: [op.start for op in ops] for thread, ops in threads.items()}
    by_identity: dict[int, Op | None] = {}
    for op in recorded.ops:
        by_identity[op.identity] = None if op.identity in by_identity else op
    is_new = not any(kernel.external == kernel.correlation for kernel in recorded.kernels[:1000])
    for kernel in recorded.kernels:
        if kernel.is_taken:
            continue
        launch = recorded.launches.get(kernel.correlation)
        if launch is None:
            found = by_identity.get(kernel.external) if is_new and kernel.external > 0 else None
            kernel.reason = "" if found is not None else BEFORE
        else:
            on_thread = threads.get(launch.thread)
            found = None if on_thread is None else innermost(on_thread, starts[launch.thread], launch.start)
            kernel.reason = "" if found is not None else OUTSIDE
        if found is not None:
            found.kernels.append(kernel)


def is_graph(launch: Launch) -> bool:
    """Return whether a launch starts a whole graph of kernels."""
    return "Graph" in launch.name and "aunch" in launch.name


def spans_at(spans: Iterable[Span], times: Iterable[int]) -> list[tuple[Span, ...]]:
    """Return for every time, in ascending order, the spans around it, the innermost last; spans nest."""
    waiting = sorted(spans, key=lambda span: (span.start, -span.end))
    found: list[tuple[Span, ...]] = []
    around: list[Span] = []
    at = 0
    last: tuple[Span, ...] = ()
    for time in times:
        changed = False
        while at < len(waiting) and waiting[at].start <= time:
            while around and around[-1].end <= waiting[at].start:
                around.pop()
            around.append(waiting[at])
            at += 1
            changed = True
        while around and around[-1].end <= time:
            around.pop()
            changed = True
        if changed:
            last = tuple(around)
        found.append(last)
    return found


def device_time(ops: Sequence[Op]) -> dict[Op, int]:
    """Return the nanoseconds of all work of the device that each operator launched, those inside of it included."""
    found: dict[Op, int] = {}
    for op in reversed(ops):  # children come after their parents
        found[op] = sum(kernel_time(op.kernels)) + sum(found.get(child, 0) for child in op.children)
    return found


def kernel_time(kernels: Iterable[Kernel]) -> Iterable[int]:
    """Return how long each piece of work took."""
    return (kernel.end - kernel.start for kernel in kernels)
