"""Excerpts of public traces of GPUs.

``bert_small_h100.json.gz`` and ``compiled_mi300x.json.gz`` are the spans of traces in the tests of TraceLens
(https://github.com/AMD-AGI/TraceLens, MIT, © Advanced Micro Devices), without stacks and properties of the device.
``simple_add_et.json.gz`` is from the tests of HolisticTraceAnalysis
(https://github.com/facebookresearch/HolisticTraceAnalysis, MIT, © Meta Platforms).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from costcore import Cost, CostWarning, Operations, estimate
from tests.command_line import main

DATA = Path(__file__).parents[3] / "data" / "traces"
BERT = DATA / "bert_small_h100.json.gz"
COMPILED = DATA / "compiled_mi300x.json.gz"


def test_eager_inference_on_an_h100():
    report = estimate(BERT)
    tokens, width, vocabulary = 141, 512, 30522
    layer = 4 * tokens * width**2 + 2 * tokens * width * 4 * width + 2 * tokens**2 * width
    head = tokens * width**2 + tokens * width * vocabulary
    assert report.total_report["macs"] == 4 * layer + head
    assert report.status == "complete"
    assert "recorded on NVIDIA H100 80GB HBM3" in report.notes
    assert sum(record.seconds for record in report.trace) == pytest.approx(309.437e-6)  # all kernels of the file
    assert len(report.trace.run.modules) > 60


def test_compiled_block_on_an_mi300x():
    with pytest.warns(CostWarning, match="triton"):
        report = estimate(COMPILED)
    tokens, width, hidden = 8 * 4096, 2048, 8192
    products = tokens * (4 * width**2 + 3 * width * hidden) + 2 * 8 * 4096**2 * 2048
    assert report.total_report["macs"] == products
    uncounted = [record for record in report.trace if record.cost is None]
    assert [record.call.native.startswith("triton::triton_") for record in uncounted] == [True] * 4
    assert uncounted[0].call.layer.inputs["x0"].shape == (8, 4096, 2048)
    assert 0.06 < sum(each.seconds for each in uncounted) / sum(each.seconds for each in report.trace) < 0.07


def test_a_calculator_of_the_user_prices_what_is_not_known():
    name = "triton::triton_poi_fused__unsafe_view_mul_silu_2"
    calculators = {name: lambda layer: Cost(Operations(mul=layer["x0"].size), layer.read, 0, {})}
    with pytest.warns(CostWarning):
        report = estimate(COMPILED, calculators=calculators)
    priced = next(record for record in report.trace if record.call.native == name)
    assert priced.cost.flops.mul == 32768 * 8192


def test_an_old_execution_trace_of_two_additions():
    report = estimate(DATA / "simple_add_et.json.gz")
    added = [record.cost for record in report.trace if record.call.native == "aten::add"]
    assert [(cost.mread, cost.mwrite) for cost in added] == [(2 * 256 * 256 * 4, 256 * 256 * 4)] * 2


def test_a_device_is_calibrated_from_traces(tmp_path, capsys):
    output = tmp_path / "h100.toml"
    assert main(["calibrate", "--from-trace", str(BERT), "--output", str(output)]) == 0
    assert "NVIDIA H100 80GB HBM3: " in capsys.readouterr().out
    report = estimate(BERT)
    times = report.time(device=output)
    measured = sum(record.seconds for record in report.trace)
    assert times.seconds == pytest.approx(measured, rel=0.05)  # the calls that it was calibrated with
    assert times.error is None  # of one network nothing follows
    assert main(["calibrate", "--from-trace", str(output), "--output", str(output)]) == 1
    assert "is not a trace of torch.profiler" in capsys.readouterr().err
    with pytest.raises(SystemExit) as refused:
        main(["calibrate", "--from-trace", str(BERT), "--quick", "--output", str(output)])
    assert refused.value.code == 2


def test_the_calibration_that_is_built_in_has_an_error_by_distance():
    """BERT is one of the three networks of which it is made; a much larger one has no error."""
    report = estimate(BERT)
    assert report.time(device="h100-sxm5-80gb").seconds is None
    times = report.time(device="h100-sxm5-80gb-traces")
    measured = sum(record.seconds for record in report.trace)
    assert times.seconds == pytest.approx(measured, rel=0.1)
    assert times.error is not None and abs(times.seconds / measured - 1) < times.error < 0.5
    assert not any("but the run is of" in remark for remark in times.calibrated.remarks)  # traces state no versions
    assert "from traces of NVIDIA H100 80GB HBM3, bfloat16, float32, read on " in times.calibrated.remarks[0]
    with torch.device("meta"):
        wide = torch.nn.Linear(2**17, 2**17, dtype=torch.bfloat16)
    far = estimate(wide, torch.empty(4096, 2**17, dtype=torch.bfloat16, device="meta")).time("h100-sxm5-80gb-traces")
    assert far.error is None
    assert any("far from the measured calls" in remark for remark in far.calibrated.remarks)


def test_utilization_is_a_figure_whatever_the_groups_are(capsys):
    assert main(["profile", str(DATA / "bert_small_h100.json.gz"), "--by", "op", "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    report = estimate(str(DATA / "bert_small_h100.json.gz"))
    seconds = report.trace.run.profile.span / 1e9
    # an H100 SXM has 989.4 TFLOP/s of dense products in bfloat16
    assert shown["figures"]["mfu"]["value"] == pytest.approx(100 * 2 * report.total_report["macs"] / seconds / 989.4e12)
    assert {"span", "idle", "lost"} <= shown["figures"].keys()
    assert shown["tables"][0]["rows"][0]["name"] == "linear"
    assert report.measured(device="cortex-m4-168").mfu is None  # its peak in bfloat16 is not known
