"""The estimate of a trace: its operators, replayed on meta tensors, with their recorded times.

Below are the readers of the formats: the profiler (Kineto) and execution traces.
"""

from __future__ import annotations

import ast
import marshal
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from os import PathLike, fsdecode
from pathlib import Path
from sys import intern
from typing import Any

import torch

from costcore.errors import CostError
from costcore.registry import first_bytes
from costcore.trace.interrupts import collector_off, move_to_oldest_generation
from costcore.trace.run import Profile, Recorder

from ..capture.autocast import skip_compiler
from ..capture.context import capture
from ..naming import full_name
from .json_stream import JsonStream
from .profiler_files import (
    AROUND,
    IN_ROCPROF,
    OF_XLA,
    RocprofReader,
    add_missing_launches,
    add_operator,
    add_range,
    category_of,
    is_protobuf,
    read_device_file,
    read_protobuf,
)
from .records import (
    GRAPH,
    NODE,
    PARAMETERS,
    Argument,
    Captures,
    Constant,
    Kernel,
    Launch,
    ListArgument,
    Missing,
    Op,
    Recorded,
    Span,
    Step,
    TensorArgument,
    Thread,
    add_launches,
    device_time,
    ends_capture,
    expanded,
    is_start,
    join_kernels,
    name_modules,
    nest,
    place,
    place_backward,
    profile_of,
    steps_of,
)
from .replay import Neighbors, Replay

HOW_TO_RECORD = "record with torch.profiler.profile(record_shapes=True, with_stack=True)"

COUNT_THE_MODEL = "count the model itself, a function of JAX with the package costcore-jax"

CUT = "the file ends early; later events are missing"

