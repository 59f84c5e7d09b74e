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
import torch

from costcore import CostError, CostWarning, estimate
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


# Without a capture: the kernels of a replay, and the calls of the model in their order

GEMM = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x64_64x6_tn_align8>"
SPLIT = "void cublasLt::splitKreduce_kernel<32, 16, int, float>"
GELU = "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&)>"
NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>"
NVJET = "nvjet_hsh_128x64_64x6_1x1_v_bz_TNT"
FUSED = "triton_poi_fused_add_mul_0"


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = (torch.nn.Linear(8, 8) for _ in range(3))
        self.norm, self.out = torch.nn.LayerNorm(8), torch.nn.Linear(8, 4)

    def forward(self, x):
        return self.out(self.norm(torch.nn.functional.gelu(self.a(x) + self.b(x) + self.c(x))))


NET = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 4))


def joined(tmp_path, net, *replays):
    """Return the microseconds of calls, and those that remain elsewhere, by their names; and the profile."""
    kernels = [replay(1000 * i, i + 1, lengths, names) for i, (names, lengths) in enumerate(replays)]
    path = write(tmp_path / "replay.json", [event for each in kernels for event in each])
    with pytest.warns(CostWarning):
        view = estimate(net, (2, 8)).measured(estimate(path))
    profile = view.profile
    own = {
        record.call.name: profile.calls[i].device / 1000 for i, record in enumerate(view.trace) if i in profile.calls
    }
    assert sum(each.alone for each in (*profile.calls.values(), *profile.elsewhere)) + profile.idle == profile.span
    return own, {(each.what, each.name): each.time / 1000 for each in profile.elsewhere}, profile


ALL = (GEMM, SPLIT, GELU, NORM, NVJET, FUSED)


def test_kernels_of_a_replay_are_calls_of_the_model_in_order(tmp_path):
    own, rest, profile = joined(tmp_path, NET, (ALL, (50, 3, 7, 5, 20, 2)))
    assert own == {"linear-1": 50 + 3, "gelu-1": 7, "layer_norm-1": 5, "linear-2": 20}
    assert rest == {("in the profile only", FUSED): 2}
    # 85 of 87 microseconds
    assert profile.remarks == (
        "kernels without operators: 97.7% of their time is joined with calls of the model, by order and family",
    )


def test_of_several_replays_the_one_that_took_the_median_time_counts(tmp_path):
    times = [(50, 3, 7, 5, 20, 2), (40, 3, 7, 5, 20, 2), (60, 3, 7, 5, 20, 2)]
    own, rest, _ = joined(tmp_path, NET, *((ALL, each) for each in times))
    assert own["linear-1"] == 53
    assert rest["of another replay", GEMM[:100]] == 40 + 60


def test_one_kernel_computes_products_of_one_operand(tmp_path):
    own, rest, profile = joined(tmp_path, Block(), ((GEMM, FUSED, NORM, NVJET), (50, 7, 5, 20)))
    assert own == {"linear-1": 50, "layer_norm-1": 5, "linear-4": 20}
    assert [*profile.inside.values()] == [0, 0] and rest == {("in the profile only", FUSED): 7}


def test_other_kernels_than_the_calls_between_products_stay_apart(tmp_path):
    names = (GEMM, GELU, GELU, NORM, NVJET)  # one GELU is of the model, which one is unknown
    own, rest, _ = joined(tmp_path, NET, (names, (50, 7, 8, 5, 20)))
    assert own == {"linear-1": 50, "layer_norm-1": 5, "linear-2": 20}
    assert rest == {("in the profile only", GELU[:100]): 7 + 8}


@pytest.mark.parametrize(
    "names", [(GEMM, GELU, NORM), (GEMM, GELU, NORM, NVJET, NVJET), ("pytorch_flash::flash_fwd_kernel", NVJET)]
)
def test_a_graph_that_is_not_the_model_is_not_joined(tmp_path, names):
    path = write(tmp_path / "replay.json", replay(0, 1, [5] * len(names), names))
    with pytest.warns(CostWarning), pytest.raises(CostError, match="do not match the 2 of the model in order"):
        estimate(NET, (2, 8)).measured(estimate(path))
