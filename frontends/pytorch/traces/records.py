"""The content of a trace: operators with arguments, spans of modules and annotations, and work of the device.

Later sections assign kernels to operators, set modules and phases, divide time among calls, and match captured graphs.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from sys import intern
from typing import Any, NamedTuple, TypeAlias

from costcore.ir import Layer, Tensor
from costcore.trace.call import Module
from costcore.trace.run import CallTime, Elsewhere, Interval, Profile, Stream, divide, starts

NODE = "autograd::engine::evaluate_function"
"""The name prefix of spans in which autograd runs a node of the backward pass."""

Thread: TypeAlias = "tuple[Any, Any]"
"""Process and thread of an event."""


class TensorArgument(NamedTuple):
    """A tensor among the arguments of an operator.

    Attributes:
        dims: its shape.
        strides: its strides; None if they are not recorded.
        dtype: the name of its dtype in the trace; ``""`` if it is not recorded.
        key: its identity: id, storage and offset in an execution trace; None if the trace has no ids.
    """

    dims: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: str
    key: Any = None


class ListArgument(NamedTuple):
    """A list of tensors, or of tensors and None."""

    items: tuple[Any, ...]


class Constant(NamedTuple):
    """A number, a text, a list of these, or None."""

    value: Any


class Missing(NamedTuple):
    """An unrecorded argument: None, an undefined tensor, a device, or a value that the trace cannot print.

    Attributes:
        is_given: whether it has a value that the trace omits.
    """

    is_given: bool = False


Argument: TypeAlias = "TensorArgument | ListArgument | Constant | Missing"


@dataclass(eq=False, slots=True)
class Op:
    """One operator, or another span of the host, such as a node of the backward pass.

    Times are in nanoseconds.

    Attributes:
        name: its name, ``aten::conv2d``.
        arguments: its arguments in order; None if shapes were not recorded.
        start, end: when the host ran it.
        thread: its thread.
        sequence: the sequence number of autograd; -1 if there is none.
        identity: number of the operator in its file: ``External id`` of Kineto, ``rf_id`` of an execution trace.
        schema: its schema with the overload, if the file has it.
        outputs: its results, if the file has them.
        details: further data of collectives and Triton kernels.
        parent: the enclosing operator.
        forward: for a node of the backward pass, the operator that made it.
        children: the operators inside it, in order.
        kernels: work of the device that it launched itself.
        module: path of its module.
        phase: phase of the run.
        lines: the running lines of the user's code, the innermost last.
        position: its position among the operators of its thread.
    """

    name: str
    arguments: tuple[Argument, ...] | None
    start: int
    end: int
    thread: Thread
    sequence: int = -1
    identity: int = 0
    schema: str = ""
    outputs: tuple[Argument, ...] = ()
    details: dict[str, Any] | None = None
    parent: Op | None = None
    children: list[Op] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)
    module: str = ""
    phase: str = "forward"
    lines: tuple[str, ...] = ()
    forward: Op | None = None
    position: int = 0


@dataclass(eq=False, slots=True)
class Kernel:
    """Work of the device: a kernel, a copy or a fill. Times are in nanoseconds.

    Attributes:
        name: its name.
        kind: ``kernel``, ``memcpy`` or ``memset``.
        start, end: when the device ran it.
        stream: its device and stream.
        correlation: number of its launch; -1 if it has none.
        external: ``External id``; -1 if it has none.
        reason: why it belongs to no operator; empty if it belongs to one.
        is_taken: whether an operator was made for its launch.
        details: the collective that it runs, if the file states it.
    """

    name: str
    kind: str
    start: int
    end: int
    stream: tuple[Any, Any]
    correlation: int
    external: int = -1
    reason: str = ""
    is_taken: bool = False
    details: dict[str, Any] | None = None


class Launch(NamedTuple):
    """The call of the host that starts work of the device, with the name of the kernel if the file has it."""

    name: str
    thread: Thread
    start: int
    kernel: str = ""


class Span(NamedTuple):
    """A span of a thread, in nanoseconds."""

    start: int
    end: int
    name: str


@dataclass(slots=True)
class Recorded:
    """The content of a trace.

    Attributes:
        ops: the operators.
        kernels: the work of the device.
        launches: by correlation number.
        modules, annotations, frames: spans by thread: calls of modules, annotations, and lines of the user's code.
        device: name of the device that ran it; empty if unknown.
        has_shapes: whether the arguments of operators were recorded.
        has_times: whether operators have times; an execution trace has none.
        is_cut: whether the file ends early.
        distributed: rank and process groups of the process, ``distributedInfo``; empty if unknown.
        remarks: further problems of the file, as sentences.
    """

    ops: list[Op] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)
    launches: dict[int, Launch] = field(default_factory=dict)
    modules: dict[Thread, list[Span]] = field(default_factory=dict)
    annotations: dict[Thread, list[Span]] = field(default_factory=dict)
    frames: dict[Thread, list[Span]] = field(default_factory=dict)
    device: str = ""
    has_shapes: bool = False
    has_times: bool = True
    is_cut: bool = False
    distributed: dict[str, Any] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)


# Nesting: operators on each thread, and the operator that launched work of the device


BEFORE = "launched before the window"

OUTSIDE = "launched outside of operators"


def add_launches(recorded: Recorded) -> None:
    """Add an operator for every launch of a graph, and for every kernel whose launch no operator encloses.

    All kernels of a graph share one launch in the file.
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
            name = f"{GRAPH}{launch.name}"
        elif around is None and kernels[0].kind == "kernel":
            name = f"{KERNEL}{short_name(kernels[0].name)}"
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
    """Set parents and children of operators by time; return the operators of each thread by start."""
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
    """Assign every piece of work of the device to the operator that launched it, or set the reason if there is none.

    The launch has the same correlation number; the innermost operator around the launch, on its thread, gets the work.
    ``External id`` is used only for work without a launch in the file, and only if exactly one operator has it: in old
    files it is the correlation number.
    """
    starts = {thread: [op.start for op in ops] for thread, ops in threads.items()}
    by_identity: dict[int, Op | None] = {}
    for op in recorded.ops:
        by_identity[op.identity] = None if op.identity in by_identity else op
    names_operators = not any(kernel.external == kernel.correlation for kernel in recorded.kernels[:1000])
    for kernel in recorded.kernels:
        if kernel.is_taken:
            continue
        launch = recorded.launches.get(kernel.correlation)
        if launch is None:
            found = by_identity.get(kernel.external) if names_operators and kernel.external > 0 else None
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


