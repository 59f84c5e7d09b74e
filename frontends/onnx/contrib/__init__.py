"""Operators of ONNX Runtime beyond the standard: inputs, constraints, shape rule and rows of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from costcore.plugins import modules_with
from costcore.translate import Row, by_operator

from ..node import OperatorSpec

# All operators, gathered from the modules of families.


SPEC_MODULES = modules_with("SPECS", __package__)

SPECS: Mapping[str, OperatorSpec] = {spec.key: spec for family in SPEC_MODULES for spec in family.SPECS}
"""Specs by full operator name."""

CONTRIB_ROWS: Mapping[str, Sequence[Row]] = by_operator(row for spec in SPECS.values() for row in spec.own_rows)
"""Rows by full operator name; arguments have the names of the operator's schema."""
