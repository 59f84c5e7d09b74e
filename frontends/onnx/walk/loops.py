"""``Loop`` and ``Scan``: the body once for all iterations, or once for each if they differ and are few."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from costcore.ir import Layer
from costcore.numbers.dims import Dim, is_symbolic
from costcore.trace.call import Call
from costcore.trace.dataflow import Step

from ..graph.node import Node
from ..graph.scope import GraphContext, Scope
from ..values.containers import after_loop, common_element, inside_loop
from ..values.dimensions import describe_size
from ..values.value import Container, Value
from .walker import Outputs, Walker

MOST_ITERATIONS = 64
"""Loops that run more often are walked once for all iterations."""


def loop(walker: Walker, node: Node, scope: Scope, context: GraphContext) -> Outputs:
    """Walk the body of a ``Loop`` as often as the trip count says; a symbol if that is unknown.

    The body is walked once for all iterations. If that leaves something open, and the iterations are few, it is walked
    once for each of them.
    """
    body, carried = node.args["body"], node.args.get("v_initial") or []
    recording, entry_condition = walker.recording, node.get("cond") or _scalar("bool", True)
    mark, visited, first = recording.checkpoint(), walker.budget.visited, recording.dataflow.new_id()
    times = _trip_count(walker, node, context) if _truth(entry_condition) is not False else 0
    before_body, items = recording.checkpoint(), _carried_items(walker, node, carried, context)
    inputs = [Value((), "int64"), entry_condition, *(_entering(value, items) for value in carried)]
    outputs: list[Value] = yield walker.walk_graph(
        body, _body_scope(scope, body, inputs), context.of_subgraph(node, "body", times)
    )
    count, nodes = len(carried) + 1, walker.budget.visited - visited
    if isinstance(times, int) and times == 0:
        recording.rollback(mark)
        return [*carried, *(_stacked(value, 0) for value in outputs[count:])]
    if _truth(*outputs[:1]):  # the trip count alone ends the loop
        is_open = bool(recording.assumptions_since(before_body)) or any(map(_changes, carried, outputs[1:]))
        most = min(MOST_ITERATIONS, walker.budget.unrollable // max(nodes, 1))
        is_short = isinstance(times, int) and times <= most
    else:
        is_open = is_short = True
    if is_open and is_short:
        calls, assumptions = recording.calls_since(mark), recording.assumptions_since(mark)
        steps = recording.steps_since(mark)
        recording.rollback(mark)
        unrolled = yield from _one_by_one(walker, node, scope, context, [entry_condition, *carried], times, nodes)
        if unrolled is not None:
            if _truth(entry_condition) is None:
                recording.assume("data-dependent loop condition, assumed True on entry", node.label)
            if is_symbolic(times) and node.get("M") is not None:
                recording.assume(
                    "the trip count is unknown: assumed as many iterations as the condition allows", node.label
                )
            return unrolled
        recording.rollback(mark)
        recording.add_calls(calls)
        recording.dataflow.steps += steps
        for assumption in assumptions:
            recording.assume(*assumption)
    if not _truth(*outputs[:1]):
        recording.assume("data-dependent loop condition: all iterations are counted", node.label)
    final = _carried_out(walker, node, carried, outputs[1:count], items, times)
    stacked = [_stacked(value, times) for value in outputs[count:]]
    label, number = context.of_subgraph(node, "body").region, inputs[:1] if inputs[0].identity else []
    own = inputs[1:2] if node.get("cond") is None and entry_condition.identity else []
    recording.dataflow.start_of(first, label, carried, inputs[2:], [*number, *own, *stacked], node.inputs)
    recording.dataflow.end_of(first, label, [*outputs[1:], *inputs, *outputs[:1]], final)
    return [*final, *stacked]


def _truth(*condition: Value) -> bool | None:
    """Return a condition if it is known; an omitted one is True."""
    if not condition:
        return True
    return None if condition[0].data is None else bool(condition[0].data.ravel()[0])


def _trip_count(walker: Walker, node: Node, context: GraphContext) -> Dim:
    """Return how often a loop runs unless its condition ends it; loops that read one unknown count share its symbol."""
    trips = node.get("M")
    if trips is not None and trips.data is not None:
        times: Dim = trips.data.ravel()[0]
        return max(times, 0) if isinstance(times, int) else times
    times = walker.trip_counts.get(trips) if trips is not None else None
    if times is None:
        times = walker.dims.fresh(f"{context.prefix}{node.proto.name or node.proto.output[0]}_trips")
        if trips is not None:
            walker.trip_counts[trips] = times
    hint = walker.recording.hints.remedy(trips)
    walker.recording.assume(f"the trip count depends on data: assumed {describe_size(times)}{hint}", node.label)
    return times


def _carried_items(walker: Walker, node: Node, carried: Sequence[Value], context: GraphContext) -> Dim:
    """Return the length of a carried sequence in the middle of the run."""
    if any(isinstance(value, Container) for value in carried):
        return walker.dims.fresh(f"{context.prefix}{node.proto.name or node.proto.output[0]}_items")
    return 0


def _changes(before: Value, after: Value) -> bool:
    """Return True if the shape of a carried value may change from one iteration to the next."""
    return isinstance(before, Container) or before.shape != after.shape


def _body_scope(scope: Scope, body: Any, inputs: Sequence[Value]) -> Scope:
    """Return the scope of a loop's body: its inputs, and the values around it."""
    inner = Scope(scope)
    inner.values.update((entry.name, value) for entry, value in zip(body.input, inputs, strict=False))
    return inner


