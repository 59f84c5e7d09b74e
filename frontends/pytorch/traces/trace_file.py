"""The estimate of a trace: its operators run again on meta tensors, with the times that it recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike, fsdecode
from typing import Any

import torch

from costcore.errors import CostError
from costcore.trace.gc_paused import collector_off
from costcore.trace.profile import Profile
from costcore.trace.recorder import Recorder

from ..capture.context import capture
from ..naming import full_name
from .graphs import GRAPH, Captures, ends_capture, expanded, is_start
from .lists import Neighbors
from .nesting import add_launches, device_time, join_kernels, nest
from .places import Step, name_modules, place, place_backward, steps_of
from .reading import join_execution_trace, read
from .records import Kernel, Op, Recorded
from .replay import Replay
from .stopped import stopped
from .timeline import profile_of

HOW_TO_RECORD = "record with torch.profiler.profile(record_shapes=True, with_stack=True)"

CUT = "the file ends early; what follows is missing"

MAX_NAMES = 8
"""The most operators that a note names."""


@collector_off()
def estimate(
    recorder: Recorder,
    model: Any,
    inputs: Any = None,
    *,
    et: Any = None,
    profiler_step: int | None = None,
    graphs: Any = None,
) -> None:
    """Record the calls of a trace.

    Args:
        recorder: receives the calls, with their measured times: on the device if that worked, else on the host.
        model: the path of a trace of ``torch.profiler``, or of an execution trace; plain or compressed by gzip.
        inputs: must be None: a trace has its shapes.
        et: the path of the execution trace that was recorded together with a trace of the profiler. It has ids of
            tensors, results and overloads, which the other lacks.
        profiler_step: number of the step of the profiler that is counted, 6 for ``ProfilerStep#6``. Default: of several
            steps the one that took the median time; without steps everything.
        graphs: the path of the trace in which the CUDA or HIP graphs were captured that the other replays.

    Raises:
        TypeError: if inputs are given, or an option is invalid.
        CostError: if a file cannot be read, is not a trace, or has no operators.
    """
    if inputs is not None:
        raise TypeError("a trace has its shapes: it takes no inputs")
    if profiler_step is not None and type(profiler_step) is not int:
        raise TypeError(f"profiler_step must be the number of a step of the profiler (got {profiler_step!r})")
    name = fsdecode(model) if isinstance(model, (str, bytes, PathLike)) else str(model)
    recorded = read(model)
    if et is not None:
        join_execution_trace(recorded, read(et), fsdecode(et))
    if not recorded.ops and not recorded.kernels:
        raise CostError(f"{name} has no operators and no kernels: it is not a trace of a run of PyTorch")
    chosen = _chosen_step(recorder, recorded, profiler_step, name)
    _record(recorder, recorded, chosen, None if graphs is None else Captures(read(graphs)))


def _chosen_step(recorder: Recorder, recorded: Recorded, number: int | None, name: str) -> Step | None:
    """Return the step that is counted; None for everything."""
    steps = steps_of(recorded)
    if number is not None:
        found = [step for step in steps if step.number == number]
        if not found:
            have = ", ".join(str(step.number) for step in steps[:MAX_NAMES]) or "none"
            raise CostError(f"{name} has no step {number} of the profiler (it has {have})")
        return found[0]
    if not steps:
        return None
    median = sorted(steps, key=lambda step: step.end - step.start)[(len(steps) - 1) // 2]
    if len(steps) > 1:
        recorder.notes.append(
            f"the trace has {len(steps)} steps of the profiler; step {median.number}, which took the median time, is "
            "counted (profiler_step=…)"
        )
    return median


def _record(recorder: Recorder, recorded: Recorded, step: Step | None, captures: Captures | None) -> None:
    """Record the calls of one step, or of everything."""
    if recorded.has_times:
        if recorded.kernels:
            add_launches(recorded)
        threads = nest(recorded.ops)
        join_kernels(recorded, threads)
        place(recorded, threads)
    else:
        threads = {(0, 0): recorded.ops}
        place_backward(recorded.ops)
    ops = [op for on_thread in threads.values() for op in on_thread]
    if captures is not None:
        ops, n_unknown = expanded(ops, captures)
        threads = {}
        for op in ops:
            threads.setdefault(op.thread, []).append(op)
        if n_unknown:
            recorder.notes.append(f"{n_unknown:,} graphs are not in the trace of captures")
    modules = name_modules(ops)
    if step is not None:
        ops = [op for op in ops if step.start <= op.start < step.end]
    times = device_time(ops)
    roots = sorted((op for op in ops if op.parent is None or not _is_inside(op.parent, step)), key=lambda op: op.start)
    has_tracebacks, recorder.tracebacks = recorder.tracebacks, False
    launching = {op for op in ops if times[op]} if recorded.kernels else None
    with torch.no_grad(), capture(recorder) as mode:
        replay = Replay(
            recorder,
            mode,
            Neighbors(threads),
            launching,
            stopped(ops, times),
            has_ids=any(op.outputs for op in recorded.ops),
        )
        replay.run(roots)
    _set_lines(recorder, replay, has_tracebacks)
    if not any(op.outputs for op in recorded.ops):
        _forget_operands(recorder)
    recorder.inputs.clear()
    recorder.buffers.clear()
    if modules:
        recorder.modules = modules
    if recorded.has_times:
        profile = profile_of(recorded, ops, _owners(recorder, replay), step)
        no_bound = _without_bound(recorded, profile)
        cut = (CUT,) if recorded.is_cut else ()
        _set_times(recorder, replay, profile._replace(no_bound=no_bound, remarks=cut))
        recorder.notes += [no_bound] if no_bound else []
    _remark(recorder, recorded, replay)
    if captures is None:
        _remark_graphs(recorder, recorded, ops)


def _is_inside(op: Op, step: Step | None) -> bool:
    return step is None or step.start <= op.start < step.end


def _set_lines(recorder: Recorder, replay: Replay, has_tracebacks: bool) -> None:
    """Set the lines of the user's code of calls: of all of them, or of those that no calculator is known for."""
    for op, calls in replay.calls.items():
        for position in calls:
            call = recorder.calls[position]
            if has_tracebacks or call.where or call.layer.op == call.native:
                recorder.calls[position] = call._replace(where="".join(op.lines))


