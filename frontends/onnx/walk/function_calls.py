"""Calls of the functions that a model defines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..graph.node import Node
from ..graph.scope import GraphContext, Scope
from ..schema.signature import ONNX
from ..values.value import Value
from .function_reuse import function_call_key
from .walker import Outputs, Walker


def call_function(walker: Walker, node: Node, function: Any, context: GraphContext) -> Outputs:
    """Walk a call of a model function (``FunctionProto``): by its formula if it has one, else by its nodes."""
    has_formula = walker.recording.has_formula(node.key)
    return (_with_formula if has_formula else _with_nodes)(walker, node, function, context)


def _with_formula(walker: Walker, node: Node, function: Any, context: GraphContext) -> Outputs:
    """Record the call itself; the nodes of the function give only the shapes of its outputs."""
    mark = walker.recording.checkpoint()
    node.outputs = yield _expanded(walker, node, function, context)
    walker.recording.rollback(mark)
    walker.record(node, context)
    return node.outputs


def _with_nodes(walker: Walker, node: Node, function: Any, context: GraphContext) -> Outputs:
    """Walk the nodes of the function again for every call.

    If these are very many, equal calls outside loops and branches are walked once and multiplied.
    """
    if walker.function_cache is None or context.region:
        expanded: list[Value | None] = yield _expanded(walker, node, function, context)
        return expanded
    key = function_call_key(node, context.attributes_of(node.proto), context)
    replayed = walker.function_cache.replay(key)
    if replayed is not None:
        return replayed
    walker.recording.note(
        f"the model's functions expand to {walker.functions.expanded} nodes: calls of one function with equal "
        "inputs are counted together, in the module of the first"
    )
    walker.function_cache.enter()
    outputs: list[Value | None] = yield _expanded(walker, node, function, context)
    walker.function_cache.leave(key, outputs)
    return outputs


def _expanded(walker: Walker, node: Node, function: Any, context: GraphContext) -> Outputs:
    """Walk the nodes of a function."""
    scope = function_scope(function, node.inputs)
    scope.declared = {entry.name: entry.type for entry in function.value_info}
    inside = GraphContext(
        opsets={entry.domain or ONNX: entry.version for entry in function.opset_import} or context.opsets,
        module=walker.recording.modules.of_call(node.proto, context.module),
        prefix=f"{context.prefix}{node.proto.name or node.op}/",
        times=context.times,
        region=context.region,
        call_attributes={**{a.name: a for a in function.attribute_proto}, **context.attributes_of(node.proto)},
        expanding=(node.key,),
        source=node.key,
    )
    yield walker.walk_nodes(function.node, scope, inside, function.output)
    outputs = [scope.find(name) for name in function.output]
    walker.user_shapes.apply(node, context.prefix, outputs)
    return outputs


def function_scope(function: Any, inputs: Sequence[Value | None]) -> Scope:
    """Return the scope of a function's nodes: its inputs, of which the last may be omitted."""
    scope = Scope()
    scope.values.update((name, value) for name, value in zip(function.input, inputs, strict=False) if value is not None)
    scope.absent = frozenset(name for name in function.input if name not in scope.values)
    return scope
