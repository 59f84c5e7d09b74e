"""Operators with subgraphs: ``If``, ``Loop``, ``Scan``, ``SequenceMap``, and text generation of ONNX Runtime.

A body is walked once for all iterations, or once per iteration if they differ and are few. The last section has the
inputs, carried values and outputs of bodies.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from costcore.graphs import Section, most_expensive
from costcore.ir import Layer
from costcore.numbers import Dim, is_symbolic, maximum
from costcore.trace.call import Call
from costcore.trace.run import Step

from ..node import GraphContext, Inferred, Node, Scope, values_read
from ..values import (
    DTYPES,
    Container,
    Shape,
    Value,
    after_loop,
    common_element,
    declared_shape,
    describe_size,
    element_of,
    inside_loop,
    repeated_sequence,
    sequence,
)
from .walker import NodeWalk, Walker

# ``If``


def branch(walker: Walker, node: Node, scope: Scope, context: GraphContext) -> NodeWalk:
    """Walk the branch of an ``If`` that a known condition selects; else walk both, and count the more expensive one."""
    condition = node.value("cond")
    graphs = {name: node.args[f"{name}_branch"] for name in ("then", "else")}
    if condition.data is not None:
        name = "then" if condition.data.ravel()[0] else "else"
        walker.initializers.mark_skipped(scope.find(each) for each in values_read(node.proto))
        selected: list[Value | None] = yield walker.walk_graph(
            graphs[name], Scope(scope), context.of_subgraph(node, name)
        )
        return selected
    recording = walker.recording
    first = recording.dataflow.new_id()
    outputs: dict[str, list[Value]] = {}
    sections: dict[str, Section] = {}
    for name, graph in graphs.items():
        mark = recording.checkpoint()
        outputs[name] = yield walker.walk_graph(graph, Scope(scope), context.of_subgraph(node, name))
        sections[name] = recording.take(mark)
    choice = most_expensive({name: section.calls for name, section in sections.items()}, recording.recorder)
    counted, flops = choice.counted, choice.flops
    skipped = "then" if counted == "else" else "else"
    kinds = ", ".join(dict.fromkeys(call.native for call in choice.uncounted))
    unsupported = f" and unsupported operators, which are listed: {kinds}" if kinds else ""
    is_data = condition.role == "data"
    what = "data" if is_data else "symbolic dimensions"
    remark = "" if is_data else ". subs does not change this choice: give the sizes with dims"
    recording.assume(
        f"the condition depends on {what}: the more expensive branch, {counted!r} ({flops[counted]} FLOPs), is "
        f"counted; {skipped!r} has {flops[skipped]}{unsupported}{remark}"
        f"{recording.hints.remedy(condition)}",
        node.label,
    )
    reads = [scope.find(name) for name in values_read(node.proto)]
    label = context.of_subgraph(node, counted).region.removesuffix(f".{counted}")
    found: list[Value | None] = [computed(value) for value in outputs[counted]]
    recording.choose(first, label, choice, sections, outputs, reads, found)
    return found


# ``Loop``: the body once for all iterations


class LoopPlan(NamedTuple):
    """Facts about a loop before its body is walked.

    Attributes:
        carried: the initial carried values.
        condition: the condition on entry.
        times: the trip count, a symbol if it is unknown; the condition may end the loop earlier.
        items: the length of carried sequences inside the body, a symbol; 0 if no sequence is carried.
    """

    carried: list[Value]
    condition: Value
    times: Dim
    items: Dim


class WalkedBody(NamedTuple):
    """A body that was walked once for all iterations.

    Attributes:
        start: the id at which the loop begins.
        inputs: the number of the iteration, the condition, and the carried values inside the body.
        outputs: the condition of the next iteration, the carried values, and the scan outputs.
        nodes: the number of nodes of the body.
        is_open: whether one walk is not exact for all iterations: the next condition is unknown, the walk assumed
            something, or a carried value changes its shape.
    """

    start: int
    inputs: list[Value]
    outputs: list[Value]
    nodes: int
    is_open: bool


def loop(walker: Walker, node: Node, scope: Scope, context: GraphContext) -> NodeWalk:
    """Walk the body of a ``Loop`` once for all iterations; an unknown trip count is a symbol.

    If one walk is not exact for all iterations, and they are few, the body is walked once per iteration.
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
    return _finish_loop(walker, node, context, plan, once)