def _one_by_one(
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
    count, formulas, goes_on = len(carried), _formulas(carried), _truth(carried[0])
    while len(iterations) < most and goes_on is not False:
        items = sum(len(value.items or ()) for value in carried if isinstance(value, Container))
        if not walker.budget.unroll(nodes + items):
            return None
        mark, i = recording.checkpoint(), len(iterations)
        inputs = [_scalar("int64", i), *map(_numeric, carried)]
        start, inner = recording.dataflow.new_id(), _body_scope(scope, body, inputs)
        outputs: list[Value] = yield walker.walk_graph(body, inner, replace(around, region=f"{around.region}[{i}]"))
        iterations.append(recording.take_calls(mark))
        history.append(_Iteration(start, recording.dataflow.new_id(), recording.take_steps(mark), inputs, outputs))
        carried = outputs[:count]
        scanned.append(outputs[count:])
        goes_on = _truth(*carried[:1])
        if goes_on is None or not _formulas(carried) <= formulas:
            return None
    if goes_on and most != times:
        return None
    runs = _runs(iterations, around.region)
    recording.add_calls(_merged(walker, runs, around.region))
    found: list[Value | None] = [_numeric(value) for value in carried[1:]]
    for k, values in enumerate(zip(*scanned, strict=False), len(found)):
        why = "the iterations return values of different shapes, which cannot be joined: their sizes are symbols"
        found.append(
            _with_symbols(walker, node, k, _stacked(common_element(values) or Value(None), len(iterations)), why)
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


def scan(walker: Walker, node: Node, scope: Scope, context: GraphContext) -> Outputs:
    """Walk the body of a ``Scan`` once for all slices of the scanned inputs."""
    body = node.args["body"]
    inputs = node.args.get("initial_state_and_scan_inputs") or []
    count = node.args.get("num_scan_inputs", 0)
    if not 1 <= count <= len(inputs):
        raise node.error(f"has num_scan_inputs {count} (expected 1 to {len(inputs)}, the number of its inputs)")
    given_axes = node.args.get("scan_input_axes") or ()
    if len(given_axes) not in (0, count):
        raise node.error(f"has {len(given_axes)} scan_input_axes for {count} scan inputs")
    states, scanned = inputs[: len(inputs) - count], inputs[len(inputs) - count :]
    batched = node.version < 9  # the first version has a batch axis before everything
    axes = given_axes or (1 if batched else 0,) * count
    inner, lengths = Scope(scope), []
    values = [computed(Value(value.known_shape[1:], value.dtype) if batched else value) for value in states]
    for value, axis in zip(scanned, axes, strict=False):
        lengths.append(value.known_shape[axis])
        dims = [
            d
            for i, d in enumerate(value.known_shape)
            if i != axis % len(value.known_shape) and not (batched and i == 0)
        ]
        values.append(Value(tuple(dims), value.dtype))
    times = lengths[0] * (inputs[0].known_shape[0] if batched else 1)
    inner.values.update((entry.name, value) for entry, value in zip(body.input, values, strict=False))
    flow = walker.recording.dataflow
    first = flow.new_id()
    outputs = yield walker.walk_graph(body, inner, context.of_subgraph(node, "body", times))
    final = _carried_out(walker, node, values[: len(states)], outputs[: len(states)])
    output_axes = node.args.get("scan_output_axes") or (0,) * len(outputs)
    stacked = [_stacked(v, lengths[0], axis) for v, axis in zip(outputs[len(states) :], output_axes, strict=False)]
    found = [*final, *stacked]
    if batched:
        found = [value and Value((inputs[0].known_shape[0], *value.known_shape), value.dtype) for value in found]
    slices = []
    for value, source, axis in zip(values[len(states) :], scanned, axes, strict=False):
        if axis == 0 and not batched:
            flow.view(value, walker.recording.identity(source))
        else:
            slices.append(value)
    label, gathered = context.of_subgraph(node, "body").region, [v for v in found[len(states) :] if v is not None]
    flow.start_of(first, label, states, values[: len(states)], [*slices, *gathered], scanned)
    flow.end_of(first, label, [*outputs[: len(states)], *values, *outputs[len(states) :]], found[: len(states)])
    return found


def computed(value: Value) -> Value:
    """Return the value as one that depends on data."""
    return value if isinstance(value, Container) else Value(value.shape, value.dtype)


def _numeric(value: Value) -> Value:
    """Return the value as one that the run computes; its elements stay known if they are numbers."""
    if isinstance(value, Container):
        return value
    is_number = value.data is not None and not any(map(is_symbolic, value.data.flat))
    return Value(value.shape, value.dtype, value.data if is_number else None)


def _scalar(dtype: str, number: Any) -> Value:
    """Return one number that the run computes."""
    data: Any = np.empty((), dtype=object)
    data[()] = number
    return Value((), dtype, data)


def _entering(value: Value, length: Dim) -> Value:
    """Return a carried value as the body of a loop sees it: a sequence has ``length`` items by then."""
    return inside_loop(value, length) if isinstance(value, Container) else computed(value)


def _stacked(value: Value, times: Dim, axis: int = 0) -> Value:
    """Return the outputs of all iterations, joined along a new axis."""
    if value.shape is None:
        return Value(None, value.dtype)
    shape = list(value.shape)
    shape.insert(axis if axis >= 0 else len(shape) + 1 + axis, times)
    return Value(tuple(shape), value.dtype)


def _carried_out(
    walker: Walker, node: Node, before: Sequence[Value], after: Sequence[Value], items: Dim = 0, times: Dim = 0
) -> list[Value | None]:
    """Return the carried values after the last iteration; a dimension that changes is unknown.

    Args:
        walker: the walk.
        node: the loop.
        before: the values before the first iteration.
        after: the values after one iteration.
        items: the length of carried sequences in the body.
        times: the number of iterations.
    """
    found: list[Value | None] = []
    for i, (first, last) in enumerate(zip(before, after, strict=False)):
        if isinstance(first, Container) and isinstance(last, Container):
            found.append(after_loop(first, last, items, times))
            continue
        if first.shape is None or last.shape is None or len(first.shape) != len(last.shape):
            found.append(Value(None, last.dtype))
            continue
        merged = common_element((first, last)) or last
        merged.dtype = last.dtype
        why = "the shape of a carried value changes between iterations: its first shape is counted"
        found.append(_with_symbols(walker, node, i, merged, why))
    return found


def _with_symbols(walker: Walker, node: Node, i: int, value: Value, why: str) -> Value:
    """Return output ``i`` with a symbol for every unknown dimension; ``why`` is the assumption to add."""
    if value.shape is None or None not in value.shape:
        return value
    walker.recording.assume(why, node.label)
    name = node.proto.output[i]
    shape = tuple(walker.dims.fresh(f"{name}_{axis}") if d is None else d for axis, d in enumerate(value.shape))
    return Value(shape, value.dtype)
