"""Kernels of replayed graphs belong to the operators that were captured.

``vllm_decode_mi300x.json.gz`` is a step of decoding by vLLM in the tests of TraceLens
(https://github.com/AMD-AGI/TraceLens, MIT, © Advanced Micro Devices), without stacks. Its graph has 421 kernels, of
which the trace has names and times.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from costcore import CostWarning, estimate
from tests.command_line import main
from tests.frontends.pytorch.traces.recording import kernel, launch, op, tensor, write

DECODING = Path(__file__).parents[3] / "data" / "traces" / "vllm_decode_mi300x.json.gz"

LINEAR = (tensor(2, 4), tensor(3, 4), ("", [], [], ""))


def named(event, kernel):
    """The launch, which names its kernel, as on ROCm."""
    event["args"]["kernel"] = kernel
    return event


def captured(start=0, names=("gemm", "relu"), numbers=(1, 2)):
    """A linear layer, inside of which another operator launches, and a ReLU, without kernels."""
    events = [
        *(op("aten::linear", start, 30, *LINEAR), op("aten::t", start + 1, 3, tensor(3, 4))),
        *(op("aten::addmm", start + 5, 20, tensor(3)), launch(start + 15, numbers[0])),
        *(op("aten::relu", start + 40, 10, tensor(2, 3)), launch(start + 45, numbers[1])),
    ]
    launches = [event for event in events if event["cat"] == "cuda_runtime"]
    for event, name in zip(launches, names, strict=True):
        if name:
            named(event, name)
    return events


def replay(start, number, lengths=(50, 7), names=("gemm [clone .kd]", "relu")):
    """The launch of a graph, and its kernels one after the other."""
    events, at = [launch(start, number, "hipGraphLaunch")], start + 100
    for name, length in zip(names, lengths, strict=True):
        events.append(kernel(name, at, length, number))
        at += length
    return events


def report(tmp_path, capture, *replays):
    graphs = write(tmp_path / "capture.json", capture)
    events = [event for each in replays for event in each]
    return estimate(write(tmp_path / "replay.json", events), graphs=graphs)


def test_every_replay_has_the_operators_of_its_capture(tmp_path):
    found = report(tmp_path, captured(), replay(0, 1), replay(1000, 2, (40, 9)))
    assert [record.call.native for record in found.trace] == ["aten::linear", "aten::relu"] * 2
    assert [record.seconds for record in found.trace] == [50e-6, 7e-6, 40e-6, 9e-6]
    assert found.status == "complete" and found.total_report["macs"] == 2 * (2 * 3 * 4)
    assert sum(found.trace.run.profile.calls[i].alone for i in range(4)) == 106_000


def test_a_replay_is_found_by_the_names_of_its_kernels(tmp_path):
    other = captured(500, ("copy", "cast"), (5, 6))
    found = report(tmp_path, [*other, *captured()], replay(0, 1))
    assert [record.call.native for record in found.trace] == ["aten::linear", "aten::relu"]


def test_without_names_as_many_launches_are_taken(tmp_path):
    capture = captured(names=("", ""))
    found = report(tmp_path, capture, replay(0, 1, names=("sm90_gemm", "vectorized")))
    assert [record.seconds for record in found.trace] == [50e-6, 7e-6]
    end = launch(200, 9, "cudaStreamEndCapture")
    longer = [op("aten::relu", 300, 10, tensor(7)), launch(305, 10)]
    with pytest.warns(CostWarning):
        wrong = report(tmp_path, [*capture, end, *longer], replay(0, 1, (5, 6, 7), ("a", "b", "c")))
    assert [record.cost for record in wrong.trace] == [None]
    assert "1 graphs are not in the trace of captures" in wrong.notes


def test_another_graph_stays_uncounted(tmp_path):
    with pytest.warns(CostWarning, match="hipGraphLaunch"):
        found = report(tmp_path, captured(), replay(0, 1, names=("attention", "relu")))
    assert [record.seconds for record in found.trace] == [57e-6]


def test_a_kernel_that_no_operator_launched_stays_with_the_graph(tmp_path):
    loose = [*captured(), named(launch(60, 3), "fill")]
    with pytest.warns(CostWarning):
        found = report(tmp_path, loose, replay(0, 1, (50, 7, 2), ("gemm", "relu", "fill")))
    seconds = {record.call.native: record.seconds for record in found.trace}
    assert seconds == {"graph::hipGraphLaunch": 2e-6, "aten::linear": 50e-6, "aten::relu": 7e-6}


def test_what_a_list_lacks_is_taken_from_the_capture(tmp_path):
    """A list has no dtype; that of a tensor of the shape of the result, behind it in the capture, is taken."""
    lists = ("TensorList", [[2, 3], [2, 3]], [[3, 1], [3, 1]], "")
    zero = ("Scalar", [], [], "0")
    capture = [
        *(op("aten::cat", 0, 10, lists, zero), named(launch(5, 1), "cat")),
        *(op("aten::relu", 20, 10, tensor(4, 3, dtype="c10::Half")), named(launch(25, 2), "relu")),
    ]
    found = report(tmp_path, capture, replay(0, 1, names=("cat", "relu")))
    assert [record.cost.mwrite for record in found.trace] == [12 * 2, 12 * 2]


def test_command_line(tmp_path, capsys):
    graphs = write(tmp_path / "capture.json", captured())
    path = write(tmp_path / "replay.json", replay(0, 1))
    assert main(["profile", path, "--graphs", graphs, "--by", "op", "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("linear,1,")
    assert main([path, "--graphs", graphs, "--by", "op", "--format", "csv"]) == 0


def test_without_its_capture_the_graph_of_an_engine_is_one_uncounted_call():
    with pytest.warns(CostWarning, match="hipGraphLaunch"):
        report = estimate(DECODING)
    (graph,) = (record for record in report.trace if record.cost is None)
    assert graph.seconds == pytest.approx(10_388.482e-6)
    assert sum(record.seconds for record in report.trace) == pytest.approx(10_717.708e-6)
    assert any(note.startswith("96.9% of the time of the device is in graphs") for note in report.notes)


def test_the_graph_of_an_engine_has_the_operators_of_a_capture(tmp_path):
    """Products are captured inside of linear layers, everything else is a ReLU each."""
    events = json.loads(gzip.decompress(DECODING.read_bytes()))["traceEvents"]
    replayed = next(event for event in events if event["name"] == "hipGraphLaunch")["args"]["correlation"]
    works = [event for event in events if event["cat"] in ("kernel", "gpu_memcpy", "gpu_memset")]
    inside = sorted((x for x in works if x["args"]["correlation"] == replayed), key=lambda x: x["ts"])
    capture = []
    for i, work in enumerate(inside):
        is_product = work["name"].startswith("Cijk")
        name, arguments = ("aten::linear", LINEAR) if is_product else ("aten::relu", (tensor(2, 3),))
        capture += [op(name, 10 * i, 8, *arguments), named(launch(10 * i + 2, i), work["name"])]
    report = estimate(DECODING, graphs=write(tmp_path / "capture.json", capture))
    assert report.status == "complete" and not any("graphs" in note for note in report.notes)
    found = Counter(record.call.native for record in report.trace)
    assert (found["aten::linear"], found["aten::relu"]) == (72 + 1, 421 - 72)  # one makes the logits, behind the graph
    products = sum(work["dur"] for work in inside if work["name"].startswith("Cijk")) / 1e6
    linear = [each for each in report.trace if each.call.native == "aten::linear"]
    assert sum(each.seconds for each in linear if each.call.layer["x"].shape == (2, 4)) == pytest.approx(products)
    assert sum(record.seconds for record in report.trace) == pytest.approx(10_717.708e-6)
