"""The trace of one rank of a job: intervals of compute, communication and copies, and the collectives of its groups."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from sys import intern
from typing import Any

from costcore.errors import CostError
from costcore.studies.ranks import Collective, Group, RankWork

from .records import (
    BEFORE,
    COMMUNICATION,
    OPERATORS,
    Kernel,
    Recorded,
    Step,
    innermost,
    is_bookkeeping,
    nest,
    short_name,
    steps_of,
    whole,
)
from .trace_file import CUT, read

TOGETHER = frozenset(("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier"))
"""Collectives that no rank leaves before all have arrived; a broadcast can end on its root before others begin."""

_NAMES = {
    "all_reduce": re.compile(r"all_?reduce", re.IGNORECASE),
    "all_gather": re.compile(r"all_?gather", re.IGNORECASE),
    "reduce_scatter": re.compile(r"reduce_?scatter", re.IGNORECASE),
    "all_to_all": re.compile(r"all_?to_?all", re.IGNORECASE),
}
"""Collectives by kernel name, for traces that do not name collectives."""

MAX_NAMES = 8
"""Maximum steps in an error."""


def rank_work(path: str, profiler_step: int | None = None) -> RankWork:
    """Return when a rank computed, communicated and copied, by the clock of its device.

    Args:
        path: the trace.
        profiler_step: the number of the step of the profiler that counts; None for all steps.

    Raises:
        CostError: if the file cannot be read, is not a trace, has no work of a device, or lacks this step.
    """
    recorded = read(path, only_device=True)
    if not any(kernel.start < kernel.end for kernel in recorded.kernels):
        raise CostError(
            f"{path} has no work of a device to compare ranks by. Record with "
            "profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
        )
    steps = _chosen_steps(recorded, profiler_step, path)
    own, others = _divided(recorded, steps)
    if not own:
        raise CostError(f"{path} has no work of a device in its steps. Record with a schedule that has active steps")
    start, end = min(kernel.start for kernel in own), max(kernel.end for kernel in own)
    details = _details_by_launch(recorded)
    compute, communication, copies, collectives = [], [], [], []
    groups: dict[Group, Group] = {}
    left_out: Counter[str] = Counter()
    before = 0
    for kernel, is_own in [*((kernel, True) for kernel in own), *((kernel, False) for kernel in others)]:
        interval = max(kernel.start, start), min(kernel.end, end)
        if interval[0] >= interval[1]:
            continue
        before += 0 if is_own else interval[1] - interval[0]
        stated = kernel.details or details.get(kernel.correlation)
        if kernel.kind != "kernel":
            copies.append(interval)
        elif stated is None and not COMMUNICATION.search(kernel.name):
            compute.append(interval)
        else:
            communication.append(interval)
            operation = _operation(kernel, stated or {})
            if is_own and operation in TOGETHER:
                group = _group(stated or {}, recorded)
                group = groups.setdefault(group, group)  # a million collectives share few objects
                collectives.append(Collective(*interval, group, intern(_description(operation, stated or {}))))
            elif is_own:
                left_out[operation] += 1
    rank, n_ranks = (whole(recorded.distributed.get(key)) for key in ("rank", "world_size"))
    return RankWork(
        path,
        rank,
        n_ranks,
        recorded.device,
        tuple(sorted({step.number for step in steps})),
        compute,
        communication,
        copies,
        collectives,
        _remarks(recorded, own, left_out, before, end - start),
    )


def _chosen_steps(recorded: Recorded, number: int | None, path: str) -> list[Step]:
    steps = steps_of(recorded)
    if number is None:
        return steps
    found = [step for step in steps if step.number == number]
    if not found:
        have = ", ".join(str(step.number) for step in steps[:MAX_NAMES]) or "none"
        raise CostError(f"{path} has no step {number} of the profiler (it has {have})")
    return found


def _divided(recorded: Recorded, steps: Sequence[Step]) -> tuple[list[Kernel], list[Kernel]]:
    # Work that was launched in the steps, and other work; a device runs behind its host.
    if not steps:
        return recorded.kernels, []
    start, end = min(step.start for step in steps), max(step.end for step in steps)
    own: list[Kernel] = []
    others: list[Kernel] = []
    for kernel in recorded.kernels:
        launch = recorded.launches.get(kernel.correlation)
        is_own = launch is not None and start <= launch.start < end
        (own if is_own else others).append(kernel)
    return own, others


def _details_by_launch(recorded: Recorded) -> Mapping[int, Mapping[str, Any]]:
    # ROCm names the collective at its launch, and not at its kernel.
    if any(kernel.details for kernel in recorded.kernels):
        return {}
    threads = nest(op for op in recorded.ops if op.details and "Collective name" in op.details)
    starts = {thread: [op.start for op in ops] for thread, ops in threads.items()}
    found: dict[int, Mapping[str, Any]] = {}
    for number, launch in recorded.launches.items() if threads else ():
        op = innermost(threads.get(launch.thread, ()), starts.get(launch.thread, ()), launch.start)
        if op is not None and op.details and not is_bookkeeping(op):
            found[number] = op.details
    communicating = {kernel.correlation for kernel in recorded.kernels if COMMUNICATION.search(kernel.name)}
    return {number: found[number] for number in communicating & found.keys()}


def _operation(kernel: Kernel, details: Mapping[str, Any]) -> str:
    stated = details.get("Collective name")
    if isinstance(stated, str):
        return OPERATORS.get(stated, stated)
    return next((name for name, words in _NAMES.items() if words.search(kernel.name)), short_name(kernel.name))


def _description(operation: str, details: Mapping[str, Any]) -> str:
    # Only an all-reduce surely has the same number of elements on every rank.
    elements = whole(details.get("In msg nelems"))
    return f"{operation} of {elements:,} elements" if operation == "all_reduce" and elements is not None else operation


def _group(details: Mapping[str, Any], recorded: Recorded) -> Group:
    name, members = details.get("Process Group Name"), details.get("Process Group Ranks")
    name = name if isinstance(name, str) else ""
    size = whole(details.get("Group size")) or 0
    if not isinstance(members, str) and name:
        configured = recorded.distributed.get("pg_config")
        for each in configured if isinstance(configured, list) else ():
            if isinstance(each, dict) and each.get("pg_name") == name and isinstance(each.get("ranks"), list):
                members = str(each["ranks"])
    return Group(name, members[:1000] if isinstance(members, str) else "", size)


def _remarks(
    recorded: Recorded, own: Sequence[Kernel], left_out: Mapping[str, int], before: int, span: int
) -> list[str]:
    found = [CUT] if recorded.is_cut else []
    found += recorded.remarks
    n_devices = len({kernel.stream[0] for kernel in own if kernel.kind == "kernel"})
    if n_devices > 1:
        found.append(f"the trace has kernels of {n_devices} devices, whose times are merged")
    if left_out:
        names = ", ".join(f"{name} ({n:,})" for name, n in sorted(left_out.items())[:MAX_NAMES])
        found.append(f"waiting is unknown in collectives that ranks leave at different times: {names}")
    if before:
        found.append(f"{before / span:.1%} of the span was work {BEFORE} of the steps")
    return found
