"""The printed reports of real networks; ``make golden`` regenerates tests/golden/reports."""

from __future__ import annotations

import io
from typing import Any

import pytest

from tests.nodes import walk

COSTS = ("n_layers", "flops", "macs", "mread", "mwrite", "flops%")
TREE = ("module", "type", "output_shape", "n_trainable", "n_shared", "flops", "macs", "mrw", "flops%")


def printed(show: Any, *arguments: Any, **options: Any) -> str:
    stream = io.StringIO()
    show(*arguments, ost=stream, **options)
    return stream.getvalue()


def test_summary(each, golden):
    golden(f"reports/{each.name}_summary.txt", printed(each.report.show_summary_report, mode="table"))


def test_tree(each, golden):
    text = printed(each.report.show_tree, mode="md", depth=2, columns=TREE)
    golden(f"reports/{each.name}_tree.md", text)


def test_groups(each, golden):
    text = printed(each.report.show_by, "op", "dtype", mode="csv", unit=None, columns=COSTS)
    golden(f"reports/{each.name}_by.csv", text)


def test_layers(each, golden):
    golden(f"reports/{each.name}_layers.md", printed(each.report.show_layers, mode="md", sort="madd", top=5))


@pytest.mark.parametrize("mode", ["csv", "md", "table", "color"])
def test_the_largest_call_comes_first(report, mode):
    largest = max(report.layer_report.values(), key=lambda entry: entry["flops"])
    text = printed(report.show_report, mode=mode, sort="flops", top=3)
    assert text.index(largest["name"]) < text.index("others") < text.index("total")


def test_the_tree_has_every_module(report):
    """One row per module, one for the own calls of a module with children, and one for the model."""
    lines = printed(report.show_tree, mode="csv", columns=["module", "type"]).splitlines()[1:]
    assert len(lines) == sum(1 for _ in walk(report.tree()))
    paths = {entry["module"] for entry in report.layer_report.values()} - {""}
    assert paths <= {line.split(",")[0] for line in lines}
