import json
from math import isclose

import pytest
import yaml
from sympy import Symbol

from costcore import CostError
from tests.core import html_reports
from tests.core.given_costs import Step, dense, net, relu

WAVE = Step("toy::Wave", "head", type="Wave", known=False)
MODEL = net(dense("body.0"), relu("body.1"), dense("head"), framework="torch")

# dataclasses of model_explorer/node_data_builder.py and graph_builder.py (google-ai-edge/model-explorer 0.1.34):
# the type of every field; those without a default are required.
NODE_DATA = {"results": dict, "thresholds": list, "gradient": list, "hideInAggregatedStatsTable": bool}
NODE_RESULT = {"value": (int, float), "bgColor": str, "textColor": str}
GRADIENT = {"stop": (int, float), "bgColor": str, "textColor": str}


def check_fields(data, fields, *required):
    """Check that a JSON object has the required fields, and no field that is unknown or of another type."""
    assert set(required) <= data.keys() <= fields.keys()
    assert all(isinstance(value, fields[key]) for key, value in data.items())


def test_graph_of_model_explorer():
    (graph,) = json.loads(MODEL.export("model_explorer_graph"))["graphs"]
    assert [node["id"] for node in graph["nodes"]] == [*MODEL.layer_report]
    sources = {edge["sourceNodeId"] for node in graph["nodes"] for edge in node["incomingEdges"]}
    assert sources < {node["id"] for node in graph["nodes"]} and sources


def test_node_data_of_model_explorer():
    data = json.loads(MODEL.to_model_explorer())
    check_fields(data, NODE_DATA, "results")
    assert data["results"] == {"linear-1": {"value": 16}, "relu-1": {"value": 4}, "linear-2": {"value": 16}}
    for result in data["results"].values():
        check_fields(result, NODE_RESULT, "value")
    for stop in data["gradient"]:
        check_fields(stop, GRADIENT, "stop")
    assert (data["gradient"][0]["stop"], data["gradient"][-1]["stop"]) == (0, 1)  # "should always be provided"


def test_node_data_by_other_costs_and_for_other_graphs():
    macs = json.loads(MODEL.export("model_explorer", column="macs", keys=lambda call: call.module.partition(".")[0]))[
        "results"
    ]
    assert macs == {"body": {"value": 16}, "head": {"value": 16}}
    reads = json.loads(MODEL.export("model_explorer", column="mread", keys={"relu-1": "/body/Relu"}))["results"]
    assert reads == {"/body/Relu": {"value": 16}}


def test_node_data_of_an_unknown_metric_or_a_symbolic_cost_is_an_error():
    with pytest.raises(ValueError, match="expected flops, macs"):
        MODEL.to_model_explorer(column="color")
    with pytest.raises(CostError, match=r"linear-1: macs is symbolic \(n\) and has no color\. .*: report.subs\(n=…\)"):
        net(Step("linear", macs=Symbol("n"))).to_model_explorer(column="macs")
    with pytest.raises(CostError, match=r"report.subs\({'past \+ new': …}\)"):
        net(Step("linear", macs=Symbol("past + new"))).to_model_explorer(column="macs")


def events_of(report, kind="X"):
    """Check and return the events of a trace.

    Trace Event Format, sections "Complete Events", "Metadata Events" and "JSON Object Format":
    https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
    """
    trace = json.loads(report.to_chrome_trace())
    assert trace.keys() == {"traceEvents", "displayTimeUnit", "otherData"}
    assert trace["displayTimeUnit"] in ("ms", "ns")
    open_until = {}
    for event in trace["traceEvents"]:
        common = {"name": str, "ph": str, "pid": int, "tid": int, "args": dict}
        if event["ph"] == "M":
            check_fields(event, common, *common)
            assert event["name"] in ("process_name", "thread_name") and isinstance(event["args"]["name"], str)
            continue
        complete = {**common, "cat": str, "ts": (int, float), "dur": (int, float)}
        check_fields(event, complete, *complete)
        assert event["ph"] == "X" and event["dur"] >= 0
        start, end = round(event["ts"] * 1000), round((event["ts"] + event["dur"]) * 1000)
        ends = open_until.setdefault(event["tid"], [])
        while ends and ends[-1] <= start:
            ends.pop()
        assert not ends or end <= ends[-1], "events of a thread must nest"
        ends.append(end)
    return [event for event in trace["traceEvents"] if event["ph"] == kind]


