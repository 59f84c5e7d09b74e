"""Every framework that has a layer of the table reports the cost that was worked out by hand."""

from __future__ import annotations

from functools import reduce
from importlib import import_module

import pytest

from costcore import ComputationalCostHook, Operations, estimate
from tests.conformance.cases import CASES
from tests.frameworks import available

BUILDERS = {name: import_module(f"tests.conformance.build_{name}").BUILDERS for name in available()}
BY_NAME = {case.name: case for case in CASES}
ROWS = [(framework, name) for framework, builders in BUILDERS.items() for name in builders]


def without_gradient(framework: str):
    """Return a context in which no backward pass follows, which some layers would write more for."""
    return import_module("torch").no_grad() if framework == "pytorch" else import_module("chainer").no_backprop_mode()


def run(framework: str, name: str):
    """Return the report of one layer."""
    built = BUILDERS[framework][name]()
    if framework == "onnx":
        return estimate(built)
    with without_gradient(framework), ComputationalCostHook(frontends=[framework]) as hook:
        built()
    return hook.report


def test_every_builder_belongs_to_a_row_of_the_table():
    assert len(BY_NAME) == len(CASES), "names are unique"
    for framework, builders in BUILDERS.items():
        assert not builders.keys() - BY_NAME.keys(), framework


@pytest.mark.frontend("pytorch", "chainer", "onnx")
def test_every_row_is_built_by_some_framework():
    built = {name for _, name in ROWS}
    assert [case.name for case in CASES if case.name not in built] == []


@pytest.mark.parametrize(("framework", "name"), ROWS)
def test_the_cost_of_a_layer_is_the_one_by_hand(framework, name):
    case, report = BY_NAME[name], run(framework, name)
    assert not report.ignored_layers
    entries = [entry for entry in report.layer_report.values() if entry["op"] == case.op]
    assert len(entries) >= 1, [entry["op"] for entry in report.layer_report.values()]
    operations = reduce(lambda a, b: a + b, (Operations(**entry["operations"]) for entry in entries))
    assert operations == case.operations
    assert sum(entry["macs"] for entry in entries) == case.macs
    assert sum(entry["mread"] for entry in entries) == case.mread
    assert sum(entry["mwrite"] for entry in entries) == case.mwrite
    assert report.total_report["n_params"] == case.n_params
