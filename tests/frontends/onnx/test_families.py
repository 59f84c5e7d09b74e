"""Rows, shape rules and specs lie in the file or folder of their calculator's family."""

from __future__ import annotations

from types import ModuleType

import pytest

from costcore.calculators import operator_families
from costcore.frontends.onnx.contrib import table as contrib
from costcore.frontends.onnx.operators import all_rows, all_rules
from costcore.frontends.onnx.rows import table as rows
from costcore.frontends.onnx.shapes import table as shapes
from costcore.translate import Row

FAMILY = operator_families()


def family_of(module: ModuleType) -> str:
    """The file or folder of a module below ``rows``, ``shapes`` or ``contrib``."""
    return module.__name__.split(".")[4]


def families(row: Row) -> set[str]:
    """The families of the operators that a row may be translated to."""
    return {FAMILY[op] for op in ((row.op,) if isinstance(row.op, str) else row.ops)}


@pytest.mark.parametrize("module", rows.FAMILIES, ids=family_of)
def test_rows_lie_with_their_family(module):
    assert {row.native for row in module.ROWS if family_of(module) not in families(row)} == set()


@pytest.mark.parametrize("module", shapes.FAMILIES, ids=lambda module: module.__name__.split(".", 4)[4])
def test_shape_rules_lie_with_the_rows_of_their_operator(module):
    places = {row.native: family_of(place) for place in rows.FAMILIES for row in place.ROWS}
    assert {key: places[key] for key in module.RULES if places[key] != family_of(module)} == {}


@pytest.mark.parametrize("module", contrib.FAMILIES, ids=lambda module: module.__name__.split(".", 4)[4])
def test_specs_lie_with_a_family_of_their_rows(module):
    for spec in module.SPECS:
        assert family_of(module) in set().union(*map(families, spec.rows)), spec.key


def test_nothing_lies_elsewhere():
    assert len(all_rows()) == sum(len(module.ROWS) for module in rows.FAMILIES) + sum(
        len(spec.rows) for spec in contrib.SPECS.values()
    )
    assert len(all_rules()) == sum(len(module.RULES) for module in shapes.FAMILIES) + sum(
        spec.infer is not None for spec in contrib.SPECS.values()
    )


def test_no_operator_is_both_in_the_standard_and_added():
    """The tables of added operators are not imported for an operator that the standard has."""
    assert contrib.SPECS.keys().isdisjoint({*shapes.RULES, *(row.native for row in rows.ROWS)})
