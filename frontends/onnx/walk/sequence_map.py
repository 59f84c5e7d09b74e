"""``SequenceMap``: its body, once for every item of a sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..graph.node import Node
from ..graph.scope import GraphContext, Scope
from ..values.containers import common_element, element_of, repeated_sequence, sequence
from ..values.dimensions import describe_size
from ..values.value import Container, Value
from .walker import Outputs, Walker

SEQUENCE_MAP = "ai.onnx::SequenceMap"


def sequence_map(walker: Walker, node: Node, scope: Scope, context: GraphContext) -> Outputs:
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
    """Return the body's inputs for every iteration, and the number of iterations.

    If an item is unknown there is one entry, with the number of iterations beside it.
    """

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
