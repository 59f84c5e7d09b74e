"""Kernels belong to the operators that launched them, and the span is divided without a remainder."""

from __future__ import annotations

import pytest

from costcore import CostWarning, estimate
from tests.frontends.pytorch.traces.recording import kernel, launch, op, tensor, write

RELU = tensor(4)


def profile(path):
    return estimate(path).trace.run.profile


def test_kernels_belong_to_the_innermost_operator_around_their_launch(tmp_path):
    events = [
        *(op("aten::relu", 0, 10, RELU), launch(5, 1), kernel("relu", 100, 7, 1)),
        *(op("aten::linear", 20, 30, tensor(2, 4), tensor(3, 4), ("", [], [], "")), op("aten::t", 21, 3, tensor(3, 4))),
        *(op("aten::addmm", 25, 20, tensor(3)), launch(30, 2), kernel("gemm", 110, 50, 2)),
        *(launch(35, 3), kernel("memset", 107, 2, 3, "gpu_memset")),
    ]
    report = estimate(write(tmp_path / "trace.json", events))
    assert [record.seconds for record in report.trace] == [7e-6, 52e-6]
    found = report.trace.run.profile
    assert (found.clock, found.span, found.idle) == ("device", 60_000, 1000)
    assert [time.n_kernels for time in found.calls.values()] == [1, 2]
    assert [time.host for time in found.calls.values()] == [10_000, 30_000]


def test_what_belongs_to_no_operator_is_named(tmp_path):
    events = [
        *(op("aten::relu", 10, 10, RELU), launch(15, 1), kernel("relu", 100, 10, 1)),
        *(kernel("void late<int>(int)", 50, 20, 99), kernel("late", 75, 5, 98)),
        *(launch(40, 2), kernel("by_hand", 120, 10, 2)),
        *(launch(50, 3), kernel("Memcpy DtoH", 140, 10, 3, "gpu_memcpy")),
    ]
    with pytest.warns(CostWarning, match="kernel::by_hand"):
        report = estimate(write(tmp_path / "trace.json", events))
    found = report.trace.run.profile
    whats = [(each.what, each.name, each.alone, each.n) for each in found.elsewhere]
    assert ("launched before the window", "late", 25_000, 2) in whats
    assert ("launched outside of operators", "Memcpy DtoH", 10_000, 1) in whats
    assert any("of the time of the device was launched before the window" in note for note in report.notes)
    assert report.status == "partial"


def test_a_graph_is_one_call_without_a_cost(tmp_path):
    events = [launch(5, 1, "cudaGraphLaunch"), *(kernel(f"k{i}", 10 + 5 * i, 4, 1) for i in range(3))]
    with pytest.warns(CostWarning, match="graph::cudaGraphLaunch"):
        report = estimate(write(tmp_path / "trace.json", events))
    assert [record.call.native for record in report.trace] == ["graph::cudaGraphLaunch"]
    assert report.trace.records[0].seconds == 12e-6