def spans_at(spans: Iterable[Span], times: Iterable[int]) -> Iterator[tuple[Span, ...]]:
    """Yield for every time, in ascending order, the spans around it, the innermost last; spans nest."""
    waiting = sorted(spans, key=lambda span: (span.start, -span.end))
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
        yield last


def device_time(ops: Sequence[Op]) -> dict[Op, int]:
    """Return the nanoseconds of device work below each operator that has any."""
    found: Counter[Op] = Counter()
    for op in reversed(ops):  # children come after their parents
        length = found.get(op, 0) + sum(kernel_time(op.kernels)) if op.kernels or op in found else 0
        if length:
            found[op] = length
            if op.parent is not None:
                found[op.parent] += length
    return found


def kernel_time(kernels: Iterable[Kernel]) -> Iterable[int]:
    """Return the nanoseconds of each piece of work."""
    return (kernel.end - kernel.start for kernel in kernels)


# Module, phase, step and lines of the user's code


_ACCUMULATE = "torch::autograd::AccumulateGrad"

_STEP = "ProfilerStep#"

_OPTIMIZER = "Optimizer.step#"


class Step(NamedTuple):
    """A step of the profiler.

    Attributes:
        number: its number, ``ProfilerStep#6``.
        start, end: its span on the host, in nanoseconds.
    """

    number: int
    start: int
    end: int


def steps_of(recorded: Recorded) -> list[Step]:
    """Return the steps of a trace in order."""
    found = []
    for span in (span for spans in recorded.annotations.values() for span in spans):
        number = span.name.removeprefix(_STEP)
        if span.name.startswith(_STEP) and number.isdecimal() and len(number) < 20:
            found.append(Step(int(number), span.start, span.end))
    return sorted(found)


