"""Branches and loops: which part of them is counted, and how often."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from costcore.dims import Dim, is_symbolic
from costcore.engine import Call
from costcore.ir import Operations
from costcore.pricing import Pricer
from costcore.registry import calculators

from .containers import after_loop, inside_loop
from .graph import Outputs, Walker
from .node import Node
from .scope import Place, Scope, inside
from .values import Container, Value


def branch(walker: Walker, node: Node, scope: Scope, place: Place) -> Outputs:
    """``If``: the branch that a constant condition chooses, else the dearer one."""
    condition = node.value("cond")
    parts = {name: node.args[f"{name}_branch"] for name in ("then", "else")}
    if condition.data is not None:
        name = "then" if condition.data.ravel()[0] else "else"
        outputs: list[Value | None] = yield walker.graph(parts[name], Scope(scope), inside(place, node, name))
        return outputs
    calls: list[Call] = walker.recorder.calls
    found: dict[str, tuple[list[Value], list[Call]]] = {}
    for name, graph in parts.items():
        start = len(calls)
        made: list[Value] = yield walker.graph(graph, Scope(scope), inside(place, node, name))
        found[name] = (made, calls[start:])
        del calls[start:]
    costs = {name: _flops(part) for name, (_, part) in found.items()}
    dearer = "else" if _at(costs["else"]) > _at(costs["then"]) else "then"
    other = "then" if dearer == "else" else "else"
    walker.assume(
        f"the condition depends on data: the dearer branch, {dearer!r} ({costs[dearer]} FLOPs), is counted; "
        f"{other!r} has {costs[other]}",
        node.label,
    )
    calls += found[dearer][1]
    return [_computed(value) for value in found[dearer][0]]


def _flops(calls: Sequence[Call]) -> Dim:
    """FLOPs of a branch."""
    price, total = Pricer(calculators()), 0
    for call in calls:
        cost = price(call).cost
        if cost is not None:
            total += (cost.flops.flops() if isinstance(cost.flops, Operations) else cost.flops) * call.times
    return total


def _at(flops: Any) -> int:
    """A number for comparing two branches: every symbol stands for 64."""
    return int(flops.subs(dict.fromkeys(flops.free_symbols, 64))) if is_symbolic(flops) else flops


def loop(walker: Walker, node: Node, scope: Scope, place: Place) -> Outputs:
    """``Loop``: the body as often as the trip count says; a symbol where it is not known."""
    body, carried = node.args["body"], node.args.get("v_initial") or []
    trips, first = node.get("M"), node.get("cond")
    times: Dim
    if trips is not None and trips.data is not None:
        times = trips.data.ravel()[0]
        times = max(times, 0) if isinstance(times, int) else times
    else:
        times = walker.dims(f"{place.names}{node.proto.name or node.proto.output[0]}_trips")
        walker.assume(f"the trip count depends on data: it is the symbol {times}", node.label)
    if first is not None and first.data is not None and not first.data.ravel()[0]:
        times = 0
    inner, begun = Scope(scope), 0
    if any(isinstance(value, Container) for value in carried):
        begun = walker.dims(f"{place.names}{node.proto.name or node.proto.output[0]}_items")
    given = [Value((), "int64"), first or Value((), "bool"), *(_entering(value, begun) for value in carried)]
    inner.values.update((entry.name, value) for entry, value in zip(body.input, given, strict=False))
    start = len(walker.recorder.calls)
    outputs = yield walker.graph(body, inner, inside(place, node, "body", times))
    if isinstance(times, int) and times == 0:
        del walker.recorder.calls[start:]
    condition = outputs[0] if outputs else None
    if condition is not None and (condition.data is None or not condition.data.ravel()[0]) and times != 0:
        walker.assume("the condition to go on depends on data: all iterations are counted", node.label)
    count = len(carried)
    final = _carried(walker, node, carried, outputs[1 : count + 1], begun, times)
    return [*final, *(_stacked(value, times) for value in outputs[count + 1 :])]


def scan(walker: Walker, node: Node, scope: Scope, place: Place) -> Outputs:
    """``Scan``: the body once for every slice of the scanned inputs."""
    body = node.args["body"]
    given = node.args.get("initial_state_and_scan_inputs") or []
    count = node.args.get("num_scan_inputs", 0)
    states, scanned = given[: len(given) - count], given[len(given) - count :]
    batched = node.version < 9  # the first version has a batch axis before everything
    axes = node.args.get("scan_input_axes") or (1 if batched else 0,) * count
    inner, lengths = Scope(scope), []
    values = [_computed(Value(value.known[1:], value.dtype) if batched else value) for value in states]
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


def _computed(value: Value) -> Value:
    """The value as one that depends on data."""
    return value if isinstance(value, Container) else Value(value.shape, value.dtype)


def _entering(value: Value, length: Dim) -> Value:
    """A carried value as the body of a loop sees it: a sequence has ``length`` items by then."""
    return inside_loop(value, length) if isinstance(value, Container) else _computed(value)


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
        shape = [a if a == b else None for a, b in zip(first.shape, last.shape, strict=True)]
        names = [f"{node.proto.output[i]}_{axis}" for axis in range(len(shape))]
        if None in shape:
            walker.assume("a value grows from one iteration to the next: its first shape is counted", node.label)
        found.append(
            Value(tuple(walker.dims(n) if d is None else d for n, d in zip(names, shape, strict=True)), last.dtype)
        )
    return found


CONTROL: Mapping[str, Callable[[Walker, Node, Scope, Place], Outputs]] = {
    "ai.onnx::If": branch,
    "ai.onnx::Loop": loop,
    "ai.onnx::Scan": scan,
}
"""How each operator that holds graphs is walked."""
