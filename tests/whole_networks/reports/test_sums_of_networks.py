"""The groups of every grouping add up to the total exactly, and parameters count once."""

from __future__ import annotations

import csv
import io
import json
from itertools import combinations

import pytest

from tests.nodes import walk

KEYS = ("type", "op", "module", "phase", "dtype", "native")
SUMS = ("flops", "macs", "mread", "mwrite", "mrw", "n_layers")
GROUPINGS = [*combinations(KEYS, 1), *combinations(KEYS, 2), tuple(KEYS)]


def test_totals_are_those_of_independent_sources(each):
    total = each.report.total_report
    assert (total["macs"], total["n_params"]) == (each.subject.macs, each.subject.n_params)
    assert total["mrw"] == total["mread"] + total["mwrite"]


@pytest.mark.parametrize("keys", GROUPINGS, ids=",".join)
def test_groups_add_up(report, keys):
    groups, total = report.by(*keys).values(), report.total_report
    assert {key: sum(group[key] for group in groups) for key in SUMS} == {key: total[key] for key in SUMS}
    assert sum(group["n_params"] - group["n_shared"] for group in groups) == total["n_params"]


def test_calls_and_types_add_up(report):
    total = report.total_report
    *types, last = report.summary_report.values()
    assert last == total
    for key in SUMS[:-1]:
        assert (
            sum(entry[key] for entry in types) == sum(call[key] for call in report.layer_report.values()) == total[key]
        )
    assert sum(entry["n_layers"] for entry in types) == len(report.layer_report) == total["n_layers"]


def test_the_children_of_a_module_add_up_to_it(each):
    nodes = [node for _, node in walk(each.report.tree())]
    keys = (
        *SUMS,
        "activations",
        "n_unknown",
        *(("n_trainable", "n_frozen") if "onnx" not in each.subject.frontends else ()),
    )
    parents = [node for node in nodes if node["children"]]
    assert len(parents) > 1 or each.name == "vgg16"  # which has no nested modules
    for node in parents:
        assert {key: sum(child[key] for child in node["children"]) for key in keys} == {key: node[key] for key in keys}
        assert sum(child["n_params"] - child["n_shared"] for child in node["children"]) == node["n_params"]
    assert {key: nodes[0][key] for key in SUMS} == {key: each.report.total_report[key] for key in SUMS}
    assert nodes[0]["n_params"] == each.subject.n_params
    assert nodes[0]["output_shape"] == each.subject.output


def test_the_rows_of_files_add_up(report):
    total = report.total_report
    *rows, last = csv.DictReader(io.StringIO(report.to_csv(columns=["name", *SUMS[:-1]])))
    titles = ("FLOPs", "MACs", "MemRead B", "MemWrite B", "MemR+W B")
    assert [sum(int(row[title]) for row in rows) for title in titles] == [total[key] for key in SUMS[:-1]]
    assert [int(last[title]) for title in titles] == [total[key] for key in SUMS[:-1]]
    frame = report.to_dataframe()
    assert {key: int(frame[key].sum()) for key in SUMS[:-1]} == {key: total[key] for key in SUMS[:-1]}


@pytest.mark.parametrize("metric", ["flops", "macs", "mread", "mwrite"])
def test_node_values_add_up(report, metric):
    values = json.loads(report.to_model_explorer(column=metric))["results"].values()
    assert sum(each["value"] for each in values) == report.total_report[metric]


def test_a_trace_has_every_call_inside_its_modules(report):
    spans = [event for event in json.loads(report.to_chrome_trace())["traceEvents"] if event["ph"] == "X"]
    calls = [span for span in spans if span["cat"] == "call"]
    assert [span["name"] for span in calls] == list(report.layer_report)
    assert sum(span["dur"] for span in calls) == len(calls)
    entries = report.layer_report
    assert sum(span["args"]["flops"] for span in calls) == sum(entry["flops"] for entry in entries.values())