def is_node(op: Op) -> bool:
    """Return whether a span is a node of the backward pass, not an operator."""
    return op.name.startswith(NODE) or op.name.startswith(_ACCUMULATE) or "Backward" in op.name.rpartition("::")[2]


def place(recorded: Recorded, threads: Mapping[Thread, Sequence[Op]]) -> None:
    """Set module, phase and lines of every operator."""
    for thread, ops in threads.items():
        times = [op.start for op in ops]
        last: tuple[Span, ...] = ()
        module = ""
        lines: tuple[str, ...] = ()
        of_modules = recorded.modules.get(thread, ())
        for op, spans in zip(ops, spans_at(of_modules, times), strict=True) if of_modules else ():
            if spans is not last:  # operators between the same spans share one text
                last, module = spans, intern(".".join([span.name for span in spans]))
            op.module = module
        last = ()
        for op, spans in zip(ops, spans_at(recorded.frames.get(thread, ()), times), strict=True):
            if spans is not last:
                last, lines = spans, tuple([span.name for span in spans])
            op.lines = lines
        optimizers = [span for span in recorded.annotations.get(thread, ()) if span.name.startswith(_OPTIMIZER)]
        for op, spans in zip(ops, spans_at(optimizers, times), strict=True):
            if spans:
                op.phase = "optimizer"
    place_backward([op for ops in threads.values() for op in ops])


def place_backward(ops: Sequence[Op]) -> None:
    """Set phase and module of operators in a backward pass.

    A node has the sequence number of the forward operator that made it. Inside a backward pass, only operators in grad
    mode have a number: those of a recomputation, or all operators if the backward pass creates a graph.

    Args:
        ops: all operators, those of a thread by their start.
    """
    made_at: dict[int, Op] = {}
    for op in sorted((op for op in ops if op.sequence >= 0 and not is_node(op)), key=lambda op: op.start):
        made_at[op.sequence] = op  # the last of equal numbers: an operator without a node does not raise the number
    last: dict[Thread, Op] = {}
    inside: list[Op] = []
    for op in ops:
        parent = op.parent
        if op.name.startswith(_OPTIMIZER):
            op.phase = "optimizer"
        elif op.name.startswith((NODE, _ACCUMULATE)):
            op.phase = "backward"
            made = last.get(op.thread) if _ACCUMULATE in op.name else made_at.get(op.sequence)
            if made is None and parent is not None and parent.phase == "backward":
                made = parent
            op.module, op.lines = ("", ()) if made is None else (made.module, made.lines)
            last[op.thread] = op
        elif parent is not None and parent.phase in ("backward", "recompute", "optimizer"):
            op.phase = parent.phase
            if op.phase == "backward" and not op.module:
                op.module, op.lines = parent.module, op.lines or parent.lines
            if is_node(op):
                op.forward = made_at.get(op.sequence)
            elif is_node(parent):
                inside.append(op)
    has_graph = all(op.sequence >= 0 for op in inside)
    recomputed = {op for op in inside if op.sequence >= 0 and not has_graph and op.phase == "backward"}
    for op in ops:
        if op in recomputed or (op.parent is not None and op.parent.phase == "recompute"):
            op.phase = "recompute"


def name_modules(ops: Sequence[Op]) -> dict[str, Module]:
    """Return the modules of a trace by path, and shorten the paths of operators to begin below the outermost module.

    A trace numbers the modules of a class, ``Conv2d_3``. If one module encloses all others, its path is ``""``, like
    that of a model.
    """
    outermost = {op.module.partition(".")[0] for op in ops if op.module}
    root = outermost.pop() if len(outermost) == 1 else ""
    modules = {"": Module(_class_of(root) if root else "trace")}
    if not outermost and not root:
        return {}
    paths: dict[str, str] = {}
    for op in ops:
        path = paths.get(op.module)
        if path is None:
            path = paths[op.module] = op.module.removeprefix(root).removeprefix(".") if root else op.module
            names = path.split(".") if path else []
            for i in range(1, len(names) + 1):
                modules.setdefault(".".join(names[:i]), Module(_class_of(names[i - 1])))
        op.module = path
    return modules


def _class_of(name: str) -> str:
    return name.rpartition("_")[0] or name


# Time, divided among calls, other work and idle time without a remainder


