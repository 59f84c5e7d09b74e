"""All operators that ONNX Runtime adds to the standard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from costcore.import_paths import modules_with
from costcore.translate import Row, by_operator

from .spec import OperatorSpec

FAMILIES = modules_with("SPECS", __package__)

SPECS: Mapping[str, OperatorSpec] = {spec.key: spec for family in FAMILIES for spec in family.SPECS}
"""Specs by full operator name."""

ROWS: Mapping[str, Sequence[Row]] = by_operator(row for spec in SPECS.values() for row in spec.own_rows)
"""Rows by full operator name; arguments have the names of the operator's schema."""