def _plan(walker: Walker, node: Node, context: GraphContext) -> LoopPlan:
    condition, carried = node.get("cond") or scalar("bool", True), node.args.get("v_initial") or []
    times = _trip_count(walker, node, context) if truth(condition) is not False else 0
    return LoopPlan(carried, condition, times, _carried_items(walker, node, carried, context))


def _trip_count(walker: Walker, node: Node, context: GraphContext) -> Dim:
    # Loops that read one unknown count share its symbol.
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
    if any(isinstance(value, Container) for value in carried):
        return walker.dims.fresh(f"{context.prefix}{node.proto.name or node.proto.output[0]}_items")
    return 0


def _walk_once(
    walker: Walker, node: Node, scope: Scope, context: GraphContext, plan: LoopPlan, start: int
) -> Generator[Any, Any, WalkedBody]:
    body, recording = node.args["body"], walker.recording
    mark, visited = recording.checkpoint(), walker.budget.visited
    inputs = [Value((), "int64"), plan.condition, *(inside_body(value, plan.items) for value in plan.carried)]
    around = context.of_subgraph(node, "body", plan.times)
    outputs: list[Value] = yield walker.walk_graph(body, body_scope(scope, body, inputs), around)
    is_open = not truth(*outputs[:1]) or any(map(_changes, plan.carried, outputs[1:]))
    is_open = is_open or bool(recording.since(mark).assumptions)
    return WalkedBody(start, inputs, outputs, walker.budget.visited - visited, is_open)


def _changes(before: Value, after: Value) -> bool:
    return isinstance(before, Container) or before.shape != after.shape


