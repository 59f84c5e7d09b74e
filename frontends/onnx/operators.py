"""All operators that the frontend reads, those of the ONNX standard and those that ONNX Runtime adds."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from costcore.translate import Row

from .contrib.table import SPECS
from .graph.node import Operator, Rule
from .rows import table as rows
from .schema.constraints import CONSTRAINTS
from .schema.signature import arguments_of_schemas, schema_signature
from .shapes import table as shapes

ROWS: tuple[Row, ...] = (*rows.ROWS, *(row for spec in SPECS.values() for row in spec.own_rows))
"""Rows by full operator name; arguments have the names of the operator's schema."""

RULES: Mapping[str, Rule] = {
    **shapes.RULES,
    **{key: spec.infer for key, spec in SPECS.items() if spec.infer is not None},
}
"""Shape rules by full operator name."""


@cache
def operator(domain: str, op: str, version: int) -> Operator:
    """Return an operator in the given version of its domain.

    An operator that came with a later version is read as of the newest version of its schema.
    """
    key = f"{domain}::{op}"
    signature, spec = schema_signature(domain, op, version), SPECS.get(key)
    if spec is None:
        return Operator(key, signature, CONSTRAINTS.get(key), RULES.get(key))
    return Operator(key, signature or spec.signature, spec.constraints, RULES.get(key))


@cache
def arguments_of_any_version(key: str) -> frozenset[str]:
    """Return the names of the inputs and attributes that an operator has in any version.

    The inputs of an operator without a schema are one argument, ``inputs``.
    """
    names = arguments_of_schemas(key)
    if key in SPECS:
        names |= {name for name, _ in SPECS[key].signature.inputs}
    return names or frozenset({"inputs"})
