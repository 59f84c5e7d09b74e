"""The row of one model: what its report is checked for, what its columns need, and which errors are of memory."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import pytest

from costcore.studies.sweeps import rows
from costcore.studies.sweeps import table as table_module
from costcore.studies.sweeps.process import Plan
from costcore.studies.sweeps.rows import OUT_OF_MEMORY, NamedModel, Settings, failure
from tests.core.html_reports import call, report

NEEDS = {"peak": {"memory": True}, "seen": {"spelled": True}, "depth": {"layers": 3}}


def test_a_report_is_checked_for_what_is_asked(monkeypatch):
    asked = []
    monkeypatch.setattr(rows, "check_report", lambda *given: asked.append(given))
    given = report([call("linear", "fc", 10, 4, 2)])
    row = rows.row_of(NamedModel("net", given), Settings(("flops",), options={"backward": True}, mode="train"))
    assert asked == [(given, None, "net", "train", True)]
    assert (row.costs, row.failed) == ({"flops": given.total_report["flops"]}, False)


@pytest.mark.parametrize(
    ("columns", "given", "inputs", "options", "expected"),
    [
        ("peak seen", {}, (1, 3), (("memory",), ()), {"memory": True, "spelled": True}),
        ("peak seen", {"memory": False}, (1, 3), (("memory",), ()), {"spelled": True}),  # it is given
        ("peak seen", {}, ("n", 3), (("memory",), ()), {"spelled": True}),  # memory has no formula
        ("peak depth", {}, (1, 3), (("layers",), ()), {"layers": 3}),  # the frontend has no memory
        ("peak depth", {}, (1, 3), ((), ("memory", "layers")), {"memory": True, "layers": 3}),
        ("seen", {}, None, ((), ()), {"spelled": True}),
    ],
)
def test_what_columns_need_and_the_model_accepts(monkeypatch, columns, given, inputs, options, expected):
    monkeypatch.setattr(rows, "figure", lambda name: SimpleNamespace(needs=NEEDS[name]))
    spec = SimpleNamespace(options=options[0], model_options=options[1])
    monkeypatch.setattr(rows, "frontend_of", lambda model: spec)
    assert rows._needed("net", inputs, Settings(columns.split(), options=given)) == expected


def test_the_frontend_of_a_model_is_not_asked_for_in_vain():
    """That of an object would be an error."""
    assert rows._needed(object(), (1, 3), Settings(("flops",))) == {}


@pytest.mark.parametrize(("others", "is_found"), [(0, True), (99, True), (100, False)])
def test_an_error_of_memory_is_found_behind_others(others, is_found):
    """Among the first hundred, each of which the next one caused."""
    errors = [*(ValueError(f"error {i}") for i in range(others)), MemoryError("none left")]
    for error, cause in pairwise(errors):
        error.__cause__ = cause
    assert failure(errors[0]).startswith(OUT_OF_MEMORY) == is_found


def test_errors_that_cause_each_other_are_none_of_memory():
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    assert failure(first) == "ValueError: first"


@pytest.mark.parametrize(
    ("convention", "options", "expected"),
    [
        ("calflops", {}, {"spelled": True}),  # which counts by functions
        ("calflops", {"spelled": False, "backward": True}, {"spelled": False, "backward": True}),
        ("fvcore", {"backward": True}, {"backward": True}),  # which counts by operators
        (None, {}, {}),
    ],
)
def test_a_table_by_functions_records_them(monkeypatch, convention, options, expected):
    asked = []
    monkeypatch.setattr(table_module, "model_table", lambda *given: asked.append(given))
    table_module.table(["net.onnx"], (1, 3), convention=convention, mode="train", timeout=3, **options)
    ((models, settings, plan, output, resume),) = asked
    assert models == [NamedModel("net.onnx", "net.onnx", (1, 3))]
    assert (settings.convention, settings.options, settings.mode) == (convention, expected, "train")
    assert (plan, output, resume) == (Plan(timeout=3), None, False)