def test_a_trace_nests_calls_in_modules():
    spans = [(e["name"], e["cat"], e["ts"], e["dur"]) for e in events_of(MODEL)]
    assert spans == [
        ("body", "module", 0, 2),
        ("0", "module", 0, 1),
        ("linear-1", "call", 0, 1),
        ("1", "module", 1, 1),
        ("relu-1", "call", 1, 1),
        ("head", "module", 2, 1),
        ("linear-2", "call", 2, 1),
    ]
    metadata = json.loads(MODEL.to_chrome_trace())["otherData"]
    assert metadata["durations"] == "one microsecond per call: time was not measured"
    assert metadata["status"] == "complete"
    assert metadata["version of torch"] == "1.0"


def test_a_trace_has_measured_times_if_time_was_measured():
    report = net(dense("a", seconds=0.0015), relu("a", seconds=1e-7), relu("b"))
    calls = [event for event in events_of(report) if event["cat"] == "call"]
    assert [(e["ts"], e["dur"]) for e in calls] == [(0, 1500), (1500, 0.1), (1500.1, 0.001)]
    assert [e["args"].get("duration") for e in calls] == [None, None, "not measured"]
    assert json.loads(report.to_chrome_trace())["otherData"]["durations"] == "measured"


def test_awkward_durations_still_nest():
    seconds = [1 / 3e5, 1 / 7e5, 2 / 3e6, 1e-10, 1 / 9e4]
    report = net(*(relu(f"m.{n % 2}", seconds=s) for n, s in enumerate(seconds)))
    spans = events_of(report)
    assert isclose(spans[0]["dur"], sum(max(1, round(s * 1e9)) for s in seconds) / 1000)


def test_each_phase_has_its_own_track():
    gradient = relu("a", phase="backward")
    report = net(relu("a"), gradient, relu("a", phase="recompute"), gradient)
    assert [e["args"]["name"] for e in events_of(report, "M")] == ["model", "forward", "backward", "recompute"]
    backward = [(e["name"], e["ts"], e["dur"]) for e in events_of(report) if e["tid"] == 1]
    assert backward == [("a", 1, 3), ("relu-2", 1, 1), ("relu-4", 3, 1)]


def test_unknown_operators_are_in_the_trace():
    (event,) = (e for e in events_of(net(WAVE)) if e["cat"] == "unknown")
    assert event["args"]["counted"] == "no: toy::Wave has no cost"
    assert "flops" not in event["args"]


def hash_of(report):
    return yaml.safe_load(report.to_model_card())["computational_cost"]["report_sha256"]


def test_a_model_card_is_yaml():
    card = yaml.safe_load(MODEL.to_model_card())["computational_cost"]
    assert card["tool"].startswith("costcore ")
    assert card["convention"] == "costcore-1"
    assert card["status"] == "complete"
    assert card["frameworks"] == {"torch": "1.0"}
    assert card["input_shape"] == [[1, 4]]
    assert card["flops_fma_1"] == 36  # 2 × 16 fma + 4
    assert card["flops_fma_2"] == 68  # 2 × 2 × 16 + 4
    assert (card["macs"], card["parameters"]) == (32, 32)
    assert (card["bytes_read"], card["bytes_written"]) == (176, 48)  # 80 + 16 + 80, 3 × 16
    assert card["report_sha256"] == hash_of(MODEL)


def test_a_model_card_has_both_flops_whatever_fma_1flop_is():
    cards = [yaml.safe_load(net(dense("a"), fma_1flop=f).to_model_card())["computational_cost"] for f in (True, False)]
    assert [(c["flops_fma_1"], c["flops_fma_2"]) for c in cards] == [(16, 32), (16, 32)]


