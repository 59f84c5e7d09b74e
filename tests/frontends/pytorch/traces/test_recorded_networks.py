"""A trace of a run is counted as the hook counted the run: ``recording.py`` recorded both."""

from __future__ import annotations

import json

import pytest
import torch

from costcore import estimate
from tests.frontends.pytorch.traces.recording import COUNTED, KINDS, OWN, PHASES, TOTALS, op, tensor, write


@pytest.mark.parametrize("format_", ["profiler", "execution"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_trace_costs_what_the_run_costs(kind, format_):
    counted = json.loads(COUNTED.read_text(encoding="utf-8"))[kind]
    report = estimate(OWN / f"{kind}.{format_}.json.gz")
    assert {name: report.total_report[name] for name in TOTALS} == {name: counted[name] for name in TOTALS}
    assert len(report.trace) == counted["calls"]
    macs = {phase: sum(each.cost.macs for each in report.trace if each.call.phase == phase) for phase in PHASES}
    assert macs == counted["macs by phase"]
    assert report.status == "complete"


def test_the_product_that_ends_a_recomputation_is_no_call():
    report = estimate(OWN / "checkpointed.profiler.json.gz")
    recomputed = [record.cost.macs for record in report.trace if record.call.phase == "recompute"]
    assert sum(recomputed) == 2 * 8 * 32 * 64  # the first product of both blocks: the second only began


def test_modules_and_lines_come_from_the_stacks():
    report = estimate(OWN / "training.profiler.json.gz", tracebacks=True)
    products = [record.call for record in report.trace if record.cost.macs]
    for phase in ("forward", "backward"):
        assert {call.module for call in products if call.phase == phase} == {"", "Conv2d_0", "Linear_0"}
    assert report.trace.run.modules["Conv2d_0"].type == "Conv2d"
    assert report.trace.run.modules[""].type == "Net"
    attention = next(call for call in products if call.layer.op == "attention")
    assert attention.where.rstrip().endswith("in forward")
    assert 'File "recording.py", line' in attention.where


def test_calls_have_the_times_of_the_host():
    seconds = [record.seconds for record in estimate(OWN / "inference.profiler.json.gz").trace]
    assert all(each is not None and 0 <= each < 1 for each in seconds)
    assert sum(seconds) > 0


def test_both_files_together_have_ids_and_times():
    path = OWN / "inference.both.json.gz"
    report = estimate(path, et=OWN / "inference.both.et.json.gz")
    assert {name: report.total_report[name] for name in TOTALS} == {
        name: estimate(path).total_report[name] for name in TOTALS
    }
    written = {identity for call in report.trace.calls for identity in call.outputs}
    read = {identity for call in report.trace.calls for identity in call.inputs}
    assert written & read, "no value of one call is read by another"
    assert any(record.seconds for record in report.trace)


def test_of_several_steps_one_is_counted(tmp_path):
    events = []
    for number, length in ((4, 100), (5, 300), (6, 200)):
        start = number * 1000
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{number}", "pid": 1, "tid": 1})
        events[-1] |= {"ts": start, "dur": length}
        events += [op("aten::relu", start + 10 * i, 5, tensor(number)) for i in range(number)]
    path = write(tmp_path / "trace.json", events)
    report = estimate(path)
    assert [call.layer["x"].shape for call in report.trace.calls] == [(6,)] * 6
    assert any("3 steps of the profiler; step 6, with the median time" in note for note in report.notes)
    assert len(estimate(path, profiler_step=5).trace) == 5
    with pytest.raises(ValueError, match=r"has no step 9 of the profiler \(it has 4, 5, 6\)"):
        estimate(path, profiler_step=9)


def test_reports_of_traces_have_every_view(tmp_path):
    report = estimate(OWN / "training.profiler.json.gz")
    for suffix in ("json", "html"):
        getattr(report, f"to_{suffix}")(tmp_path / f"report.{suffix}")
    assert "Conv2d_0" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert str(report.time("h100-sxm5-80gb"))
    assert str(report)


@pytest.mark.skipif(not hasattr(torch.ops.aten, "_fused_rms_norm"), reason="this PyTorch has no such operator")
def test_a_fused_norm_that_a_trace_calls_by_name_is_one_call(tmp_path):
    arguments = (tensor(4, 8), ("ScalarList", [], [], "[8]"), tensor(8), ("Scalar", [], [], "1e-06"))
    report = estimate(write(tmp_path / "trace.json", [op("aten::_fused_rms_norm", 0, 5, *arguments)]))
    (record,) = report.trace
    assert record.call.layer.op == "rms_norm"
    assert (record.cost.mread, record.cost.mwrite) == (4 * (4 * 8 + 8), 4 * 4 * 8)
