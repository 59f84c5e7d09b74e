"""Operators that the ONNX standard defines by a function of other operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnx import FunctionProto, helper

from costcore.translate import Row

from ..graph.node import Node
from ..graph.scope import GraphContext, Scope
from ..schema.signature import ONNX
from ..values.value import DTYPES, Container, Value
from .function_calls import function_scope
from .gradient import GRADIENT, gradient
from .walker import Outputs, Walker

NUMBERS = {dtype: number for number, dtype in DTYPES.items()}


class SchemaFunctions:
    """Walks operators by the functions that define them, unless a row maps them.

    Args:
        rows: the mapping rules by full name of the operator.
    """

    def __init__(self, rows: Mapping[str, Sequence[Row]]) -> None:
        self._rows = rows

    def __call__(self, walker: Walker, node: Node, scope: Scope, context: GraphContext) -> Outputs | None:
        """Return the walk over the nodes that define ``node``; None if it is recorded itself."""
        if node.key == GRADIENT:
            return gradient(walker, node, scope, context)
        if any(row.when is None or row.when(node.args) for row in self._rows.get(node.key, ())):
            return None
        function = definition(node, context)
        return None if function is None else _expanded(walker, node, function, context)


def definition(node: Node, context: GraphContext) -> Any:
    """Return the function (``FunctionProto``) by which the standard defines an operator; None if there is none."""
    schema = node.schema
    if schema is None:
        return None
    if schema.has_function:
        return schema.function_body
    if not schema.has_context_dependent_function:
        return None
    types = [_type_bytes(value) for value in node.inputs]
    if any(written is None for written in types):
        return None
    domain = node.key.partition("::")[0]
    imported = context.opsets
    version = max(
        (v for v in schema.context_dependent_function_opset_versions if v <= imported.get(domain, v)), default=None
    )
    if version is None:
        return None
    body = schema.get_context_dependent_function_with_opset_version(version, node.proto.SerializeToString(), types)
    function = FunctionProto()
    function.ParseFromString(body)
    return function if function.node else None


def _type_bytes(value: Value | None) -> bytes | None:
    """Return the type of an input as a serialized ``TypeProto``; empty for an omitted one, None if unknown."""
    if value is None:
        return b""
    if isinstance(value, Container) or value.shape is None or value.dtype not in NUMBERS:
        return None
    shape = [d if isinstance(d, int) and d < 1 << 63 else str(d) for d in value.shape]
    written: bytes = helper.make_tensor_type_proto(NUMBERS[value.dtype], shape).SerializeToString()
    return written


def _expanded(walker: Walker, node: Node, function: Any, context: GraphContext) -> Outputs:
    """Walk the function that defines an operator; the region of its calls ends in ``.definition``."""
    scope, inner = function_scope(function, node.inputs), context.of_subgraph(node, "definition")
    attributes = node.schema.attributes if node.schema is not None else {}
    defaults = {name: a.default_value for name, a in attributes.items() if a.default_value.type}
    inside = GraphContext(
        opsets={entry.domain or ONNX: entry.version for entry in function.opset_import} or context.opsets,
        module=context.module,
        prefix=inner.prefix,
        times=context.times,
        region=inner.region,
        call_attributes={**defaults, **context.attributes_of(node.proto)},
        expanding=(*context.expanding, node.key),
        source=inner.source,
    )
    if node.key in context.expanding:
        raise node.error("is defined by a function that uses it")
    yield walker.walk_nodes(function.node, scope, inside, function.output)
    return [scope.find(name) for name in function.output][: len(node.proto.output)]
