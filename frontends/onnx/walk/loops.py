"""``Loop``: the body once for all iterations, or once for each if they differ and are few."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

from costcore.numbers.dims import Dim, is_symbolic

from ..graph.node import Node
from ..graph.scope import GraphContext, Scope
from ..values.dimensions import describe_size
from ..values.value import Container, Value
from .carried_values import body_scope, carried_out, entering, scalar, stacked, truth
from .iterations import MOST_ITERATIONS, one_by_one
from .walker import Outputs, Walker


class LoopPlan(NamedTuple):
    """What is known of a loop before its body is walked.

    Attributes:
        carried: the values that the first iteration takes over.
        condition: whether there is a first iteration.
        times: how often the body runs, unless its condition ends it; a symbol if that is unknown.
        items: the length of carried sequences in the middle of the run.
    """

    carried: list[Value]
    condition: Value
    times: Dim
    items: Dim


class Walked(NamedTuple):
    """A body that was walked once for all iterations.

    Attributes:
        start: the id at which the loop begins.
        inputs: the number of the iteration, the condition, and the carried values as the body sees them.
        outputs: the condition of the next iteration, the carried values, and what each iteration hands out.
        nodes: how many nodes the body has.
        is_open: whether the walk assumed something, or a carried value changes its shape.
    """

    start: int
    inputs: list[Value]
    outputs: list[Value]
    nodes: int
    is_open: bool


def loop(walker: Walker, node: Node, scope: Scope, context: GraphContext) -> Outputs:
    """Walk the body of a ``Loop`` as often as the trip count says; a symbol if that is unknown.

    The body is walked once for all iterations. If that leaves something open, and the iterations are few, it is walked
    once for each of them.
    """
    mark, start = walker.recording.checkpoint(), walker.recording.dataflow.new_id()
    plan = _plan(walker, node, context)
    once = yield from _walk_once(walker, node, scope, context, plan, start)
    if isinstance(plan.times, int) and plan.times == 0:
        walker.recording.rollback(mark)
        return [*plan.carried, *(stacked(value, 0) for value in once.outputs[len(plan.carried) + 1 :])]
    if once.is_open and _are_few(walker, plan, once):
        section = walker.recording.since(mark)
        walker.recording.rollback(mark)
        first = [plan.condition, *plan.carried]
        each = yield from one_by_one(walker, node, scope, context, first, plan.times, once.nodes)
        if each is not None:
            _assume_entry(walker, node, plan)
            return each
        walker.recording.rollback(mark)
        walker.recording.add(*section)
    return _note_once(walker, node, context, plan, once)


def _plan(walker: Walker, node: Node, context: GraphContext) -> LoopPlan:
    """Return how often the body of a loop runs, and on what."""
    condition, carried = node.get("cond") or scalar("bool", True), node.args.get("v_initial") or []
    times = _trip_count(walker, node, context) if truth(condition) is not False else 0
    return LoopPlan(carried, condition, times, _carried_items(walker, node, carried, context))


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


def _walk_once(
    walker: Walker, node: Node, scope: Scope, context: GraphContext, plan: LoopPlan, start: int
) -> Generator[Any, Any, Walked]:
    """Walk the body for all iterations."""
    body, recording = node.args["body"], walker.recording
    mark, visited = recording.checkpoint(), walker.budget.visited
    inputs = [Value((), "int64"), plan.condition, *(entering(value, plan.items) for value in plan.carried)]
    around = context.of_subgraph(node, "body", plan.times)
    outputs: list[Value] = yield walker.walk_graph(body, body_scope(scope, body, inputs), around)
    is_open = not truth(*outputs[:1]) or any(map(_changes, plan.carried, outputs[1:]))
    is_open = is_open or bool(recording.since(mark).assumptions)
    return Walked(start, inputs, outputs, walker.budget.visited - visited, is_open)


def _changes(before: Value, after: Value) -> bool:
    """Return True if the shape of a carried value may change from one iteration to the next."""
    return isinstance(before, Container) or before.shape != after.shape


def _are_few(walker: Walker, plan: LoopPlan, once: Walked) -> bool:
    """Return True if each iteration may be walked; how many a condition allows is only known then."""
    if not truth(*once.outputs[:1]):
        return True
    most = min(MOST_ITERATIONS, walker.budget.unrollable // max(once.nodes, 1))
    return isinstance(plan.times, int) and plan.times <= most


def _assume_entry(walker: Walker, node: Node, plan: LoopPlan) -> None:
    """Note what was guessed of a loop whose iterations were walked one by one."""
    if truth(plan.condition) is None:
        walker.recording.assume("data-dependent loop condition, assumed True on entry", node.label)
    if is_symbolic(plan.times) and node.get("M") is not None:
        why = "the trip count is unknown: assumed as many iterations as the condition allows"
        walker.recording.assume(why, node.label)


def _note_once(walker: Walker, node: Node, context: GraphContext, plan: LoopPlan, once: Walked) -> list[Value | None]:
    """Note the data flow of a body that was walked once for all iterations; return the outputs of the loop."""
    recording, count = walker.recording, len(plan.carried) + 1
    if not truth(*once.outputs[:1]):
        recording.assume("data-dependent loop condition: all iterations are counted", node.label)
    final = carried_out(walker, node, plan.carried, once.outputs[1:count], plan.items, plan.times)
    joined = [stacked(value, plan.times) for value in once.outputs[count:]]
    label, inputs = context.of_subgraph(node, "body").region, once.inputs
    number = inputs[:1] if inputs[0].identity else []
    own = inputs[1:2] if node.get("cond") is None and plan.condition.identity else []
    further = [*number, *own, *joined]
    recording.dataflow.start_of(once.start, label, plan.carried, inputs[2:], further, node.inputs)
    recording.dataflow.end_of(once.start, label, [*once.outputs[1:], *inputs, *once.outputs[:1]], final)
    return [*final, *joined]