COPIES = "copies and fills"

OTHER_STEPS = "of another step"

NO_CALL = "inside of operators without a call"

COMMUNICATION = re.compile(r"nccl|rccl|oneccl|allreduce|all_reduce|reduce_scatter|all_gather|allgather", re.IGNORECASE)

_TRANSFER = re.compile(r"Mem_?cpy.*(HtoD|DtoH|HostToDevice|DeviceToHost)", re.IGNORECASE)

_TF32 = re.compile(r"tf32|(?<!bf16_)s1688gemm(?!.*bf16)", re.IGNORECASE)


# Cached, because a run has few distinct kernel names, which may be a thousand characters long.


@lru_cache(maxsize=1 << 14)
def _communicates(name: str) -> bool:
    return COMMUNICATION.search(name) is not None


@lru_cache(maxsize=1 << 14)
def _transfers(name: str) -> bool:
    return _TRANSFER.search(name) is not None


def profile_of(recorded: Recorded, ops: Sequence[Op], owners: Mapping[Op, int], step: Step | None) -> Profile:
    """Return the measured times of a step.

    Args:
        recorded: the trace.
        ops: the operators of the step.
        owners: the position of its call, by operator.
        step: the step; None for the whole trace.
    """
    if any(kernel.start < kernel.end for kernel in recorded.kernels):
        return _on_device(recorded, ops, owners)
    return _on_host(recorded, ops, owners, step)


class _Piece(NamedTuple):
    """A kernel of a graph, or without an operator, whose time is also listed within its call."""

    position: int
    kernel: Kernel


def _on_device(recorded: Recorded, ops: Sequence[Op], owners: Mapping[Op, int]) -> Profile:
    inside = {kernel: op for op in ops for kernel in op.kernels}
    has_other_steps = len(inside) < sum(not kernel.reason for kernel in recorded.kernels)
    own = [*inside] if inside and has_other_steps else recorded.kernels
    start, end = min(kernel.start for kernel in own), max(kernel.end for kernel in own)
    intervals, lengths, counts, aside = [], Counter[Any](), Counter[Any](), Counter[Any]()
    for kernel in recorded.kernels:
        if kernel.end <= start or kernel.start >= end:
            continue
        op = inside.get(kernel)
        owner = _owner(kernel, op, owners)
        if op is not None and op.name.startswith((GRAPH, KERNEL)) and isinstance(owner, int):
            owner = _Piece(owner, kernel)
        is_last = kernel.kind != "kernel" or _communicates(kernel.name)
        intervals.append(Interval(kernel.start, kernel.end, (int(is_last), kernel.start), owner))
        lengths[owner] += min(kernel.end, end) - max(kernel.start, start)
        counts[owner] += 1
        if kernel.kind == "memset" or _transfers(kernel.name):
            aside[owner] += min(kernel.end, end) - max(kernel.start, start)
    divided, idle = divide(intervals, start, end)
    alone, host, begun = Counter(divided), _host_times(ops, owners), starts(intervals, start)
    pieces: dict[int, list[tuple[str, CallTime]]] = defaultdict(list)
    for piece in sorted((each for each in lengths if isinstance(each, _Piece)), key=lambda each: each.kernel.start):
        time = CallTime(lengths[piece], 0, alone[piece], 1, aside[piece], begun[piece])
        pieces[piece.position].append((piece.kernel.name, time))
        for figures in (lengths, counts, aside, alone):
            figures[piece.position] += figures.pop(piece, 0)
        begun[piece.position] = min(begun[piece], begun.get(piece.position, begun[piece]))
    calls = {
        position: CallTime(
            lengths[position],
            host.get(position, 0),
            alone.get(position, 0),
            counts[position],
            aside[position],
            begun.get(position, 0),
        )
        for position in {*owners.values()}
    }
    elsewhere = _elsewhere(lengths, alone, counts)
    tf32 = any(_TF32.search(name) for name in {kernel.name for kernel in recorded.kernels})
    streams = _streams(recorded.kernels, start, end)
    times = dict(sorted(calls.items()))
    found = Profile(recorded.device, "device", end - start, idle, times, elsewhere, streams, tf32)
    return found._replace(kernels=dict(pieces))


