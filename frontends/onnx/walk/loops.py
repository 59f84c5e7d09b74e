"""Loops: the body once for all iterations, or once for each where they differ and are few."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from costcore.dims import Dim, is_symbolic
from costcore.ir import Layer
from costcore.trace.call import Call

from ..graph.node import Node
from ..graph.scope import Place, Scope, inside
from ..values.containers import after_loop, common, inside_loop
from ..values.dimensions import called
from ..values.value import Container, Value
from .walker import Outputs, Walker

MOST_ITERATIONS = 64
"""Loops that run more often are walked once for all iterations."""


def loop(walker: Walker, node: Node, scope: Scope, place: Place) -> Outputs:
    """``Loop``: the body as often as the trip count says; a symbol where it is not known.

    The body is walked once for all iterations. Where that leaves something open, and they are few, it is walked once
    for each of them.
    """
    body, carried = node.args["body"], node.args.get("v_initial") or []
    recorder, first = walker.recorder, node.get("cond") or _scalar("bool", True)
    begun, before, walked = len(recorder.calls), recorder.assumed, walker.walked
    times = _trips(walker, node, place) if _said(first) is not False else 0
    assumed, items = recorder.assumed, _items(walker, node, carried, place)
    given = [Value((), "int64"), first, *(_entering(value, items) for value in carried)]
    outputs: list[Value] = yield walker.graph(body, _seen(scope, body, given), inside(place, node, "body", times))
    count, nodes = len(carried) + 1, walker.walked - walked
    if isinstance(times, int) and times == 0:
        recorder.keep(begun, before)
        return [*carried, *(_stacked(value, 0) for value in outputs[count:])]
    if _said(*outputs[:1]):  # nothing stops it before its time
        is_open = recorder.assumed > assumed or any(map(_changes, carried, outputs[1:]))
        is_short = isinstance(times, int) and times <= min(MOST_ITERATIONS, walker.spare // max(nodes, 1))
    else:
        is_open = is_short = True
    if is_open and is_short:
        calls, assumptions = recorder.calls[begun:], recorder.assumptions[before:]
        recorder.keep(begun, before)
        made = yield from _one_by_one(walker, node, scope, place, [first, *carried], times, nodes)
        if made is not None:
            if _said(first) is None:
                walker.assume("the condition to begin depends on data: it is taken to hold", node.label)
            if is_symbolic(times) and node.get("M") is not None:
                walker.assume("the trip count is not known: it is taken to be what the condition allows", node.label)
            return made
        recorder.keep(begun, before)
        recorder.calls.extend(calls)
        for assumption in assumptions:
            recorder.assume(*assumption)
    if not _said(*outputs[:1]):
        walker.assume("the condition to go on depends on data: all iterations are counted", node.label)
    final = _carried(walker, node, carried, outputs[1:count], items, times)
    return [*final, *(_stacked(value, times) for value in outputs[count:])]


def _said(*condition: Value) -> bool | None:
    """What a condition to go on is known to be; one that is left out goes on."""
    if not condition:
        return True
    return None if condition[0].data is None else bool(condition[0].data.ravel()[0])


def _trips(walker: Walker, node: Node, place: Place) -> Dim:
    """How often a loop runs if nothing stops it."""
    trips = node.get("M")
    if trips is not None and trips.data is not None:
        times: Dim = trips.data.ravel()[0]
        return max(times, 0) if isinstance(times, int) else times
    times = walker.dims.fresh(f"{place.names}{node.proto.name or node.proto.output[0]}_trips")
    walker.assume(f"the trip count depends on data: it is {called(times)}{walker.hint(trips)}", node.label)
    return times


def _items(walker: Walker, node: Node, carried: Sequence[Value], place: Place) -> Dim:
    """How many items a carried sequence has in the middle of the run."""
    if any(isinstance(value, Container) for value in carried):
        return walker.dims.fresh(f"{place.names}{node.proto.name or node.proto.output[0]}_items")
    return 0


def _changes(before: Value, after: Value) -> bool:
    """Whether a carried value may be another one, by its shape, in the next iteration."""
    return isinstance(before, Container) or before.shape != after.shape


def _seen(scope: Scope, body: Any, given: Sequence[Value]) -> Scope:
    """What the body of a loop sees: its inputs, and the values around it."""
    inner = Scope(scope)
    inner.values.update((entry.name, value) for entry, value in zip(body.input, given, strict=False))
    return inner


def _one_by_one(
    walker: Walker, node: Node, scope: Scope, place: Place, given: Sequence[Value], times: Dim, nodes: int
) -> Generator[Any, Any, list[Value | None] | None]:
    """``Loop``, every iteration on what the one before made; those that record the same are counted together.

    None where it is too much work, where data say when it ends, or where what grows is a formula.
    """
    body, around, calls = node.args["body"], inside(place, node, "body"), walker.recorder.calls
    most = min(times, MOST_ITERATIONS) if isinstance(times, int) else MOST_ITERATIONS
    rounds: list[list[Call]] = []
    kept: list[list[Value]] = []
    carried, formulas, goes_on = list(given), _formulas(given), _said(given[0])
    while len(rounds) < most and goes_on is not False:
        walker.spare -= nodes + sum(len(value.items or ()) for value in carried if isinstance(value, Container))
        if walker.spare < 0:
            return None
        begun, i = len(calls), len(rounds)
        inner = _seen(scope, body, [_scalar("int64", i), *map(_known, carried)])
        outputs: list[Value] = yield walker.graph(body, inner, replace(around, region=f"{around.region}[{i}]"))
        rounds.append(calls[begun:])
        del calls[begun:]
        carried, made = outputs[: len(given)], outputs[len(given) :]
        kept.append(made)
        goes_on = _said(*carried[:1])
        if goes_on is None or not _formulas(carried) <= formulas:
            return None
    if goes_on and most != times:
        return None
    calls += together(rounds, around.region)
    found: list[Value | None] = [_known(value) for value in carried[1:]]
    for k, values in enumerate(zip(*kept, strict=False), len(found)):
        why = "the iterations put out values of different shapes, which cannot be joined"
        found.append(_named(walker, node, k, _stacked(common(values) or Value(None), len(rounds)), why))
    return found


def _formulas(values: Sequence[Value]) -> set[Dim]:
    """The dimensions of values that are neither numbers nor symbols: with every iteration they would get longer."""
    told = (one for value in values for one in ((value.items or ()) if isinstance(value, Container) else (value,)))
    dims: Iterable[Any] = (d for one in told for d in one.shape or () if is_symbolic(d))
    return {d for d in dims if not d.is_Symbol}


def together(rounds: Sequence[Sequence[Call]], region: str) -> list[Call]:
    """The calls of all iterations of a loop; of neighbours that record the same only those of the first, multiplied.

    The region of each says which iterations it stands for, from 0: ``.body[3]``, ``.body[3..5]``, or ``.body`` for all.
    """
    found: list[Call] = []
    runs = [list(run) for _, run in groupby(enumerate(rounds), lambda turn: _written(turn[1], f"{region}[{turn[0]}]"))]
    for run in runs:
        (first, calls), last = run[0], run[-1][0]
        which = "" if len(runs) == 1 else f"[{first}]" if first == last else f"[{first}..{last}]"
        for call in calls:
            call.times = call.times * len(run)
            call.region = f"{region}{which}{call.region[len(f'{region}[{first}]') :]}"
        found += calls
    return found


def _written(calls: Sequence[Call], region: str) -> list[tuple[Layer, Dim, str]]:
    """What an iteration recorded, without its number: where a slice begins does not matter."""
    return [(_anywhere(call.layer), call.times, call.region[len(region) :]) for call in calls]


def _anywhere(layer: Layer) -> Layer:
    return Layer(layer.op, layer.inputs, layer.outputs) if layer.op == "slice" else layer


def scan(walker: Walker, node: Node, scope: Scope, place: Place) -> Outputs:
    """``Scan``: the body once for every slice of the scanned inputs."""
    body = node.args["body"]
    given = node.args.get("initial_state_and_scan_inputs") or []
    count = node.args.get("num_scan_inputs", 0)
    states, scanned = given[: len(given) - count], given[len(given) - count :]
    batched = node.version < 9  # the first version has a batch axis before everything
    axes = node.args.get("scan_input_axes") or (1 if batched else 0,) * count
    inner, lengths = Scope(scope), []
    values = [computed(Value(value.known[1:], value.dtype) if batched else value) for value in states]
    for value, axis in zip(scanned, axes, strict=False):
        lengths.append(value.known[axis])
        kept = [d for i, d in enumerate(value.known) if i != axis % len(value.known) and not (batched and i == 0)]
        values.append(Value(tuple(kept), value.dtype))
    if not lengths:
        raise node.error("scans nothing")
    times = lengths[0] * (given[0].known[0] if batched else 1)
    inner.values.update((entry.name, value) for entry, value in zip(body.input, values, strict=False))
    outputs = yield walker.graph(body, inner, inside(place, node, "body", times))
    final = _carried(walker, node, values[: len(states)], outputs[: len(states)])
    places = node.args.get("scan_output_axes") or (0,) * len(outputs)
    stacked = [_stacked(v, lengths[0], axis) for v, axis in zip(outputs[len(states) :], places, strict=False)]
    found = [*final, *stacked]
    if batched:
        found = [value and Value((given[0].known[0], *value.known), value.dtype) for value in found]
    return found


def computed(value: Value) -> Value:
    """The value as one that depends on data."""
    return value if isinstance(value, Container) else Value(value.shape, value.dtype)


def _known(value: Value) -> Value:
    """The value as one that the run computes, of which the elements may be known numbers all the same."""
    if isinstance(value, Container):
        return value
    is_number = value.data is not None and not any(map(is_symbolic, value.data.flat))
    return Value(value.shape, value.dtype, value.data if is_number else None)


def _scalar(dtype: str, number: Any) -> Value:
    """One number that the run computes."""
    data: Any = np.empty((), dtype=object)
    data[()] = number
    return Value((), dtype, data)


def _entering(value: Value, length: Dim) -> Value:
    """A carried value as the body of a loop sees it: a sequence has ``length`` items by then."""
    return inside_loop(value, length) if isinstance(value, Container) else computed(value)


def _stacked(value: Value, times: Dim, axis: int = 0) -> Value:
    """What a body puts out in every iteration, joined along a new axis."""
    if value.shape is None:
        return Value(None, value.dtype)
    shape = list(value.shape)
    shape.insert(axis if axis >= 0 else len(shape) + 1 + axis, times)
    return Value(tuple(shape), value.dtype)


def _carried(
    walker: Walker, node: Node, before: Sequence[Value], after: Sequence[Value], begun: Dim = 0, times: Dim = 0
) -> list[Value | None]:
    """Values handed from one iteration to the next; where their shape changes it is not known after the last.

    Sequences had ``begun`` items in the body, which ran ``times`` times.
    """
    found: list[Value | None] = []
    for i, (first, last) in enumerate(zip(before, after, strict=False)):
        if isinstance(first, Container) and isinstance(last, Container):
            found.append(after_loop(first, last, begun, times))
            continue
        if first.shape is None or last.shape is None or len(first.shape) != len(last.shape):
            found.append(Value(None, last.dtype))
            continue
        merged = common((first, last)) or last
        merged.dtype = last.dtype
        why = "a value grows from one iteration to the next: its first shape is counted"
        found.append(_named(walker, node, i, merged, why))
    return found


def _named(walker: Walker, node: Node, i: int, value: Value, why: str) -> Value:
    """Output ``i`` with a symbol for every dimension that is not told, and why it is not."""
    if value.shape is None or None not in value.shape:
        return value
    walker.assume(why, node.label)
    name = node.proto.output[i]
    shape = tuple(walker.dims.fresh(f"{name}_{axis}") if d is None else d for axis, d in enumerate(value.shape))
    return Value(shape, value.dtype)
