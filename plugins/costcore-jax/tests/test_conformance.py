"""Layers in JAX have the cost that the conformance table of costcore derives by hand."""

from __future__ import annotations

from functools import reduce
from operator import add

import pytest
from layers import BUILDERS

from costcore import Operations, estimate
from tests.conformance.cases import CASES

BY_NAME = {case.name: case for case in CASES}


def test_every_builder_belongs_to_a_row_of_the_table():
    assert BUILDERS.keys() <= BY_NAME.keys()


@pytest.mark.parametrize("name", BUILDERS)
def test_the_cost_of_a_layer_is_the_one_by_hand(name):
    case, (model, inputs, options) = BY_NAME[name], BUILDERS[name]
    report = estimate(model, inputs, **options)
    assert not report.ignored_layers
    entries = [entry for entry in report.layer_report.values() if entry["op"] == case.op]
    assert entries, [entry["op"] for entry in report.layer_report.values()]
    assert reduce(add, (Operations(**entry["operations"]) for entry in entries)) == case.operations
    assert sum(entry["macs"] for entry in entries) == case.macs
    assert sum(entry["mread"] for entry in entries) == case.mread
    assert sum(entry["mwrite"] for entry in entries) == case.mwrite
    assert report.total_report["n_params"] == case.n_params