def _owner(kernel: Kernel, op: Op | None, owners: Mapping[Op, int]) -> Any:
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
    host, begun = _host_times(ops, owners), starts(intervals, start)
    calls = {
        i: CallTime(0, host.get(i, 0), alone.get(i, 0), 0, start=begun.get(i, 0)) for i in sorted({*owners.values()})
    }
    elsewhere = _elsewhere(Counter(alone), alone, Counter(alone.keys()))
    return Profile(recorded.device, "host", end - start, idle, calls, elsewhere)


def _host_times(ops: Iterable[Op], owners: Mapping[Op, int]) -> dict[int, int]:
    # The time of a call excludes the calls inside it.
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
        if type(owner) is tuple
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


# Graphs of kernels that one launch starts, with the operators of their capture
#
# While a graph is captured, its launches are recorded without kernels, in the order in which a replay runs them. Where
# launches name their kernels (ROCm), a replay is matched by names, otherwise by the number of launches.


GRAPH, KERNEL = "graph::", "kernel::"
"""The prefixes of the names of operators for a graph, and for a kernel without an operator."""

EQUAL = 0.98
"""The minimum share of equal kernel names in a replay and its capture: libraries may choose other kernels."""

_STARTS_WORK = re.compile(r"[lL]aunch|[mM]em(cpy|set).*Async")

_ENDS_CAPTURE = re.compile(r"EndCapture|GraphInstantiate")


class Captured(NamedTuple):
    """A captured launch: its kernel if the file names it, and its enclosing operator if there is one."""

    kernel: str
    op: Op | None


class Captures:
    """The launches that a trace recorded while graphs were captured.

    Args:
        recorded: the trace.
    """

    def __init__(self, recorded: Recorded) -> None:
        threads = nest(recorded.ops)
        place(recorded, threads)
        starts = {thread: [op.start for op in ops] for thread, ops in threads.items()}
        ran = {kernel.correlation for kernel in recorded.kernels}
        self._captures: list[list[Captured]] = [[]]
        self._at = 0
        for number, launch in sorted(recorded.launches.items(), key=lambda item: (item[1].start, item[0])):
            if ends_capture(launch):
                self._captures.append([])
            elif number not in ran and is_start(launch):
                op = innermost(threads.get(launch.thread, ()), starts.get(launch.thread, ()), launch.start)
                self._captures[-1].append(Captured(_plain(launch.kernel), op))
        self._captures = [each for each in self._captures if each]

    def of(self, kernels: Sequence[Kernel]) -> Sequence[Captured] | None:
        """Return the captured launches of a replay, one per kernel in order; None if no capture matches.

        Replays usually have the order of the captures, so the search begins after the last match.
        """
        names = [_plain(kernel.name) for kernel in kernels]
        order = [*range(self._at, len(self._captures)), *range(self._at)]
        for i in order:
            found = _fitting(names, self._captures[i])
            if found is not None:
                self._at = i
                return found
        return None


def ends_capture(launch: Launch) -> bool:
    """Return whether a call of the host ends the capture of a graph."""
    return _ENDS_CAPTURE.search(launch.name) is not None


def is_start(launch: Launch) -> bool:
    """Return whether a call of the host starts one piece of work, and not a whole graph."""
    return _STARTS_WORK.search(launch.name) is not None and not is_graph(launch)


def _fitting(names: Sequence[str], captured: Sequence[Captured]) -> Sequence[Captured] | None:
    if not any(each.kernel for each in captured):
        return captured if len(captured) == len(names) else None
    for start in range(len(captured) - len(names) + 1):
        some = captured[start : start + len(names)]
        if sum(name == each.kernel for name, each in zip(names, some, strict=True)) >= EQUAL * len(names):
            return some
    return None


def _plain(kernel: str) -> str:
    return kernel.replace("[clone .kd]", "").strip()


