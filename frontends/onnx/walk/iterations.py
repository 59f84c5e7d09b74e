"""A ``Loop`` whose iterations differ and are few: the body once for each, on the outputs of the one before."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

from costcore.ir import Layer
from costcore.numbers.dims import Dim, is_symbolic
from costcore.trace.call import Call
from costcore.trace.dataflow import Step

from ..graph.node import Node
from ..graph.scope import GraphContext, Scope
from ..values.containers import common_element
from ..values.value import Container, Value
from .carried_values import body_scope, numeric, scalar, stacked, truth, with_symbols
from .walker import Walker

MOST_ITERATIONS = 64
"""Loops that run more often are walked once for all iterations."""


def one_by_one(
    walker: Walker, node: Node, scope: Scope, context: GraphContext, carried: Sequence[Value], times: Dim, nodes: int
) -> Generator[Any, Any, list[Value | None] | None]:
    """Walk every iteration of a ``Loop`` on the outputs of the one before; equal iterations are counted together.

    Returns:
        The outputs of the loop; None if that is too much work, if data decides when the loop ends, or if a size that
        grows is a formula.
    """
    body, around, recording = node.args["body"], context.of_subgraph(node, "body"), walker.recording
    most = min(times, MOST_ITERATIONS) if isinstance(times, int) else MOST_ITERATIONS
    iterations: list[list[Call]] = []
    history: list[_Iteration] = []
    first, before = recording.dataflow.new_id(), list(carried)
    scanned: list[list[Value]] = []
    count, formulas, goes_on = len(carried), _formulas(carried), truth(carried[0])
    while len(iterations) < most and goes_on is not False:
        items = sum(len(value.items or ()) for value in carried if isinstance(value, Container))
        if not walker.budget.unroll(nodes + items):
            return None
        mark, i = recording.checkpoint(), len(iterations)
        inputs = [scalar("int64", i), *map(numeric, carried)]
        start, inner = recording.dataflow.new_id(), body_scope(scope, body, inputs)
        outputs: list[Value] = yield walker.walk_graph(body, inner, replace(around, region=f"{around.region}[{i}]"))
        section = recording.take(mark)
        iterations.append(section.calls)
        history.append(_Iteration(start, recording.dataflow.new_id(), section.steps, inputs, outputs))
        carried = outputs[:count]
        scanned.append(outputs[count:])
        goes_on = truth(*carried[:1])
        if goes_on is None or not _formulas(carried) <= formulas:
            return None
    if goes_on and most != times:
        return None
    runs = _runs(iterations, around.region)
    recording.add(_merged(walker, runs, around.region))
    found: list[Value | None] = [numeric(value) for value in carried[1:]]
    for k, values in enumerate(zip(*scanned, strict=False), len(found)):
        why = "the iterations return values of different shapes, which cannot be joined: their sizes are symbols"
        found.append(
            with_symbols(walker, node, k, stacked(common_element(values) or Value(None), len(iterations)), why)
        )
    _note_iterations(walker, [(history[run[0][0]], len(run)) for run in runs], around.region, before)
    last = history[runs[-1][0][0]].outputs if runs else before
    gathered = [value for value in found[count - 1 :] if value is not None]
    own = before[:1] if node.get("cond") is None and before[0].identity else []
    recording.dataflow.start_of(first, around.region, further=[*own, *gathered], reads=node.inputs)
    recording.dataflow.end_of(first, around.region, last[1:count], found[: count - 1])
    return found


class _Iteration(NamedTuple):
    """One iteration of a loop: the ids at which it begins and ends, and the values of its body."""

    start: int
    end: int
    steps: list[Step]
    inputs: list[Value]
    outputs: list[Value]


def _note_iterations(
    walker: Walker, runs: Sequence[tuple[_Iteration, int]], region: str, before: Sequence[Value]
) -> None:
    """Note the values of iterations that were walked one by one, of equal neighbors only those of the first.

    An iteration reads what the one before it returned. In equal iterations, which are counted as one, the values that
    it reads and those that it returns are both alive.
    """
    recording, flow = walker.recording, walker.recording.dataflow
    for iteration, times in runs:
        number = iteration.inputs[:1] if iteration.inputs[0].identity else []
        unread = not iteration.inputs[1].identity  # the condition, if the body only replaces it
        pairs = list(zip(iteration.inputs[1:], before, strict=False))[unread:]
        if times > 1:
            flow.start_of(iteration.start, region, [old for _, old in pairs], [new for new, _ in pairs], number)
        else:
            flow.start_of(iteration.start, region, further=number)
            for value, source in pairs:
                if value is not source:
                    flow.view(value, recording.identity(source))
        flow.steps += iteration.steps
        needed = [*number, *(new for new, _ in pairs), *iteration.outputs] if times > 1 else iteration.outputs
        flow.steps.append(Step(iteration.end, tuple(flow.ids(needed)), name=f"{region}: next"))
        before = iteration.outputs[: len(before)]


def _formulas(values: Sequence[Value]) -> set[Dim]:
    """Return the dimensions that are neither numbers nor symbols: every iteration would make them longer."""
    tensors = (x for value in values for x in ((value.items or ()) if isinstance(value, Container) else (value,)))
    dims: Iterable[Any] = (d for tensor in tensors for d in tensor.shape or () if is_symbolic(d))
    return {d for d in dims if not d.is_Symbol}


def _runs(iterations: Sequence[Sequence[Call]], region: str) -> list[list[tuple[int, Sequence[Call]]]]:
    """Return the iterations of a loop with their numbers, equal neighbors together."""
    groups = groupby(enumerate(iterations), lambda pair: _iteration_key(pair[1], f"{region}[{pair[0]}]"))
    return [list(run) for _, run in groups]


def _merged(walker: Walker, runs: Sequence[Sequence[tuple[int, Sequence[Call]]]], region: str) -> list[Call]:
    """Return the calls of all iterations of a loop; of equal neighbors only those of the first, multiplied.

    The region of a call says which iterations it stands for, from 0: ``.body[3]``, ``.body[3..5]``, ``.body`` for all.
    """
    merged: list[Call] = []
    for run in runs:
        (first, calls), last = run[0], run[-1][0]
        which = "" if len(runs) == 1 else f"[{first}]" if first == last else f"[{first}..{last}]"
        for call in calls:
            inner_region = call.region[len(f"{region}[{first}]") :]
            merged.append(call._replace(times=call.times * len(run), region=f"{region}{which}{inner_region}"))
            if walker.history is not None:
                walker.history.replace(call, merged[-1])
    return merged


def _iteration_key(calls: Sequence[Call], region: str) -> list[tuple[Layer, Dim, str]]:
    """Return what an iteration recorded, without its number."""
    return [(_without_position(call.layer), call.times, call.region[len(region) :]) for call in calls]


def _without_position(layer: Layer) -> Layer:
    """Return the layer of a slice without its begin and end, which do not change its cost."""
    return Layer(layer.op, layer.inputs, layer.outputs) if layer.op == "slice" else layer
