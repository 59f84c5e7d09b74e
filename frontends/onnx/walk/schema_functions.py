"""Operators that stand for others: those that the standard defines by a function, and maps over sequences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from onnx import FunctionProto, helper

from costcore.translate import Row

from ..graph.node import Node
from ..graph.scope import Place, Scope, inside
from ..schema.signature import ONNX
from ..values.containers import common, element_of, repeated, sequence
from ..values.dimensions import called
from ..values.value import DTYPES, Container, Value
from .function_calls import inner_scope
from .gradient import GRADIENT, gradient
from .walker import Outputs, Walker

NUMBERS = {dtype: number for number, dtype in DTYPES.items()}


class Expansions:
    """Which operators are walked in other operators' stead, and how.

    A row of the table wins: only an operator that no row speaks of is expanded to the function that defines it.

    Args:
        rows: the table.
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows: dict[str, list[Row]] = {}
        for row in rows:
            self._rows.setdefault(row.native, []).append(row)

    def __call__(self, walker: Walker, node: Node, scope: Scope, place: Place) -> Outputs | None:
        """The walk of what ``node`` stands for; None where it stands for itself."""
        if node.key == GRADIENT:
            return gradient(walker, node, scope)
        if node.key == SEQUENCE_MAP and node.args.get("body") is not None:
            return sequence_map(walker, node, scope, place)
        if any(row.when is None or row.when(node.args) for row in self._rows.get(node.key, ())):
            return None
        function = definition(node, place)
        return None if function is None else _defined(walker, node, function, place)


def definition(node: Node, place: Place) -> Any:
    """The function (``FunctionProto``) that the standard defines an operator by; None where it has none."""
    schema = node.schema
    if schema is None:
        return None
    if schema.has_function:
        return schema.function_body
    if not schema.has_context_dependent_function:
        return None
    types = [_type(value) for value in node.inputs]
    if any(written is None for written in types):
        return None
    domain = node.key.partition("::")[0]
    version = max(
        (v for v in schema.context_dependent_function_opset_versions if v <= place.opsets.get(domain, v)), default=None
    )
    if version is None:
        return None
    body = schema.get_context_dependent_function_with_opset_version(version, node.proto.SerializeToString(), types)
    function = FunctionProto()
    function.ParseFromString(body)
    return function if function.node else None


def _type(value: Value | None) -> bytes | None:
    """The type of an input as bytes of a ``TypeProto``; empty for one left out, None where it cannot be told."""
    if value is None:
        return b""
    if isinstance(value, Container) or value.shape is None or value.dtype not in NUMBERS:
        return None
    shape = [d if isinstance(d, int) and d < 1 << 63 else str(d) for d in value.shape]
    written: bytes = helper.make_tensor_type_proto(NUMBERS[value.dtype], shape).SerializeToString()
    return written


def _defined(walker: Walker, node: Node, function: Any, place: Place) -> Outputs:
    """The outputs of an operator, by the function that defines it; the region of its calls says so."""
    scope, region = inner_scope(function, node.inputs), inside(place, node, "definition")
    given = place.resolved(node.proto)
    attributes = node.schema.attributes if node.schema is not None else {}
    defaults = {name: a.default_value for name, a in attributes.items() if a.default_value.type}
    body = Place(
        opsets={entry.domain or ONNX: entry.version for entry in function.opset_import} or place.opsets,
        module=place.module,
        names=region.names,
        times=place.times,
        region=region.region,
        attributes={**defaults, **given},
        functions=(*place.functions, node.key),
        source=region.source,
    )
    if node.key in place.functions:
        raise node.error("is defined by itself")
    yield walker.nodes(function.node, scope, body, function.output)
    return [scope.find(name) for name in function.output][: len(node.proto.output)]


SEQUENCE_MAP = "ai.onnx::SequenceMap"


def sequence_map(walker: Walker, node: Node, scope: Scope, place: Place) -> Outputs:
    """``SequenceMap``: the body once for every item; items of equal shapes are walked once, and counted together."""
    body = node.args["body"]
    first, rest = node.value("input_sequence"), node.args.get("additional_inputs") or []
    given = [first, *rest]
    rows, length = _iterations(walker, node, given, place)
    made: dict[tuple[Any, ...], list[Value]] = {}
    for values, times in rows:
        key = tuple((value.shape, value.dtype) for value in values)
        if key in made:
            continue
        inner = Scope(scope)
        inner.values.update((entry.name, value) for entry, value in zip(body.input, values, strict=False))
        count = times if times is not None else sum(1 for other, _ in rows if _key(other) == key)
        made[key] = yield walker.graph(body, inner, inside(place, node, "body", count))
    outputs: list[Value | None] = []
    for i in range(len(node.proto.output)):
        if rows and rows[0][1] is None:
            outputs.append(sequence([made[_key(values)][i] for values, _ in rows]))
        else:
            outputs.append(repeated(made[_key(rows[0][0])][i] if rows else None, length))
    return outputs


def _key(values: Sequence[Value]) -> tuple[Any, ...]:
    return tuple((value.shape, value.dtype) for value in values)


def _iterations(
    walker: Walker, node: Node, given: Sequence[Value], place: Place
) -> tuple[list[tuple[list[Value], Any]], Any]:
    """The body's inputs for every iteration, and how many there are.

    Where not every item is known there is one entry, with the number of iterations beside it.
    """

    def item(value: Value, i: int) -> Value:
        found = value.items[i] if isinstance(value, Container) and value.items is not None else value
        return found if isinstance(found, Container) else Value(found.shape, found.dtype)

    first = given[0]
    length = first.length if isinstance(first, Container) else None
    if all(not isinstance(value, Container) or value.items is not None for value in given) and isinstance(length, int):
        return [([item(value, i) for value in given], None) for i in range(length)], length
    if length is None:
        length = walker.dims.fresh(f"{place.names}{node.proto.name or node.proto.output[0]}_items")
        walker.assume(f"the length of a sequence depends on data: it is {called(length)}", node.label)
    values = []
    for k, value in enumerate(given):
        element = element_of(value) if isinstance(value, Container) else common((value,))
        if element is None or element.shape is None:
            values.append(Value(None, value.dtype))
            continue
        name = f"{place.names}{node.proto.name or node.proto.output[0]}_item{k}"
        shape = tuple(walker.dims.fresh(f"{name}_{i}") if d is None else d for i, d in enumerate(element.shape))
        values.append(Value(shape, element.dtype))
    return [(values, length)], length
