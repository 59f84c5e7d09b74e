"""Where operators of a trace belong: their module, phase, step and lines of the user's code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from costcore.trace.call import Module

from .nesting import spans_at
from .records import NODE, Op, Recorded, Thread

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
    """Return whether a span is that of a node of the backward pass, and no operator."""
    return op.name.startswith(NODE) or op.name.startswith(_ACCUMULATE) or "Backward" in op.name.rpartition("::")[2]


def place(recorded: Recorded, threads: Mapping[Thread, Sequence[Op]]) -> None:
    """Set module, phase and lines of every operator."""
    for thread, ops in threads.items():
        times = [op.start for op in ops]
        for op, spans in zip(ops, spans_at(recorded.modules.get(thread, ()), times), strict=True):
            op.module = ".".join([span.name for span in spans])
        for op, spans in zip(ops, spans_at(recorded.frames.get(thread, ()), times), strict=True):
            op.lines = tuple([span.name for span in spans])
        optimizers = [span for span in recorded.annotations.get(thread, ()) if span.name.startswith(_OPTIMIZER)]
        for op, spans in zip(ops, spans_at(optimizers, times), strict=True):
            if spans:
                op.phase = "optimizer"
    place_backward([op for ops in threads.values() for op in ops])


def place_backward(ops: Sequence[Op]) -> None:
    """Set phase and module of what runs in a backward pass.

    A node has the sequence number that autograd had when the forward pass made it. An operator that the backward pass
    runs without grad mode has no number: one with a number is recomputed, unless the backward pass has a graph of its
    own, in which every operator has one.

    Args:
        ops: all operators, those of a thread by their start.
    """
    made_at: dict[int, Op] = {}
    for op in sorted((op for op in ops if op.sequence >= 0 and not is_node(op)), key=lambda op: op.start):
        made_at[op.sequence] = op  # the last one, as operators without a node do not raise the number
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
    """Return the modules of a trace by path, and shorten the paths of operators to those below the outermost module.

    A trace names the modules of a class by numbers, ``Conv2d_3``. If one module is around all others, its path is
    ``""``, as that of a model.
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