def _are_few(walker: Walker, plan: LoopPlan, once: WalkedBody) -> bool:
    # How many iterations a condition allows is known only after walking them.
    if not truth(*once.outputs[:1]):
        return True
    most = min(MOST_ITERATIONS, walker.budget.unrollable // max(once.nodes, 1))
    return isinstance(plan.times, int) and plan.times <= most


def _assume_entry(walker: Walker, node: Node, plan: LoopPlan) -> None:
    if truth(plan.condition) is None:
        walker.recording.assume("data-dependent loop condition, assumed True on entry", node.label)
    if is_symbolic(plan.times) and node.get("M") is not None:
        why = "the trip count is unknown: assumed as many iterations as the condition allows"
        walker.recording.assume(why, node.label)


def _finish_loop(
    walker: Walker, node: Node, context: GraphContext, plan: LoopPlan, once: WalkedBody
) -> list[Value | None]:
    recording, count = walker.recording, len(plan.carried) + 1
    if not truth(*once.outputs[:1]):
        recording.assume("data-dependent loop condition: all iterations are counted", node.label)
    final = after_last_iteration(walker, node, plan.carried, once.outputs[1:count], plan.items, plan.times)
    joined = [stacked(value, plan.times) for value in once.outputs[count:]]
    label, inputs = context.of_subgraph(node, "body").region, once.inputs
    number = inputs[:1] if inputs[0].identity else []
    own = inputs[1:2] if node.get("cond") is None and plan.condition.identity else []
    further = [*number, *own, *joined]
    recording.dataflow.start_of(once.start, label, plan.carried, inputs[2:], further, node.inputs)
    recording.dataflow.end_of(once.start, label, [*once.outputs[1:], *inputs, *once.outputs[:1]], final)
    return [*final, *joined]


# ``Loop``: the body once for each iteration, if they differ and are few


MOST_ITERATIONS = 64
"""The maximum iterations of a loop that is walked once per iteration."""


def one_by_one(
    walker: Walker, node: Node, scope: Scope, context: GraphContext, carried: Sequence[Value], times: Dim, nodes: int
) -> Generator[Any, Any, list[Value | None] | None]:
    """Walk every iteration of a ``Loop`` on the outputs of the previous one; equal iterations are counted together.

    Returns:
        The outputs of the loop; None if the iterations have too many nodes, if data decides when the loop ends, or if
        the size of a carried value grows as a formula.
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
    _record_dataflow(walker, [(history[run[0][0]], len(run)) for run in runs], around.region, before)
    last = history[runs[-1][0][0]].outputs if runs else before
    gathered = [value for value in found[count - 1 :] if value is not None]
    own = before[:1] if node.get("cond") is None and before[0].identity else []
    recording.dataflow.start_of(first, around.region, further=[*own, *gathered], reads=node.inputs)
    recording.dataflow.end_of(first, around.region, last[1:count], found[: count - 1])
    return found


class _Iteration(NamedTuple):
    start: int
    end: int
    steps: list[Step]
    inputs: list[Value]
    outputs: list[Value]


def _record_dataflow(
    walker: Walker, runs: Sequence[tuple[_Iteration, int]], region: str, before: Sequence[Value]
) -> None:
    # An iteration reads the outputs of the previous one. Equal iterations are counted as one, in which inputs and
    # outputs are alive together.
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
    # Every iteration would lengthen these dimensions.
    tensors = (x for value in values for x in ((value.items or ()) if isinstance(value, Container) else (value,)))
    dims: Iterable[Any] = (d for tensor in tensors for d in tensor.shape or () if is_symbolic(d))
    return {d for d in dims if not d.is_Symbol}


def _runs(iterations: Sequence[Sequence[Call]], region: str) -> list[list[tuple[int, Sequence[Call]]]]:
    groups = groupby(enumerate(iterations), lambda pair: _iteration_key(pair[1], f"{region}[{pair[0]}]"))
    return [list(run) for _, run in groups]


def _merged(walker: Walker, runs: Sequence[Sequence[tuple[int, Sequence[Call]]]], region: str) -> list[Call]:
    # The region of a call names its iterations, from 0: ``.body[3]``, ``.body[3..5]``, ``.body`` for all.
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
    return [(_without_position(call.layer), call.times, call.region[len(region) :]) for call in calls]


def _without_position(layer: Layer) -> Layer:
    # Begin and end of a slice do not change its cost.
    return Layer(layer.op, layer.inputs, layer.outputs) if layer.op == "slice" else layer


# ``Scan``: the body once for all slices of the scanned inputs


def scan(walker: Walker, node: Node, scope: Scope, context: GraphContext) -> NodeWalk:
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
    final = after_last_iteration(walker, node, values[: len(states)], outputs[: len(states)])
    output_axes = node.args.get("scan_output_axes") or (0,) * len(outputs)
    gathered = [stacked(v, lengths[0], axis) for v, axis in zip(outputs[len(states) :], output_axes, strict=False)]
    found = [*final, *gathered]
    if batched:
        found = [value and Value((inputs[0].known_shape[0], *value.known_shape), value.dtype) for value in found]
    slices = []
    for value, source, axis in zip(values[len(states) :], scanned, axes, strict=False):
        if axis == 0 and not batched:
            flow.view(value, walker.recording.identity(source))
        else:
            slices.append(value)
    label, joined = context.of_subgraph(node, "body").region, [v for v in found[len(states) :] if v is not None]
    flow.start_of(first, label, states, values[: len(states)], [*slices, *joined], scanned)
    flow.end_of(first, label, [*outputs[: len(states)], *values, *outputs[len(states) :]], found[: len(states)])
    return found


# ``SequenceMap``: the body once for every item of a sequence


SEQUENCE_MAP = "ai.onnx::SequenceMap"


def sequence_map(walker: Walker, node: Node, scope: Scope, context: GraphContext) -> NodeWalk:
    """Walk the body of a ``SequenceMap`` for every item; items of equal shapes are walked once and counted together."""
    body = node.args["body"]
    walker.recording.dataflow.unknown.setdefault(f"{node.label} runs its body for the items of a sequence")
    first, additional = node.value("input_sequence"), node.args.get("additional_inputs") or []
    iterations, length = _iterations(walker, node, [first, *additional], context)
    outputs_by_key: dict[tuple[Any, ...], list[Value]] = {}
    for values, times in iterations:
        key = _key(values)
        if key in outputs_by_key:
            continue
        inner = Scope(scope)
        inner.values.update((entry.name, value) for entry, value in zip(body.input, values, strict=False))
        count = times if times is not None else sum(1 for other, _ in iterations if _key(other) == key)
        outputs_by_key[key] = yield walker.walk_graph(body, inner, context.of_subgraph(node, "body", count))
    outputs: list[Value | None] = []
    for i in range(len(node.proto.output)):
        if iterations and iterations[0][1] is None:
            outputs.append(sequence([outputs_by_key[_key(values)][i] for values, _ in iterations]))
        else:
            outputs.append(repeated_sequence(outputs_by_key[_key(iterations[0][0])][i] if iterations else None, length))
    return outputs


def _key(values: Sequence[Value]) -> tuple[Any, ...]:
    return tuple((value.shape, value.dtype) for value in values)


def _iterations(
    walker: Walker, node: Node, inputs: Sequence[Value], context: GraphContext
) -> tuple[list[tuple[list[Value], Any]], Any]:
    # Returns the inputs of each iteration with None. If an item is unknown: one entry, with the number of iterations.
    def item(value: Value, i: int) -> Value:
        found = value.items[i] if isinstance(value, Container) and value.items is not None else value
        return found if isinstance(found, Container) else Value(found.shape, found.dtype)

    first = inputs[0]
    length = first.length if isinstance(first, Container) else None
    are_known = all(not isinstance(value, Container) or value.items is not None for value in inputs)
    if are_known and isinstance(length, int):
        return [([item(value, i) for value in inputs], None) for i in range(length)], length
    if length is None:
        length = walker.dims.fresh(f"{context.prefix}{node.proto.name or node.proto.output[0]}_items")
        walker.recording.assume(
            f"the length of a sequence depends on data: assumed {describe_size(length)}", node.label
        )
    values = []
    for k, value in enumerate(inputs):
        element = element_of(value) if isinstance(value, Container) else common_element((value,))
        if element is None or element.shape is None:
            values.append(Value(None, value.dtype))
            continue
        name = f"{context.prefix}{node.proto.name or node.proto.output[0]}_item{k}"
        shape = tuple(walker.dims.fresh(f"{name}_{i}") if d is None else d for i, d in enumerate(element.shape))
        values.append(Value(shape, element.dtype))
    return [(values, length)], length


# Text generation: operators of ONNX Runtime that run a decoder for every token
#
# The encoder, or the decoder on the prompt, is counted once. The decoder on one token is counted for every further
# token up to the maximum length, each time with the average number of past tokens. The selection of tokens from the
# scores is a call of its own.


SEARCHES: Mapping[str, str] = {
    "com.microsoft::BeamSearch": "beam",
    "com.microsoft::WhisperBeamSearch": "beam",
    "com.microsoft::GreedySearch": "greedy",
    "com.microsoft::Sampling": "sample",
}
"""The strategy by which each operator chooses tokens."""


class GraphRun(NamedTuple):
    """One run of an encoder or decoder.

    Attributes:
        rows: sequences of the batch, beams included.
        new: new tokens of each.
        past: tokens before these.
        source: length of the encoder's output; None without an encoder.
    """

    rows: Dim
    new: Dim
    past: Dim
    source: Dim | None


class SearchSizes(NamedTuple):
    """Sizes of the outputs of a search.

    Attributes:
        batch: number of prompts.
        beams: number of beams.
        longest: maximum length of a sequence.
        steps: number of tokens generated for each prompt.
        vocabulary: number of different tokens.
        source: length of the encoder's output; None without an encoder.
    """

    batch: Dim
    beams: Dim
    longest: Dim
    steps: Dim
    vocabulary: Dim
    source: Dim | None


def search(walker: Walker, node: Node, scope: Scope, context: GraphContext) -> NodeWalk:
    """Walk the graphs of a search as often as they run, and record the choice of tokens."""
    ids = node.value("input_ids")
    walker.recording.dataflow.unknown.setdefault(f"{node.label} keeps its cache between the runs of the decoder")
    batch, encoder = ids.known_shape[0], node.args.get("encoder")
    beams = _number(walker, node, context, "num_beams") if SEARCHES[node.key] == "beam" else 1
    longest = _number(walker, node, context, "max_length")
    if encoder is not None:
        prompt = node.get("decoder_input_ids")
        first: Dim = prompt.known_shape[1] if prompt is not None else 1
        run = GraphRun(batch, first, 0, ids.known_shape[1])
        outputs = yield from _walk_graph(walker, node, scope, context, "encoder", run, 1, ids)
        source = _source_length(encoder, outputs, ids)
    else:
        first, source = ids.known_shape[1], None
        name = "init_decoder" if node.args.get("init_decoder") is not None else "decoder"
        run = GraphRun(batch * beams, first, 0, None)
        outputs = yield from _walk_graph(walker, node, scope, context, name, run, 1)
    steps = maximum(longest - first, 0)
    times = maximum(steps - 1, 0)  # the first run gave the scores of the first token
    mark = walker.recording.checkpoint()
    run = GraphRun(batch * beams, 1, first + times // 2, source)
    later = yield from _walk_graph(walker, node, scope, context, "decoder", run, times)
    if isinstance(times, int) and times == 0:
        walker.recording.take(mark)
    walker.recording.assume(
        f"the length of the generated text depends on data: assumed {longest} tokens; the decoder runs {times} times "
        "on one token, each time with the average number of past tokens",
        node.label,
    )
    scores = later[0] if later else outputs[0]
    vocabulary = node.args.get("vocab_size") if node.args.get("vocab_size", -1) > 0 else scores.known_shape[-1]
    logits = scores.viewed((batch * beams, 1, vocabulary))
    from ..contrib.text import Search

    node.inferred = Inferred((), Search(SEARCHES[node.key], steps, beams, logits))
    node.outputs = _outputs(walker, node, SearchSizes(batch, beams, longest, steps, vocabulary, source), context)
    walker.recording.record(node, context)
    return node.outputs


def _number(walker: Walker, node: Node, context: GraphContext, name: str) -> Dim:
    value = node.value(name)
    if value.data is not None:
        found: Dim = value.data.ravel()[0]
        return found
    symbol = walker.dims.fresh(f"{context.prefix}{node.proto.name or node.proto.output[0]}_{name}")
    hint = walker.recording.hints.remedy(value)
    walker.recording.assume(f"{name} depends on data: assumed {describe_size(symbol)}{hint}", node.label)
    return symbol


def _walk_graph(
    walker: Walker,
    node: Node,
    scope: Scope,
    context: GraphContext,
    name: str,
    run: GraphRun,
    times: Dim,
    first_input: Value | None = None,
) -> Any:
    # Without ``first_input``, the first input is token ids.
    graph = node.args.get(name)
    if graph is None or not graph.input:
        raise node.error(f"has no graph {name!r} with inputs")
    inner, inside = Scope(scope), context.of_subgraph(node, name, times)
    for i, entry in enumerate(graph.input):
        dtype = DTYPES.get(entry.type.tensor_type.elem_type, "int32")
        declared = declared_shape(entry.type.tensor_type, walker.dims)
        if i == 0 and first_input is not None:
            value = Value(first_input.known_shape, dtype)
        else:
            value = Value(_input_shape(walker, entry.name, declared, run, f"{inside.prefix}{entry.name}"), dtype)
        inner.values[entry.name] = value
    return (yield walker.walk_graph(graph, inner, inside))


def _input_shape(walker: Walker, name: str, declared: Any, run: GraphRun, full_name: str) -> Shape | None:
    # Declared numbers count first; name and rank imply the other sizes.
    if declared is None:
        return None
    rank = len(declared)
    length = run.past if run.source is None or "cross" not in name else run.source
    total = run.past + run.new if run.source is None else run.source
    if "past" in name and rank in (4, 5):
        implied: dict[int, Dim] = {rank - 4: run.rows, rank - 2: length}
    elif rank == 3:
        implied = {0: run.rows, 1: total}
    elif rank == 2:
        implied = {0: run.rows, 1: total if "mask" in name else run.new}
    else:
        implied = {}
    shape = [implied.get(i, d) if not isinstance(d, int) else d for i, d in enumerate(declared)]
    return tuple(walker.dims.fresh(f"{full_name}_{i}") if d is None else d for i, d in enumerate(shape))


def _source_length(encoder: Any, outputs: list[Value], ids: Value) -> Dim:
    # Depending on the exporter, an encoder outputs hidden states or keys for cross-attention.
    for entry, value in zip(encoder.output, outputs, strict=False):
        if value.shape is not None and "hidden" in entry.name and len(value.shape) == 3:
            return value.shape[1]
        if value.shape is not None and "cross" in entry.name and len(value.shape) == 4:
            return value.shape[2]
    return ids.known_shape[1]


def _outputs(walker: Walker, node: Node, sizes: SearchSizes, context: GraphContext) -> list[Value | None]:
    returned = node.get("num_return_sequences")
    count: Dim = returned.data.ravel()[0] if returned is not None and returned.data is not None else sizes.beams
    batch, longest = sizes.batch, sizes.longest
    shapes: list[tuple[Shape, str]]
    if SEARCHES[node.key] == "beam":
        shapes = [((batch, count, longest), "int32"), ((batch, count), "float32")]
        shapes.append(((sizes.steps, batch, sizes.beams, sizes.vocabulary), "float32"))
    else:
        shapes = [((batch, longest), "int32"), ((batch, sizes.vocabulary), "float32")]
    if node.op == "WhisperBeamSearch" and len(node.proto.output) > 3:
        selected = node.get("cross_qk_layer_head")
        name = f"{context.prefix}{node.proto.output[3]}_2"
        heads = selected.known_shape[0] if selected is not None else walker.dims.fresh(name)
        shapes += [((batch, count, heads, longest, sizes.source or 0), "float32"), ((batch,), "float32")]
    values = [Value(shape, dtype) for shape, dtype in shapes]
    return [value if name else None for value, name in zip(values, node.proto.output, strict=False)]


# Values of bodies


def body_scope(scope: Scope, body: Any, inputs: Sequence[Value]) -> Scope:
    """Return the scope of a loop's body: its inputs, and the values around it."""
    inner = Scope(scope)
    inner.values.update((entry.name, value) for entry, value in zip(body.input, inputs, strict=False))
    return inner


def truth(*condition: Value) -> bool | None:
    """Return the value of a condition, None if it is unknown; an omitted condition is True."""
    if not condition:
        return True
    return None if condition[0].data is None else bool(condition[0].data.ravel()[0])


def computed(value: Value) -> Value:
    """Return a data-dependent value with the same shape and dtype."""
    return value if isinstance(value, Container) else Value(value.shape, value.dtype)


def numeric(value: Value) -> Value:
    """Return a computed value with the same shape and dtype; its elements stay known if they are numbers."""
    if isinstance(value, Container):
        return value
    is_number = value.data is not None and not any(map(is_symbolic, value.data.flat))
    return Value(value.shape, value.dtype, value.data if is_number else None)


def scalar(dtype: str, number: Any) -> Value:
    """Return a computed scalar with a known value."""
    data: Any = np.empty((), dtype=object)
    data[()] = number
    return Value((), dtype, data)


def inside_body(value: Value, length: Dim) -> Value:
    """Return a carried value inside the body of a loop, where a sequence has ``length`` items."""
    return inside_loop(value, length) if isinstance(value, Container) else computed(value)


def stacked(value: Value, times: Dim, axis: int = 0) -> Value:
    """Return the outputs of all iterations, joined along a new axis."""
    if value.shape is None:
        return Value(None, value.dtype)
    shape = list(value.shape)
    shape.insert(axis if axis >= 0 else len(shape) + 1 + axis, times)
    return Value(tuple(shape), value.dtype)


def after_last_iteration(
    walker: Walker, node: Node, before: Sequence[Value], after: Sequence[Value], items: Dim = 0, times: Dim = 0
) -> list[Value | None]:
    """Return the carried values after the last iteration; a changing dimension is unknown.

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
        found.append(with_symbols(walker, node, i, merged, why))
    return found


def with_symbols(walker: Walker, node: Node, i: int, value: Value, why: str) -> Value:
    """Return output ``i`` with a symbol for every unknown dimension; ``why`` is the assumption to add."""
    if value.shape is None or None not in value.shape:
        return value
    walker.recording.assume(why, node.label)
    name = node.proto.output[i]
    shape = tuple(walker.dims.fresh(f"{name}_{axis}") if d is None else d for axis, d in enumerate(value.shape))
    return Value(shape, value.dtype)


CONTROL_FLOW: Mapping[str, Callable[[Walker, Node, Scope, GraphContext], NodeWalk]] = {
    "ai.onnx::If": branch,
    "ai.onnx::Loop": loop,
    "ai.onnx::Scan": scan,
    SEQUENCE_MAP: sequence_map,
    **dict.fromkeys(SEARCHES, search),
}
"""By full name of the operator."""
