"""What onnx's schemas say of an operator, in the version a model uses, and attributes as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

from onnx import AttributeProto, defs

from ..contrib import CURRENT, inputs_of, least_of

ONNX = "ai.onnx"
"""The domain that is written as nothing."""


WHOLE: Mapping[str, int] = dict.fromkeys(
    (
        *("num_heads", "kv_num_heads", "q_num_heads", "hidden_size", "head_size", "v_head_size", "n_head_per_ngram"),
        *(
            "rotary_embedding_dim",
            "do_rotary",
            "interleaved",
            "unidirectional",
            "causal",
            "local_window_size",
            "window",
        ),
        *("token_budget", "compress_ratio", "index_topk", "state_update_capacity", "past_present_share_buffer"),
        *("K", "N", "k", "bits", "expert_weight_bits", "block_size", "group", "groups", "channels_last", "channels"),
        *(
            "axis",
            "dim",
            "step",
            "batch_dims",
            "keepdims",
            "ceil_mode",
            "transA",
            "transB",
            "transBatchA",
            "transBatchB",
        ),
        *("signal_ndim", "normalized", "onesided", "upper", "positive", "dtype", "vocab_size", "opset", "clip"),
        *("min_ngram_size", "max_ngram_size", "ngram_size", "num_branches", "quantize_axis", "gather_axis"),
    ),
    int(AttributeProto.INT),
)
"""Attributes of operators of ONNX Runtime that are one whole number wherever there are any of that name."""


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
def signature(domain: str, op: str, version: int) -> Signature | None:
    """The schema of an operator in the given version of its domain, or what ONNX Runtime adds; None for others.

    An operator that came with a later version is read as of the version known last.
    """
    schema = _schema(op, version, "" if domain == ONNX else domain)
    if schema is None:
        added = inputs_of(f"{domain}::{op}")
        return Signature(CURRENT, added, {}, None, WHOLE, least=least_of(f"{domain}::{op}")) if added else None
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


@cache
def arguments_of_any_version(op: str) -> frozenset[str]:
    """The names that an operator (full name) has for its inputs and attributes in some version, or for all inputs."""
    inputs = {name for name, _ in inputs_of(op)}
    for schema in defs.get_all_schemas_with_history():
        if f"{schema.domain or ONNX}::{schema.name}" == op:
            inputs |= {formal.name for formal in schema.inputs}
    return frozenset({*inputs, *types_of_any_version(op)} if inputs else {"inputs"})


def type_name(kind: int) -> str:
    """The name of an attribute type."""
    return str(AttributeProto.AttributeType.Name(kind)) if kind in AttributeProto.AttributeType.values() else str(kind)
