"""Every row of the audit: what the public interface reports is what was derived by hand."""

from __future__ import annotations

from importlib import import_module

import pytest

from tests.audit.disagreements import DISAGREEMENTS
from tests.audit.row import Row, without_zeros
from tests.frameworks import available

GROUPS = {
    "pytorch": (
        "activation",
        "elementwise",
        "norm",
        "conv",
        "matmul",
        "pool",
        "loss",
        "sort",
        "recurrent",
        "attention",
        "reduction",
        "indexing",
        "layout",
        "resample",
        "linalg",
        "optimizer",
        "random",
    ),
    "onnx": ("onnx",),
}
"""The tables of rows that need a framework: the files ``rows_<group>.py``."""


def rows() -> list[Row]:
    """Return all rows whose framework is tested."""
    groups = [group for frontend in available() for group in GROUPS.get(frontend, ())]
    return [row for group in groups for row in import_module(f"tests.audit.rows_{group}").ROWS]


def parameter(row: Row):
    """Return a row as a parameter, expected to fail if it is a known disagreement."""
    reason = DISAGREEMENTS.get(row.name)
    marks = [pytest.mark.xfail(strict=True, reason=reason)] if reason else []
    return pytest.param(row, id=row.name, marks=marks)


@pytest.mark.parametrize("row", [parameter(row) for row in rows()])
def test_reported_cost_is_the_derived_one(row):
    assert row.measured() == without_zeros(row.expected), row.why


def test_names_are_unique():
    names = [row.name for row in rows()]
    assert len(names) == len(set(names))


@pytest.mark.frontend(*GROUPS)
def test_disagreements_name_rows():
    assert not DISAGREEMENTS.keys() - {row.name for row in rows()}
