"""``Scan``: the body once for all slices of the scanned inputs."""

from __future__ import annotations

from ..graph.node import Node
from ..graph.scope import GraphContext, Scope
from ..values.value import Value
from .carried_values import carried_out, computed, stacked
from .walker import Outputs, Walker


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
    final = carried_out(walker, node, values[: len(states)], outputs[: len(states)])
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
