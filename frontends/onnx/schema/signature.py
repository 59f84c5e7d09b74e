"""Signatures of operators from onnx's schemas, in the version that a model uses, and attributes as plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from onnx import AttributeProto, defs

ONNX = "ai.onnx"
"""Name of the default domain, which models write as an empty string."""

NEWEST_VERSION = 1 << 30
"""A version above all versions of schemas: it selects the newest schema of an operator."""


class Signature(NamedTuple):
    """Inputs and attributes of an operator.

    Attributes:
        since: version of the domain that introduced the schema.
        inputs: names of the inputs, and whether each is variadic.
        defaults: default values of attributes, by name.
        schema: the schema itself; None for an operator of ONNX Runtime.
        types: types of attributes, by name.
        required: names of the attributes that must be given.
        least: number of leading inputs that must be given.
        tensors_only: whether all inputs are tensors, not sequences, maps or optionals.
        makes_tensors: whether all outputs are.
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


@lru_cache(maxsize=1 << 12)
def schema_signature(domain: str, op: str, version: int) -> Signature | None:
    """Return the signature of an operator in the given version of its domain; None if onnx has no schema of it.

    An operator that came with a later version is read as of its newest version.
    """
    schema = _schema(op, version, "" if domain == ONNX else domain)
    if schema is None:
        return None
    single, variadic = defs.OpSchema.FormalParameterOption.Single, defs.OpSchema.FormalParameterOption.Variadic
    return Signature(
        schema.since_version,
        tuple((formal.name, formal.option == variadic) for formal in schema.inputs),
        {name: attribute_value(a.default_value) for name, a in schema.attributes.items() if a.default_value.type},
        schema,
        {name: int(a.type.value) for name, a in schema.attributes.items()},
        frozenset(name for name, a in schema.attributes.items() if a.required),
        next((i for i, f in enumerate(schema.inputs) if f.option != single), len(schema.inputs)),
        all(kind.startswith("tensor") for formal in schema.inputs for kind in formal.types),
        all(kind.startswith("tensor") for formal in schema.outputs for kind in formal.types),
    )


def _schema(op: str, version: int, domain: str) -> Any:
    """Return the schema of that version, else the newest one; None if there is none."""
    for where in ((version, domain), (domain,)):
        try:
            return defs.get_schema(op, *where)
        except defs.SchemaError:
            continue
    return None


def attribute_value(attribute: Any) -> Any:
    """Return an attribute as a number, a string or a tuple of these; tensors and graphs as they are."""
    kind = attribute.type
    if kind == AttributeProto.FLOAT:
        return float(f"{attribute.f:.7g}")  # the shortest decimal that is this float32
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


@lru_cache(maxsize=1 << 12)
def types_of_any_version(op: str) -> Mapping[str, set[int]]:
    """Return the types that each attribute of an operator (full name) has in any version."""
    found: dict[str, set[int]] = {}
    for schema in _versions(op):
        for name, attribute in schema.attributes.items():
            found.setdefault(name, set()).add(int(attribute.type.value))
    return found


def arguments_of_schemas(op: str) -> frozenset[str]:
    """Return the names of the inputs and attributes of an operator (full name) in all versions of its schema."""
    inputs = {formal.name for schema in _versions(op) for formal in schema.inputs}
    return frozenset({*inputs, *types_of_any_version(op)} if inputs else ())


def _versions(op: str) -> Iterator[Any]:
    """Yield all versions of the schema of an operator (full name), the newest first.

    A list of the schemas of all operators takes longer to make than a report of a small model.
    """
    domain, _, name = op.partition("::")
    version = NEWEST_VERSION
    while True:
        try:
            schema = defs.get_schema(name, version, "" if domain == ONNX else domain)
        except defs.SchemaError:
            return
        yield schema
        version = schema.since_version - 1


def type_name(kind: int) -> str:
    """Return the name of an attribute type."""
    return str(AttributeProto.AttributeType.Name(kind)) if kind in AttributeProto.AttributeType.values() else str(kind)
