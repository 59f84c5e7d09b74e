"""All operators that the frontend reads: rows and shape rules of the ONNX standard and of ONNX Runtime.

The tables of ONNX Runtime are imported for the first operator outside of the standard: most models have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from onnx import defs

from costcore.plugins import modules_with
from costcore.translate import Row, by_operator

from .node import Operator, Rule
from .schema import CONSTRAINTS, arguments_of_schemas, schema_signature

ROW_MODULES = modules_with("ROWS", f"{__package__}.operators")

ROWS: tuple[Row, ...] = tuple(row for family in ROW_MODULES for row in family.ROWS)
"""Rows by family; arguments have the names of the operator's schema."""

_STANDARD_ROWS = by_operator(ROWS)


class RowTable(Mapping[str, Sequence[Row]]):
    """Rows by full operator name; arguments have the names of the operator's schema.

    Args:
        first: rows of plug-ins, which come before those of the frontend.
    """

    def __init__(self, first: Iterable[Row] = ()) -> None:
        self._first = by_operator(first)

    def __getitem__(self, key: str) -> Sequence[Row]:
        found = (*self._first.get(key, ()), *_own_rows(key))
        if not found:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[str]:
        from .contrib import CONTRIB_ROWS

        yield from dict.fromkeys([*self._first, *_STANDARD_ROWS, *CONTRIB_ROWS])

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _own_rows(key: str) -> Sequence[Row]:
    if _is_standard(key):
        return () if is_newer_than_onnx(key) else _STANDARD_ROWS.get(key, ())
    from .contrib import CONTRIB_ROWS

    return CONTRIB_ROWS.get(key, ())


def _is_standard(key: str) -> bool:
    return key in RULES or key in _STANDARD_ROWS


@lru_cache(maxsize=1 << 12)
def is_newer_than_onnx(key: str) -> bool:
    """Return whether an operator of the standard (full name) is newer than the installed onnx."""
    domain, _, op = key.partition("::")
    return _is_standard(key) and schema_signature(domain, op, defs.onnx_opset_version()) is None


def all_rows() -> tuple[Row, ...]:
    """Return the rows of all operators."""
    from .contrib import CONTRIB_ROWS

    return (*ROWS, *(row for own in CONTRIB_ROWS.values() for row in own))


def all_rules() -> dict[str, Rule]:
    """Return the shape rules of all operators by full name."""
    from .contrib import SPECS

    return {**RULES, **{key: spec.infer for key, spec in SPECS.items() if spec.infer is not None}}


@lru_cache(maxsize=1 << 12)
def operator(domain: str, op: str, version: int) -> Operator:
    """Return an operator in the given version of its domain.

    An operator that came with a later version is read as of the newest version of its schema.
    """
    key = f"{domain}::{op}"
    if is_newer_than_onnx(key):
        return Operator(key, None, None, None)
    signature = schema_signature(domain, op, version)
    if not _is_standard(key):
        from .contrib import SPECS

        if (spec := SPECS.get(key)) is not None:
            return Operator(key, signature or spec.signature, spec.constraints, spec.infer)
    return Operator(key, signature, CONSTRAINTS.get(key), RULES.get(key))


@lru_cache(maxsize=1 << 12)
def arguments_of_any_version(key: str) -> frozenset[str]:
    """Return the names of the inputs and attributes that an operator has in any version.

    The inputs of an operator without a schema are one argument, ``inputs``.
    """
    names = arguments_of_schemas(key)
    if not _is_standard(key):
        from .contrib import SPECS

        if key in SPECS:
            names |= {name for name, _ in SPECS[key].signature.inputs}
    return names or frozenset({"inputs"})


# Shape rules of the ONNX standard


RULE_MODULES = modules_with("RULES", f"{__package__}.operators")

RULES: Mapping[str, Rule] = {key: rule for family in RULE_MODULES for key, rule in family.RULES.items()}
"""Rules by full operator name."""