def test_a_collective_that_computation_hides_has_little_of_the_span(tmp_path):
    details = {"Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000}
    details |= {"dtype": "Float", "Group size": 8}
    events = [
        *(op("record_param_comms", 0, 5, **details), launch(1, 1), kernel("ncclAllReduce", 100, 50, 1, stream=9)),
        *(op("aten::relu", 10, 5, RELU), launch(11, 2), kernel("relu", 110, 30, 2)),
    ]
    report = estimate(write(tmp_path / "trace.json", events))
    collective, relu = report.trace
    assert collective.call.layer.op == "all_reduce" and collective.cost.mcomm == 2 * 7 * 1000 * 4 // 8
    times = report.trace.run.profile.calls
    assert [(time.device, time.alone) for time in times.values()] == [(50_000, 20_000), (30_000, 30_000)]
    assert {stream.name: stream.idle for stream in report.trace.run.profile.streams} == {"0/7": 20_000, "0/9": 0}
    assert relu.seconds == 30e-6


def test_an_old_file_whose_external_ids_are_those_of_launches(tmp_path):
    """``External id`` is the correlation there: it would name the wrong operator."""
    events = [op("aten::relu", 0, 10, RELU, **{"External id": 7}), op("aten::tanh", 20, 10, RELU, **{"External id": 8})]
    events += [launch(25, 7), kernel("tanh", 100, 5, 7)]
    events[-1]["args"]["External id"] = 7
    report = estimate(write(tmp_path / "trace.json", events))
    assert [record.seconds for record in report.trace] == [0.0, 5e-6]


def test_only_the_step_and_what_ran_meanwhile(tmp_path):
    events = []
    for number in (1, 2):
        start = number * 100
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{number}", "pid": 1, "tid": 1})
        events[-1] |= {"ts": start, "dur": 50 + number}
        events += [op("aten::relu", start + 1, 10, RELU), launch(start + 2, number)]
        events.append(kernel("relu", start + 20, 10, number))
    found = estimate(write(tmp_path / "trace.json", events), profiler_step=2).trace.run.profile
    assert (found.span, found.idle, found.elsewhere) == (10_000, 0, ())


def test_a_trace_of_the_host_has_the_time_of_operators(tmp_path):
    events = [op("aten::relu", 0, 10, RELU), op("aten::tanh", 30, 5, RELU)]
    found = profile(write(tmp_path / "trace.json", events))
    assert (found.clock, found.span, found.idle) == ("host", 35_000, 20_000)


H100 = {"deviceProperties": [{"name": "NVIDIA H100 80GB HBM3"}]}
PRODUCT = (tensor(4096, 4096), tensor(4096, 4096))


def test_launches_are_not_compared_with_the_bound_of_the_device(tmp_path):
    """The file names an H100, but the times are those of the host."""
    events = [op("aten::mm", 0, 10, *PRODUCT), launch(5, 1)]
    report = estimate(write(tmp_path / "trace.json", events, **H100))
    view = report.measured()
    assert view.times is None and not {"bound", "lost"} & {*view.to_dict()["figures"]}
    said = "the trace has no kernels: its times are those of the host, which launches work, and not of NVIDIA H100"
    assert any(said in line for line in view.remarks) and any(said in note for note in report.notes)
    with_kernel = estimate(write(tmp_path / "trace.json", [*events, kernel("gemm", 20, 300, 1)], **H100)).measured()
    assert {"bound", "lost"} <= {*with_kernel.to_dict()["figures"]}


def test_the_capture_of_a_graph_is_told_from_a_run(tmp_path):
    """Two products are captured and do not run; a copy does, in 11 µs."""
    events = [launch(0, 1, "cudaStreamBeginCapture"), launch(90, 4, "cudaStreamEndCapture")]
    events += [op("aten::mm", 10, 10, *PRODUCT), launch(15, 2), op("aten::mm", 30, 10, *PRODUCT), launch(35, 3)]
    events += [op("aten::relu", 100, 10, RELU), launch(105, 5), kernel("relu", 200, 11, 5)]
    view = estimate(write(tmp_path / "trace.json", events, **H100)).measured()
    assert view.times is None and not {"bound", "lost"} & {*view.to_dict()["figures"]}
    assert any("the trace is of the capture of a graph: 2 launches were recorded into it" in x for x in view.remarks)


def test_operands_of_a_trace_without_ids_are_unknown(tmp_path):
    """The same 64 MiB may be read ten times: 640 MiB from memory would be no lower bound of the run."""
    events = []
    for i in range(10):
        events += [op("aten::mm", 40 * i, 10, *PRODUCT), launch(40 * i + 5, i), kernel("gemm", 500 * (i + 1), 300, i)]
    report = estimate(write(tmp_path / "trace.json", events, **H100))
    time = report.time("h100")
    assert time.bound_seconds == pytest.approx(sum(group.bound_seconds for group in time.groups))
    assert time.whole_run.seconds == 0