MAX_NAMES = 8
"""Maximum operators in a note."""


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
        recorder: receives the calls, with times of the device if the trace has any, else of the host.
        model: the path of a trace of ``torch.profiler``, or of an execution trace; plain or compressed by gzip.
        inputs: must be None: a trace has its shapes.
        et: the path of the execution trace that was recorded together with a trace of the profiler. It adds ids of
            tensors, results and overloads.
        profiler_step: number of the counted step of the profiler, 6 for ``ProfilerStep#6``. Default: the step with the
            median time; without steps, the whole trace.
        graphs: the path of the trace with the capture of the CUDA or HIP graphs that this trace replays.

    Raises:
        TypeError: if inputs are given, or an option is invalid.
        CostError: if a file cannot be read, is not a trace, or has no operators.
    """
    if inputs is not None:
        raise TypeError("a trace has its own shapes: leave out inputs")
    if profiler_step is not None and type(profiler_step) is not int:
        raise TypeError(f"profiler_step must be the number of a step of the profiler (got {profiler_step!r})")
    name = fsdecode(model) if isinstance(model, (str, bytes, PathLike)) else str(model)
    recorded = read(model)
    move_to_oldest_generation()
    if et is not None:
        join_execution_trace(recorded, read(et), fsdecode(et))
    if not recorded.ops and not recorded.kernels:
        raise CostError(f"{name} has no operators and no kernels: it is not a trace of a run of PyTorch")
    chosen = _chosen_step(recorder, recorded, profiler_step, name)
    _record(recorder, recorded, chosen, None if graphs is None else Captures(read(graphs)))


def _chosen_step(recorder: Recorder, recorded: Recorded, number: int | None, name: str) -> Step | None:
    # None: everything
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
            f"the trace has {len(steps)} steps of the profiler; step {median.number}, with the median time, is "
            "counted; profiler_step=… selects another"
        )
    return median


def _record(recorder: Recorder, recorded: Recorded, step: Step | None, captures: Captures | None) -> None:
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
    launching = times if recorded.kernels else None
    with ExitStack() as stack, torch.no_grad(), capture(recorder) as mode:
        skip_compiler(stack)
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
    for on_thread in threads.values():  # the collector would search all objects for these cycles
        for op in on_thread:
            op.parent = op.forward = None
            op.children.clear()


def _is_inside(op: Op, step: Step | None) -> bool:
    return step is None or step.start <= op.start < step.end


def _set_lines(recorder: Recorder, replay: Replay, has_tracebacks: bool) -> None:
    # Without tracebacks=True, only calls without a calculator keep their lines.
    for op, calls in replay.calls.items():
        for position in calls:
            call = recorder.calls[position]
            if has_tracebacks or call.where or call.layer.op == call.native:
                recorder.calls[position] = call._replace(where="".join(op.lines))


def _forget_operands(recorder: Recorder) -> None:
    # A trace without tensor ids gives every call its own tensors. Whether two calls share a weight or an activation is
    # unknown, which must not read as "all different".
    produced: set[int] = set()
    for i, call in enumerate(recorder.calls):
        inputs = tuple(identity if identity in produced else 0 for identity in call.inputs)
        produced.update(call.outputs)
        if inputs != call.inputs:
            recorder.calls[i] = call._replace(inputs=inputs)


def _without_bound(recorded: Recorded, profile: Profile) -> str:
    # Why the trace gives no bound on time, which needs times of kernels and dtypes; empty if it gives one.
    if any(op.details and "flops" in op.details for op in recorded.ops):
        return "the file has no dtypes of operators, on which the speed of a device depends"
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
    # An operator that is recorded as several calls owns the first one; the others belong to its children.
    owners: dict[Op, int] = {}
    for op, calls in replay.calls.items():
        if calls:
            owners[op] = calls[0]
            for position, part in _parts(op, [recorder.calls[i].operator for i in calls[1:]]):
                owners[part] = calls[1 + position]
    return owners


def _set_times(recorder: Recorder, replay: Replay, profile: Profile) -> None:
    recorder.profile = profile
    of_device = profile.clock == "device"
    for calls in replay.calls.values():
        for position in calls:
            time = profile.calls.get(position)
            recorder.seconds[position] = 0.0 if time is None else (time.device if of_device else time.host) / 1e9


def _parts(op: Op, names: Sequence[str]) -> Iterator[tuple[int, Op]]:
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
    if recorded.device:
        recorder.notes.append(f"recorded on {recorded.device}")
    recorder.notes += recorded.remarks
    if recorded.is_cut:
        recorder.assume(f"trace: {CUT}")
    if recorded.ops and all(op.name.startswith("xla::") for op in recorded.ops):
        if not any("flops" in (op.details or {}) for op in recorded.ops):
            recorder.notes.append(f"the profile has no costs, so that only times are known: {COUNT_THE_MODEL}")
    elif not recorded.has_shapes:
        recorder.notes.append(f"the trace has no shapes, so that only times are known: {HOW_TO_RECORD}")
    total = sum(kernel.end - kernel.start for kernel in recorded.kernels)
    for reason, length in _elsewhere(recorded.kernels).items():
        recorder.notes.append(f"{length / total:.1%} of the time of the device was {reason}, and belongs to no call")
    if replay.unlisted:
        names = ", ".join(f"{name} ({n})" for name, n in replay.unlisted.most_common(MAX_NAMES))
        recorder.notes.append(
            f"the trace has no shapes of indices, nor of some lists (as of more than 30 tensors): {names}"
        )
    for (name, argument), n in replay.assumed.items():
        for _ in range(n):
            recorder.assume(f"trace: {argument} of {name} is not in the trace; a typical value is assumed")


def _remark_graphs(recorder: Recorder, recorded: Recorded, ops: Iterable[Op]) -> None:
    # Kernels of a graph have no shapes.
    total = sum(kernel.end - kernel.start for kernel in recorded.kernels)
    inside = sum(each.end - each.start for op in ops if op.name.startswith(GRAPH) for each in op.kernels)
    if inside:
        recorder.notes.append(
            f"{inside / total:.1%} of the time of the device is in graphs; pass the trace of their capture to get "
            "their operators (graphs=…)"
        )


def _elsewhere(kernels: Iterable[Kernel]) -> Counter[str]:
    found: Counter[str] = Counter()
    for kernel in kernels:
        if kernel.reason and kernel.end > kernel.start:
            found[kernel.reason] += kernel.end - kernel.start
    return found


# Operators of a recomputation that an exception ended
#
# ``torch.utils.checkpoint`` ends a recomputation once all saved tensors exist, by an exception in the operator that
# saves the last one. The trace has the span of this operator, which ran only up to that point.


_VIEWS = frozenset(
    f"aten::{name}"
    for name in (
        *("view", "reshape", "_reshape_alias", "t", "transpose", "permute", "as_strided", "expand", "unsqueeze"),
        *("squeeze", "slice", "select", "narrow", "detach", "alias", "unflatten", "flatten", "empty", "resolve_conj"),
    )
)


def stopped(ops: Sequence[Op], device_times: Mapping[Op, int]) -> set[Op]:
    """Return the operators that ran only in part in a recomputation: equal operators of the forward pass did more.

    Args:
        ops: the operators.
        device_times: the time on the device of each of them.
    """
    recomputed = [op for op in ops if op.phase == "recompute" and op.arguments is not None]
    if not recomputed:
        return set()
    wanted = {_key(op) for op in recomputed}
    done: dict[tuple[str, str], set[str]] = {}
    timed: set[tuple[str, str]] = set()
    for op in ops:
        if op.phase == "forward" and op.arguments is not None and (key := _key(op)) in wanted:
            work = _work(op)
            done[key] = done[key] & work if key in done else work
            if device_times.get(op, 0):
                timed.add(key)
    return {
        op
        for op in recomputed
        if not done.get(key := _key(op), set()) <= _work(op) or (key in timed and not device_times.get(op, 0))
    }


def _key(op: Op) -> tuple[str, str]:
    return op.name, repr([x[:3] if len(x) > 3 else x for x in op.arguments or ()])


def _work(op: Op) -> set[str]:
    found: set[str] = set()
    waiting: list[Iterable[Op]] = [op.children]
    while waiting:
        for child in waiting.pop():
            if child.name not in _VIEWS:
                found.add(child.name)
            if child.children:
                waiting.append(child.children)
    return found


# Reading a trace of either format


def read(path: str | PathLike[str], only_device: bool = False) -> Recorded:
    """Return the content of a trace.

    Args:
        path: the file.
        only_device: keep only work of the device, launches, annotations and collectives; other operators and lines of
            code are most of a profiler trace.

    Raises:
        CostError: if the file cannot be read, or is not a trace.
    """
    if (of_device := read_device_file(Path(fsdecode(path)))) is not None:
        return of_device
    kineto, execution = KinetoReader(only_device), ExecutionTraceReader()
    if is_protobuf(first_bytes(fsdecode(path))):
        read_protobuf(Path(fsdecode(path)), kineto.recorded, kineto)
        add_missing_launches(kineto.recorded)
        return kineto.finish()
    rocprof = RocprofReader()
    stream = JsonStream(path, ("traceEvents", "nodes"), IN_ROCPROF)
    has_nodes = False
    for key, value in stream:
        if key == "nodes":
            has_nodes = True
            execution.add(value)
        elif key.startswith(IN_ROCPROF):
            rocprof.add(key, value)
        elif key in ("traceEvents", ""):
            kineto.add(value)
            if kineto.is_no_trace:
                raise CostError(f"{fsdecode(path)} is not a trace: most of its events have no valid time")
        else:
            kineto.add_head(key, value)
    recorded = execution.finish() if has_nodes else kineto.finish()
    of_rocprof = rocprof.finish()
    recorded = of_rocprof if of_rocprof.kernels else recorded
    recorded.is_cut = stream.is_cut
    return recorded


def join_execution_trace(recorded: Recorded, other: Recorded, name: str) -> None:
    """Add the ids, results and overloads of an execution trace to the operators of the profiler.

    Operators have the same number in both if both recorded the same run.

    Raises:
        CostError: if the two have no operator in common.
    """
    by_number: dict[int, Op] = {op.identity: op for op in other.ops}
    n = 0
    for op in recorded.ops:
        twin = by_number.get((op.details or {}).get("rf_id", 0))
        if twin is not None and twin.name == op.name and twin.arguments is not None:
            op.arguments, op.outputs, op.schema = twin.arguments, twin.outputs, twin.schema
            n += 1
    if not n:
        raise CostError(
            f"{name} was not recorded together with the trace: the two share no operator number. Record both in one run"
        )
    recorded.has_shapes = True


# Execution traces (``ExecutionTraceObserver``)


ROOT = "[pytorch|profiler|execution_trace"
"""The prefix of the names of nodes for a process or a thread."""

_NONE = "<None>"


class ExecutionTraceReader:
    """A reader of the nodes of a file, one at a time.

    Operators that an exception ended (in a recomputation) are missing with their parents. Other children of these
    parents are at the top level, without the views of the ended operator.
    """

    recorded: Recorded

    def __init__(self) -> None:
        self.recorded = Recorded(has_times=False, has_shapes=True)
        self._ops: dict[int, tuple[Op, Any]] = {}
        self._roots: set[Any] = set()

    def add(self, node: Any) -> None:
        """Read one node."""
        if not isinstance(node, dict) or not isinstance(node.get("name"), str):
            return
        name, identity = node["name"], node.get("id")
        if type(identity) is not int:
            return
        if name.startswith(ROOT):
            self._roots.add(identity)
            return
        attributes = {
            each["name"]: each.get("value")
            for each in node.get("attrs") or ()
            if isinstance(each, dict) and isinstance(each.get("name"), str)
        } or node
        order = attributes.get("rf_id")
        order = order if type(order) is int else identity
        sequence, schema = attributes.get("seq_id"), attributes.get("op_schema")
        op = Op(
            intern(name),
            _values(node, "input"),
            order,
            order,
            (0, attributes.get("tid") if isinstance(attributes.get("tid"), int) else 0),
            sequence if type(sequence) is int else -1,
            order,
            schema if isinstance(schema, str) else "",
            _values(node, "output"),
        )
        parent = node.get("ctrl_deps", node.get("parent"))
        self._ops[identity] = op, parent if type(parent) is int else None

    def finish(self) -> Recorded:
        """Return the operators, each with its parent and children."""
        for op, parent in self._ops.values():
            around = self._ops.get(parent)
            if around is not None and around[0] is not op:
                op.parent = around[0]
                around[0].children.append(op)
            elif parent in self._roots or not self._roots:
                self.recorded.ops.append(op)
            elif op.sequence < 0:
                op.parent = Op(NODE, (), op.start, op.end, op.thread, children=[op])
                self.recorded.ops.append(op.parent)
        ops, waiting = [], self.recorded.ops
        while waiting:
            op = waiting.pop()
            op.children.sort(key=lambda child: child.start)
            ops.append(op)
            waiting += op.children
        self.recorded.ops = sorted(ops, key=lambda each: each.start)
        return self.recorded


def _values(node: dict[str, Any], side: str) -> tuple[Argument, ...]:
    found = node.get(f"{side}s")
    if isinstance(found, dict):
        columns = [found.get(key) for key in ("values", "shapes", "strides", "types")]
    else:
        columns = [found, node.get(f"{side}_shapes"), node.get(f"{side}_strides"), node.get(f"{side}_types")]
    values, shapes, strides, types = (x if isinstance(x, list) else [] for x in columns)
    n = len(values)
    shapes, strides, types = (x + [None] * (n - len(x)) for x in (shapes, strides, types))
    return tuple(_value(*row) for row in zip(values, shapes, strides, types, strict=False))


def _value(value: Any, shape: Any, strides: Any, kind: Any, depth: int = 0) -> Argument:
    if not isinstance(kind, str) or depth > 8:
        return Missing()
    if kind.startswith("Tensor("):
        return _tensor(value, shape, strides, kind[7:-1])
    if kind.startswith(("GenericList[", "Tuple[")):
        inner = _split(kind[kind.index("[") + 1 : -1])
        if not isinstance(value, list):
            return Missing()
        if any(each.startswith("Tensor(") for each in inner):
            sizes = shape if isinstance(shape, list) else []
            steps = strides if isinstance(strides, list) else []
            sizes, steps = (x + [None] * (len(value) - len(x)) for x in (sizes, steps))
            rows = zip(value, sizes, steps, inner, strict=False)
            return ListArgument(tuple(_value(*row, depth=depth + 1) for row in rows))
        return Constant([None if each == _NONE else each for each in value])
    if kind in ("None", "Device") or value == _NONE:
        return Missing()
    return Constant(value)


def _tensor(value: Any, shape: Any, strides: Any, dtype: str) -> Argument:
    if "nullptr" in dtype or not isinstance(shape, list) or not all(type(x) is int for x in shape):
        return Missing()
    steps = tuple(strides) if isinstance(strides, list) and len(strides) == len(shape) and shape else None
    key = tuple(value[:3]) if isinstance(value, list) and all(isinstance(x, (int, str)) for x in value[:3]) else None
    return TensorArgument(tuple(shape), steps, intern(dtype), key)


def _split(text: str) -> list[str]:
    # Commas inside of brackets do not count.
    found, depth, start = [], 0, 0
    for i, character in enumerate(text):
        if character == "," and depth == 0:
            found.append(text[start:i])
            start = i + 1
        depth += (character in "([<") - (character in ")]>")
    return [*found, text[start:]] if text else []


# Traces of ``torch.profiler`` (Kineto)


WORK = {
    "kernel": "kernel",
    "concurrent_kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "memcpy": "memcpy",
    "gpu_memset": "memset",
    "memset": "memset",
}
"""The kind of work of the device by category, in lower case."""

OPERATOR = ("cpu_op", "Operator")
"""The categories of operators."""

XLA = "xla"
"""A category for events of XLA, which have none."""

DETAILS = frozenset(
    (
        *("Collective name", "In msg nelems", "Out msg nelems", "dtype", "Group size", "kernel_backend"),
        *("Process Group Name", "Process Group Ranks"),
    )
)
"""The keys of further data of collectives and Triton kernels."""

MODULE = "nn.Module: "

_FRAME = re.compile(r"(.+)\((\d+)\): (.+)")

_NO_USER_CODE = re.compile(
    r"(^|/)(torch|site-packages|dist-packages|importlib|python3\.\d+)/|^<|^(contextlib|threading)\.py"
)

_LISTS = frozenset(("TensorList", "GenericList"))

_NUMBERS = frozenset(("Scalar", "ScalarList"))

_NOTHING = frozenset(("", "None"))

MOST_BAD = 10**5
"""The maximum number of events without a valid time, in addition to the number of valid ones."""


class KinetoReader:
    """A reader of the events of a file, one at a time.

    Args:
        only_device: whether to leave out modules, lines of code, and operators other than collectives.

    Attributes:
        recorded: the content so far.
        is_no_trace: whether most of many events have no valid time.
    """

    recorded: Recorded
    is_no_trace: bool

    def __init__(self, only_device: bool = False) -> None:
        self.recorded = Recorded()
        self._only_device = only_device
        self._arguments: dict[bytes, tuple[Argument, ...]] = {}
        self._places: dict[Thread, Thread] = {}
        self._last: tuple[tuple[Any, Any], Thread] = ((None, None), (0, 0))
        self._lines: dict[str, str] = {}
        self._n_bad = 0
        self.is_no_trace = False

    def add_head(self, key: str, value: Any) -> None:
        """Read a value of the file outside its events."""
        if key == "deviceProperties" and isinstance(value, list):
            names = [each.get("name") for each in value if isinstance(each, dict)]
            self.recorded.device = next((name for name in names if isinstance(name, str) and name), "")
        elif key == "distributedInfo" and isinstance(value, dict):
            self.recorded.distributed = value

    def add(self, event: Any) -> None:
        """Read one event; events other than spans are ignored."""
        if not isinstance(event, dict) or event.get("ph") != "X":
            return
        category, name, args = event.get("cat"), event.get("name"), event.get("args")
        if not isinstance(args, dict):
            args = {}
        if category is None and not OF_XLA.isdisjoint(args):
            category = XLA
        if not isinstance(category, str) or not isinstance(name, str):
            return
        start, length = nanoseconds(event.get("ts")), nanoseconds(event.get("dur", 0))
        if start is None or length is None or length < 0:
            self._n_bad += 1
            self.is_no_trace = self._n_bad > MOST_BAD + len(self.recorded.ops) + len(self.recorded.kernels)
            return
        self.add_span(category, name, start, start + length, (event.get("pid"), event.get("tid")), args)

    def add_span(
        self, category: str, name: str, start: int, end: int, place: tuple[Any, Any], args: dict[str, Any]
    ) -> None:
        """Read one span, in nanoseconds, of a process and thread."""
        if self._only_device and (category == "python_function" or (category in OPERATOR and name != PARAMETERS)):
            return
        if place != self._last[0]:
            self._last = place, self._place(*place)
        thread = self._last[1]
        if category in OPERATOR:
            self._add_op(intern(name), args, start, end, thread)
        elif category == "python_function":
            self._add_python(name, start, end, thread)
        elif category == "user_annotation":
            self.recorded.annotations.setdefault(thread, []).append(Span(start, end, intern(name)))
        elif (kind := WORK.get(category.lower())) is not None:
            stream = self._place(
                args.get("device", args.get("agent", thread[0])), args.get("stream", args.get("queue", thread[1]))
            )
            number, external = _number(args, "correlation", "corr_id"), _number(args, "External id")
            kernel = Kernel(intern(name), kind, start, end, stream, number, external)
            if self._only_device and "Collective name" in args:
                kernel.details = {key: args[key] for key in args if key in DETAILS}
            self.recorded.kernels.append(kernel)
        elif category == XLA:
            if (kind := category_of(name, args)) not in AROUND:
                add_operator(self.recorded, name, kind, start, end, thread, args)
        elif category == "marker_api":
            add_range(self.recorded, name, start, end, thread)
        elif (
            category.lower().endswith(("runtime", "driver", "_api"))
            and (number := _number(args, "correlation", "corr_id")) >= 0
        ):
            launched = args.get("kernel")
            launched = intern(launched) if isinstance(launched, str) else ""
            self.recorded.launches[number] = Launch(intern(name), thread, start, launched)

    def finish(self) -> Recorded:
        """Return the operators, spans and kernels."""
        if self._n_bad:
            self.recorded.remarks.append(f"{self._n_bad:,} events without a valid time were left out")
        return self.recorded

    def _place(self, outer: Any, inner: Any) -> Thread:
        # Millions of events share one object per thread or stream.
        place = _id(outer), _id(inner)
        return self._places.setdefault(place, place)

    def _add_op(self, name: str, args: dict[str, Any], start: int, end: int, thread: Thread) -> None:
        arguments = None
        if isinstance(args.get("Input Dims"), list) or isinstance(args.get("Input type"), list):
            arguments = self._arguments_of(args)
            self.recorded.has_shapes = True
        details = None if DETAILS.isdisjoint(args) else {key: args[key] for key in args if key in DETAILS}
        sequence, external = _number(args, "Sequence number"), _number(args, "External id")
        op = Op(name, arguments, start, end, thread, sequence, external, details=details)
        number = _number(args, "Record function id")
        if number > 0:
            op.details = {**(details or {}), "rf_id": number}
        self.recorded.ops.append(op)

    def _add_python(self, name: str, start: int, end: int, thread: Thread) -> None:
        if name.startswith(MODULE):
            span = Span(start, end, intern(name.removeprefix(MODULE)))
            self.recorded.modules.setdefault(thread, []).append(span)
            return
        line = self._lines.get(name)
        if line is None:
            found = _FRAME.fullmatch(name)
            is_user = found is not None and not _NO_USER_CODE.search(found[1])
            line = f'  File "{found[1]}", line {found[2]}, in {found[3]}\n' if found and is_user else ""
            self._lines[name] = line
        if line:
            self.recorded.frames.setdefault(thread, []).append(Span(start, end, line))

    def _arguments_of(self, args: dict[str, Any]) -> tuple[Argument, ...]:
        # Events with equal arguments share one object.
        columns = [args.get(key) for key in ("Input type", "Input Dims", "Input Strides", "Concrete Inputs")]
        try:
            key = marshal.dumps(columns, 0)
        except ValueError:  # nested too deeply
            return ()
        found = self._arguments.get(key)
        if found is None:
            found = self._arguments[key] = arguments_of(*(x if isinstance(x, list) else None for x in columns))
        return found


def arguments_of(
    types: Sequence[Any] | None,
    dims: Sequence[Any] | None,
    strides: Sequence[Any] | None,
    concrete: Sequence[Any] | None,
) -> tuple[Argument, ...]:
    """Return the arguments in the four columns of an event; old files lack the last two."""
    n = max(len(types or ()), len(dims or ()))
    rows = zip(*(_filled(column, n) for column in (types, dims, strides, concrete)), strict=True)
    return tuple(_argument(*row) for row in rows)


def _filled(column: Sequence[Any] | None, n: int) -> list[Any]:
    column = column or ()
    return [*column[:n], *[None] * (n - len(column))]


def _argument(kind: Any, dims: Any, strides: Any, concrete: Any) -> Argument:
    kind = kind if isinstance(kind, str) else ""
    if kind in _LISTS and isinstance(dims, list):
        given = strides if isinstance(strides, list) else []
        items = zip(dims, _filled(given, len(dims)), strict=False)
        return ListArgument(tuple(TensorArgument(tuple(x), _strides(x, y), "") for x, y in items if _is_shape(x)))
    if kind in _NUMBERS:
        return Constant(literal(concrete)) if isinstance(concrete, str) and concrete else Missing(is_given=True)
    if kind in _NOTHING:
        return Constant(literal(concrete)) if isinstance(concrete, str) and concrete else Missing()
    if not _is_shape(dims):
        return Missing(is_given=True)
    return TensorArgument(tuple(dims), _strides(dims, strides), intern(kind))


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and all(type(x) is int for x in value)


def _strides(dims: Any, value: Any) -> tuple[int, ...] | None:
    return tuple(value) if dims and _is_shape(value) and len(value) == len(dims) else None


def literal(text: str) -> Any:
    """Return the literal value of a text of ``Concrete Inputs``; the text itself if it is not a literal."""
    if len(text) > 100_000:
        return text
    try:
        return ast.literal_eval(re.sub(r"\b(inf|nan)\b", "1e999", text) if "n" in text else text)
    except (MemoryError, RecursionError, SyntaxError, TypeError, ValueError):
        return text


def nanoseconds(value: Any) -> int | None:
    """Return a time in microseconds as whole nanoseconds; None if it is not a number."""
    if type(value) is int and abs(value) < 10**18:
        return value * 1000
    if type(value) is float and abs(value) < 1e18:
        return round(value * 1000)
    return None


def _number(args: dict[str, Any], key: str, other: str = "") -> int:
    value = args.get(key)
    if value is None and other:
        value = args.get(other)
    return value if type(value) is int and 0 <= value < 2**63 else -1


def _id(value: Any) -> Any:
    return value if isinstance(value, (int, str)) else 0
