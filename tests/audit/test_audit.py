"""Every row of the audit: what the public interface reports is what was derived by hand."""

from __future__ import annotations

from importlib import import_module

import pytest

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


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in rows()])
def test_reported_cost_is_the_derived_one(row):
    if row.name == "attention-grouped":
        differences = import_module("tests.frontends.pytorch.differences")
        if not differences.HAS_GROUPED_QUERIES:
            pytest.skip("this PyTorch has no enable_gqa")
    assert row.measured() == without_zeros(row.expected), row.why


def test_names_are_unique():
    names = [row.name for row in rows()]
    assert len(names) == len(set(names))