def expanded(ops: Iterable[Op], captures: Captures) -> tuple[list[Op], int]:
    """Return operators with captured operators inside every launch of a graph, and the number of unknown graphs.

    The operators of a replay have their own thread, in the order of the capture.

    Args:
        ops: all operators, parents first.
        captures: the captures.
    """
    found: list[Op] = []
    n_unknown = 0
    for op in ops:
        found.append(op)
        if not op.name.startswith(GRAPH) or not op.kernels:
            continue
        op.kernels.sort(key=lambda kernel: kernel.start)
        captured = captures.of(op.kernels)
        if captured is None:
            n_unknown += 1
            continue
        copies: dict[Op, Op] = {}
        kernels, op.kernels = op.kernels, []
        for kernel, each in zip(kernels, captured, strict=True):
            owner = op if each.op is None else _copy(each.op, op, copies)
            owner.kernels.append(kernel)
        found += _below(op)
    return found, n_unknown


def _copy(op: Op, graph: Op, copies: dict[Op, Op]) -> Op:
    if op not in copies:
        around = graph if op.parent is None else _copy(op.parent, graph, copies)
        copies[op] = replace(
            op,
            start=graph.start,
            end=graph.end,
            thread=(graph.thread, graph.start),
            sequence=-1,
            parent=around,
            children=[],
            kernels=[],
            phase=graph.phase,
        )
        around.children.append(copies[op])
    return copies[op]


def _below(op: Op) -> Iterator[Op]:
    for child in op.children:
        yield child
        yield from _below(child)


# Collectives


PARAMETERS = "record_param_comms"
"""The name of the span with the arguments of a collective."""

OPERATORS = {
    **dict.fromkeys(("allreduce", "allreduce_coalesced", "all_reduce", "all_reduce_barrier"), "all_reduce"),
    **dict.fromkeys(("broadcast", "broadcast_oop", "_broadcast_oop"), "broadcast"),
    **dict.fromkeys(("allgather", "all_gather", "_allgather_base", "allgather_into_tensor_coalesced"), "all_gather"),
    **dict.fromkeys(("allgather_coalesced", "all_gather_into_tensor"), "all_gather"),
    **dict.fromkeys(("reduce_scatter", "_reduce_scatter_base", "reduce_scatter_tensor"), "reduce_scatter"),
    "reduce_scatter_tensor_coalesced": "reduce_scatter",
    **dict.fromkeys(("all_to_all", "all_to_allv", "alltoall", "alltoall_base"), "all_to_all"),
    **dict.fromkeys(("reduce", "_reduce_oop"), "reduce_to_root"),
    "gather": "gather_to_root",
    "scatter": "scatter_from_root",
    "send": "send",
    "recv": "recv",
    "barrier": "barrier",
}
"""Canonical operators by the names of collectives in a trace."""

BOOKKEEPING = frozenset(("wait", "init"))
"""Spans that a trace names like collectives, but that send nothing."""

_REDUCED = ("all_reduce", "reduce_scatter", "reduce_to_root")

_DTYPES = {
    "Float": "float32",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Double": "float64",
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Byte": "uint8",
    "Char": "int8",
    "Bool": "bool",
    "Float8_e4m3fn": "float8_e4m3fn",
    "Float8_e5m2": "float8_e5m2",
}


def collective_of(op: Op) -> Layer | None:
    """Return the collective of a span as a layer; None if the file lacks data."""
    details = op.details or {}
    name = OPERATORS.get(str(details.get("Collective name")))
    if name is None:
        return None
    n = whole(details.get("Group size"))
    if name == "barrier":
        return Layer(name, {}, (), {"group_size": n}) if n else None
    sent, received = whole(details.get("In msg nelems")), whole(details.get("Out msg nelems"))
    dtype = _DTYPES.get(str(details.get("dtype")))
    if n is None or sent is None or received is None or dtype is None:
        return None
    attributes: dict[str, object] = {"group_size": n} | ({"reduce": "sum"} if name in _REDUCED else {})
    inputs = {} if name == "recv" else {"x0": Tensor((sent,), dtype)}
    outputs = () if name == "send" else (Tensor((received,), dtype),)
    return Layer(name, inputs, outputs, attributes)


def is_bookkeeping(op: Op) -> bool:
    """Return whether a span names a collective that sends nothing."""
    return str((op.details or {}).get("Collective name")) in BOOKKEEPING


def whole(value: object) -> int | None:
    """Return a whole number that a trace states as a number or as text; None for anything else."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 20:
        value = int(value)
    return value if type(value) is int and 0 <= value < 2**63 else None
