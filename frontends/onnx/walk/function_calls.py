"""Calls of the functions that a model brings along."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..graph.node import Node
from ..graph.scope import Place, Scope
from ..schema.signature import ONNX
from ..values.value import Value

if TYPE_CHECKING:
    from .walker import Outputs, Walker


def called(walker: Walker, node: Node, function: Any, place: Place) -> Outputs:
    """The outputs of a call of one of the model's functions: its nodes are walked anew for every call.

    Where that would be too many, equal calls outside of loops and branches are walked once, and multiplied.
    """
    if walker.repeats is None or place.region:
        anew: list[Value | None] = yield _expanded(walker, node, function, place)
        return anew
    given = place.resolved(node.proto)
    known = walker.repeats.again(node, given, place)
    if known is not None:
        return known
    walker.note(
        f"the model's functions expand to {walker.functions.expanded} nodes: calls of one function with equal "
        "inputs are counted together, at the place of the first"
    )
    walker.repeats.enter()
    outputs: list[Value | None] = yield _expanded(walker, node, function, place)
    walker.repeats.leave(node, given, place, outputs)
    return outputs


def priced(walker: Walker, node: Node, function: Any, place: Place) -> Outputs:
    """The outputs of a call of a function that has a formula, which wins: its body tells shapes only."""
    begun, assumed = len(walker.recorder.calls), walker.recorder.assumed
    node.outputs = yield _expanded(walker, node, function, place)
    walker.recorder.keep(begun, assumed)
    walker.recorded(node, walker.record(node, place))
    return node.outputs


def _expanded(walker: Walker, node: Node, function: Any, place: Place) -> Outputs:
    scope = inner_scope(function, node.inputs)
    scope.declared = {entry.name: entry.type for entry in function.value_info}
    caller = node.proto.name or node.op
    module = walker.modules.of_call(node.proto, place.module)
    inside = Place(
        opsets={entry.domain or ONNX: entry.version for entry in function.opset_import} or place.opsets,
        module=module,
        names=f"{place.names}{caller}/",
        times=place.times,
        region=place.region,
        attributes={**{a.name: a for a in function.attribute_proto}, **place.resolved(node.proto)},
        functions=(node.key,),
        source=node.key,
    )
    yield walker.nodes(function.node, scope, inside, function.output)
    made = [scope.find(name) for name in function.output]
    walker.told.fit(node, place.names, made)
    return made


def inner_scope(function: Any, given: Sequence[Value | None]) -> Scope:
    """What the nodes of a function see: its inputs, of which the last may be left out."""
    scope = Scope()
    scope.values.update((name, value) for name, value in zip(function.input, given, strict=False) if value is not None)
    scope.absent = frozenset(name for name in function.input if name not in scope.values)
    return scope
