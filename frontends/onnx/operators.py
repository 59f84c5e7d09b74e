"""All operators that the frontend reads, those of the ONNX standard and those that ONNX Runtime adds.

The tables of ONNX Runtime's operators are imported for the first operator that is not in those of the standard: most
models have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from onnx import defs

from costcore.translate import Row, by_operator

from .graph.node import Operator, Rule
from .rows import table as rows
from .schema.constraints import CONSTRAINTS
from .schema.signature import arguments_of_schemas, schema_signature
from .shapes import table as shapes

_STANDARD_ROWS = by_operator(rows.ROWS)


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
        from .contrib.table import ROWS

        yield from dict.fromkeys([*self._first, *_STANDARD_ROWS, *ROWS])

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _own_rows(key: str) -> Sequence[Row]:
    if _is_standard(key):
        return () if is_newer_than_onnx(key) else _STANDARD_ROWS.get(key, ())
    from .contrib.table import ROWS

    return ROWS.get(key, ())


def _is_standard(key: str) -> bool:
    return key in shapes.RULES or key in _STANDARD_ROWS


@lru_cache(maxsize=1 << 12)
def is_newer_than_onnx(key: str) -> bool:
    """Return whether an operator of the standard (full name) is newer than the installed onnx."""
    domain, _, op = key.partition("::")
    return _is_standard(key) and schema_signature(domain, op, defs.onnx_opset_version()) is None


def all_rows() -> tuple[Row, ...]:
    """Return the rows of all operators."""
    from .contrib.table import ROWS

    return (*rows.ROWS, *(row for own in ROWS.values() for row in own))


def all_rules() -> dict[str, Rule]:
    """Return the shape rules of all operators by full name."""
    from .contrib.table import SPECS

    return {**shapes.RULES, **{key: spec.infer for key, spec in SPECS.items() if spec.infer is not None}}


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
        from .contrib.table import SPECS

        if (spec := SPECS.get(key)) is not None:
            return Operator(key, signature or spec.signature, spec.constraints, spec.infer)
    return Operator(key, signature, CONSTRAINTS.get(key), shapes.RULES.get(key))


@lru_cache(maxsize=1 << 12)
def arguments_of_any_version(key: str) -> frozenset[str]:
    """Return the names of the inputs and attributes that an operator has in any version.

    The inputs of an operator without a schema are one argument, ``inputs``.
    """
    names = arguments_of_schemas(key)
    if not _is_standard(key):
        from .contrib.table import SPECS

        if key in SPECS:
            names |= {name for name, _ in SPECS[key].signature.inputs}
    return names or frozenset({"inputs"})