def test_a_model_card_of_symbols_and_hostile_names():
    n = Symbol("n", integer=True, positive=True)
    wave = Step("toy::Wave", shape=(n, 4), type='W"\\\u202e\x7f: #', known=False)
    text = net(Step("linear", macs=n, shape=(n, 4)), wave).to_model_card()
    card = yaml.safe_load(text)["computational_cost"]
    assert card["macs"] == "n"
    assert card["input_shape"] == [["n", 4]]
    assert 'W"\\\u202e\x7f: #' in card["status"]
    assert text.isprintable() or set(text) - {"\n"} == {c for c in text if c.isprintable()}


def test_a_model_card_with_an_explicit_input_shape():
    assert yaml.safe_load(MODEL.export("model_card", input_shape=(1, 3, 224)))["computational_cost"]["input_shape"] == [
        1,
        3,
        224,
    ]


def test_different_reports_have_different_hashes():
    assert hash_of(MODEL) == hash_of(net(dense("body.0"), relu("body.1"), dense("head"), framework="torch"))
    assert hash_of(MODEL) != hash_of(net(dense("body.0"), relu("body.1"), dense("head", 5), framework="torch"))
    assert len(hash_of(MODEL)) == 64


@pytest.mark.parametrize("write", ["model_explorer", "chrome_trace", "model_card"])
def test_files_are_the_same_for_equal_reports(write):
    again = net(dense("body.0"), relu("body.1"), dense("head"), framework="torch")
    assert MODEL.export(write) == again.export(write)


def test_a_trace_of_a_run_with_memory_has_a_counter():
    """Each call takes a microsecond. Zeros keep the kinds stacked."""
    events = json.loads(html_reports.step().to_chrome_trace())["traceEvents"]
    none = {"parameter": 0, "gradient": 0, "saved": 0, "temporary": 0}
    assert [(each["ts"], each["args"]) for each in events if each["ph"] == "C"] == [
        (0, {**none, "parameter": 1024, "saved": 512}),
        (1, {"parameter": 1024, "gradient": 1024, "saved": 512, "temporary": 256}),
        (2, {**none, "parameter": 1024, "gradient": 1024, "temporary": 128}),
    ]
    (backward,) = (each for each in events if each["name"] == "mm_type-1")
    assert (backward["args"]["live_peak"], backward["args"]["live"], backward["args"]["saved"]) == (2816, 2048, 0)
    assert not any(each["ph"] == "C" for each in json.loads(MODEL.to_chrome_trace())["traceEvents"])


def test_a_model_card_of_a_run_with_memory_has_the_peak():
    card = yaml.safe_load(html_reports.step().to_model_card())["computational_cost"]
    assert card["peak_memory"] == 2816 == sum(card["peak_memory_by_kind"].values())
    assert card["peak_memory_is"].startswith("exact")
    assert "peak_memory" not in yaml.safe_load(MODEL.to_model_card())["computational_cost"]


def test_node_data_of_memory():
    """A node of several calls has the largest of their peaks, and the sum of what they save."""
    step = html_reports.step()
    peaks = json.loads(step.export("model_explorer", column="live_peak", keys=lambda call: call.module or "step"))[
        "results"
    ]
    assert peaks == {"fc": {"value": 2816}, "step": {"value": 2176}}
    saved = json.loads(step.to_model_explorer(column="saved"))["results"]
    assert [each["value"] for each in saved.values()] == [512, 0, 0]
    with pytest.raises(CostError, match=r"memory was not recorded.* Pass memory=True"):
        MODEL.to_model_explorer(column="saved")


def test_node_data_of_any_quantity():
    colors = json.loads(MODEL.to_model_explorer(column="flops@fvcore"))["results"]
    assert sum(each["value"] for each in colors.values()) == MODEL.under("fvcore").total
    with pytest.raises(CostError, match="arena is known of the whole run only, not of calls"):
        MODEL.to_model_explorer(column="arena")