def _forget_operands(recorder: Recorder) -> None:
    """Remove the ids of operands that no earlier call produced.

    A trace without ids of tensors gives every call tensors of its own. Whether two calls read the same weight or
    activation is unknown, and not that all of them are different ones.
    """
    produced: set[int] = set()
    for i, call in enumerate(recorder.calls):
        inputs = tuple(identity if identity in produced else 0 for identity in call.inputs)
        produced.update(call.outputs)
        if inputs != call.inputs:
            recorder.calls[i] = call._replace(inputs=inputs)


def _without_bound(recorded: Recorded, profile: Profile) -> str:
    """Return what the file is if its times are not those of the work that it lists; empty if they are."""
    ran = {kernel.correlation for kernel in recorded.kernels}
    n_waiting = sum(number not in ran and is_start(launch) for number, launch in recorded.launches.items())
    if profile.clock == "host" and (recorded.device or n_waiting):
        device = recorded.device or "a device"
        return f"the trace has no kernels: its times are those of the host, which launches work, and not of {device}"
    if n_waiting > len(recorded.kernels) and any(ends_capture(launch) for launch in recorded.launches.values()):
        return (
            f"the trace is of the capture of a graph: {n_waiting:,} launches were recorded into it, and ran no kernel. "
            "Pass it as graphs=… with the trace of a replay"
        )
    return ""


def _owners(recorder: Recorder, replay: Replay) -> dict[Op, int]:
    """Return the position of the call of every operator that is one.

    An operator that is recorded as several calls is the first of them; the others are operators inside of it.
    """
    owners: dict[Op, int] = {}
    for op, calls in replay.calls.items():
        if calls:
            owners[op] = calls[0]
            for position, part in _parts(op, [recorder.calls[i].operator for i in calls[1:]]):
                owners[part] = calls[1 + position]
    return owners


def _set_times(recorder: Recorder, replay: Replay, profile: Profile) -> None:
    """Set the measured time of every call: of the device, or if it did nothing, of the host."""
    recorder.profile = profile
    of_device = profile.clock == "device"
    for calls in replay.calls.values():
        for position in calls:
            time = profile.calls.get(position)
            recorder.seconds[position] = 0.0 if time is None else (time.device if of_device else time.host) / 1e9


def _parts(op: Op, names: Sequence[str]) -> Iterator[tuple[int, Op]]:
    """Yield the operators inside of one that are those of its calls with these names, each with its position."""
    waiting = [*reversed(op.children)]
    position = 0
    while waiting and position < len(names):
        child = waiting.pop()
        if child.name in names[position:] or full_name(child.name) in names[position:]:
            name = child.name if child.name in names[position:] else full_name(child.name)
            position = names.index(name, position)
            yield position, child
            position += 1
        else:
            waiting += reversed(child.children)


def _remark(recorder: Recorder, recorded: Recorded, replay: Replay) -> None:
    """Note where the trace is from, what it leaves out, and what was assumed instead."""
    if recorded.device:
        recorder.notes.append(f"recorded on {recorded.device}")
    recorder.notes += recorded.remarks
    if recorded.is_cut:
        recorder.assume(f"trace: {CUT}")
    if not recorded.has_shapes:
        recorder.notes.append(f"the trace has no shapes, so that only times are known: {HOW_TO_RECORD}")
    total = sum(kernel.end - kernel.start for kernel in recorded.kernels)
    for reason, length in _elsewhere(recorded.kernels).items():
        recorder.notes.append(f"{length / total:.1%} of the time of the device was {reason}, and is of no call")
    if replay.unlisted:
        names = ", ".join(f"{name} ({n})" for name, n in replay.unlisted.most_common(MAX_NAMES))
        recorder.notes.append(
            f"the trace has no shapes of lists, of more than 30 tensors for example, and of indices: {names}"
        )
    for (name, argument), n in replay.assumed.items():
        for _ in range(n):
            recorder.assume(f"trace: {argument} of {name} is not in the trace; a usual value was taken")


def _remark_graphs(recorder: Recorder, recorded: Recorded, ops: Iterable[Op]) -> None:
    """Note how much of the time is in graphs, whose kernels have no shapes."""
    total = sum(kernel.end - kernel.start for kernel in recorded.kernels)
    inside = sum(each.end - each.start for op in ops if op.name.startswith(GRAPH) for each in op.kernels)
    if inside:
        recorder.notes.append(
            f"{inside / total:.1%} of the time of the device is in graphs, whose operators only the trace of their "
            "capture has (graphs=…)"
        )


def _elsewhere(kernels: Iterable[Kernel]) -> Counter[str]:
    """Return the nanoseconds of work that no operator launched, by the reason."""
    found: Counter[str] = Counter()
    for kernel in kernels:
        if kernel.reason and kernel.end > kernel.start:
            found[kernel.reason] += kernel.end - kernel.start
    return found
