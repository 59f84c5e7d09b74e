"""What onnx's schemas say of an operator, in the version a model uses, and attributes as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

from onnx import AttributeProto, defs

ONNX = "ai.onnx"
"""The domain that is written as nothing."""


class Signature(NamedTuple):
    """What a schema says.

    Attributes:
        since: the version it came with.
        inputs: names of inputs, variadic ones marked.
        defaults: of attributes by name.
        schema: the schema itself; None where there is none.
        types: of attributes by name.
        required: the attributes that must be there.
        least: how many inputs may not be left out; they come first.
        tensors_only: whether it takes neither sequences nor maps nor optionals.
        makes_tensors: whether it makes none of them.
    """

    since: int
    inputs: tuple[tuple[str, bool], ...]
    defaults: Mapping[str, Any]
    schema: Any
    types: Mapping[str, int] = MappingProxyType({})
    required: frozenset[str] = frozenset()
    least: int = 0
    tensors_only: bool = False
    makes_tensors: bool = False


@cache
def schema_signature(domain: str, op: str, version: int) -> Signature | None:
    """Return what onnx's schema of an operator says, in the given version of its domain; None if it has none.

    An operator that came with a later version is read as of the newest version.
    """
    schema = _schema(op, version, "" if domain == ONNX else domain)
    if schema is None:
        return None
    single, variadic = defs.OpSchema.FormalParameterOption.Single, defs.OpSchema.FormalParameterOption.Variadic
    return Signature(
        schema.since_version,
        tuple((formal.name, formal.option == variadic) for formal in schema.inputs),
        {name: setting(a.default_value) for name, a in schema.attributes.items() if a.default_value.type},
        schema,
        {name: int(a.type.value) for name, a in schema.attributes.items()},
        frozenset(name for name, a in schema.attributes.items() if a.required),
        next((i for i, f in enumerate(schema.inputs) if f.option != single), len(schema.inputs)),
        all(kind.startswith("tensor") for formal in schema.inputs for kind in formal.types),
        all(kind.startswith("tensor") for formal in schema.outputs for kind in formal.types),
    )


def _schema(op: str, version: int, domain: str) -> Any:
    """The schema of that version, else the last; None where there is none."""
    for place in ((version, domain), (domain,)):
        try:
            return defs.get_schema(op, *place)
        except defs.SchemaError:
            continue
    return None


def setting(attribute: Any) -> Any:
    """An attribute as a plain value: numbers, strings and tuples of them; tensors and graphs as they are."""
    kind = attribute.type
    if kind == AttributeProto.FLOAT:
        return float(f"{attribute.f:.7g}")  # the shortest decimal that the writer can have meant
    if kind == AttributeProto.STRING:
        return attribute.s.decode("utf-8", "replace")
    if kind == AttributeProto.STRINGS:
        return tuple(s.decode("utf-8", "replace") for s in attribute.strings)
    if kind == AttributeProto.FLOATS:
        return tuple(float(f"{f:.7g}") for f in attribute.floats)
    name = _FIELDS.get(kind)
    if name is None:
        return None
    value = getattr(attribute, name)
    return tuple(value) if name.endswith("s") else value


_FIELDS = {
    AttributeProto.INT: "i",
    AttributeProto.INTS: "ints",
    AttributeProto.TENSOR: "t",
    AttributeProto.TENSORS: "tensors",
    AttributeProto.GRAPH: "g",
    AttributeProto.GRAPHS: "graphs",
    AttributeProto.SPARSE_TENSOR: "sparse_tensor",
}


def types_of_any_version(op: str) -> Mapping[str, set[int]]:
    """The types that each attribute of an operator (full name) has in some version."""
    return _types().get(op, {})


@cache
def _types() -> Mapping[str, Mapping[str, set[int]]]:
    found: dict[str, dict[str, set[int]]] = {}
    for schema in defs.get_all_schemas_with_history():
        types = found.setdefault(f"{schema.domain or ONNX}::{schema.name}", {})
        for name, attribute in schema.attributes.items():
            types.setdefault(name, set()).add(int(attribute.type.value))
    return found


def arguments_of_schemas(op: str) -> frozenset[str]:
    """Return the names of the inputs and attributes that an operator (full name) has in some version of its schema."""
    schemas = (s for s in defs.get_all_schemas_with_history() if f"{s.domain or ONNX}::{s.name}" == op)
    inputs = {formal.name for schema in schemas for formal in schema.inputs}
    return frozenset({*inputs, *types_of_any_version(op)} if inputs else ())


def type_name(kind: int) -> str:
    """The name of an attribute type."""
    return str(AttributeProto.AttributeType.Name(kind)) if kind in AttributeProto.AttributeType.values() else str(kind)
