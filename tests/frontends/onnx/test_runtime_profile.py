"""Reports of graphs with the times of ONNX Runtime, TensorRT and OpenVINO.

The profiles in ``tests/data/profiles`` were recorded by ONNX Runtime 1.32 on a CPU, four runs at every level of
optimization, of :func:`.runtime_model.runtime_model`; of the arguments of events, those that are read were kept.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from costcore import CostError, estimate
from tests.command_line import main
from tests.frontends.onnx.runtime_model import runtime_model

DATA = Path(__file__).parents[2] / "data" / "profiles"
LEVELS = ("off", "basic", "extended", "all")


@pytest.fixture(scope="module")
def report():
    return estimate(runtime_model())


def of_level(level):
    return DATA / f"onnxruntime_{level}.json"


def times(view):
    return {each.call.name: each.time // 1000 for each in view.calls}


def inside(report, view):
    calls = report.trace.calls
    return {calls[i].name: calls[main].name for i, main in view.profile.inside.items()}


@pytest.mark.parametrize("level", LEVELS)
def test_all_time_of_every_level_is_joined_or_a_change_of_layout(report, level):
    view = report.measured(of_level(level))
    assert view.n_missed == 0
    assert set(view.parts) <= {"calls", "changes of layout", "idle"}
    assert sum(view.parts.values()) == view.profile.span
    products = [i for i, record in enumerate(report.trace) if record.cost.macs]
    assert all(i in view.profile.calls for i in products) and len(products) == 4


def test_without_optimization_every_call_has_its_kernel(report):
    view = report.measured(of_level("off"))
    assert view.profile.span == 166_000  # of the runs of 340, 166, 123 and 4223 us, the first left out: the middle one
    assert inside(report, view) == {}
    assert times(view) == {
        "Conv-1": 38,
        "Relu-1": 4,
        "Conv-2": 14,
        "Add-1": 4,
        "Relu-2": 2,
        "Reshape-1": 2,
        "Transpose-1": 3,
        "MatMul-1": 6,
        "Add-2": 7,
        "MatMul-2": 7,
        "Add-3": 6,
        "Add-4": 3,
        "LayerNormalization-1": 10,
        "Gelu-1": 8,
    }


def test_a_fused_kernel_is_the_time_of_its_main_call(report):
    view = report.measured(of_level("all"))
    fused = {"Relu-1": "Conv-1", "Add-2": "MatMul-1", "Add-3": "MatMul-2", "Add-4": "LayerNormalization-1"}
    assert inside(report, view) == fused
    names = ("Conv-1", "Conv-2", "MatMul-2", "LayerNormalization-1")
    assert [times(view)[name] for name in names] == [12, 9, 8, 33]
    layout = [(each.name, each.n, each.alone) for each in view.profile.elsewhere]
    assert layout == [("Reshape", 4, 8_000), ("ReorderOutput", 2, 4_000)]
    assert "4 calls have no kernel of their own: computed by another call's kernel, or before the run" in view.remarks
    timed = report.with_profile(of_level("all"))
    rates = {row["name"]: row["achieved_flops"] for row in timed.table("call", columns=["name", "achieved_flops"]).rows}
    assert rates["Relu-1"] is None
    assert rates["MatMul-2"] == 256 * 32 * (32 + 31) * 125_000  # 32 multiplications and 31 additions each, in 8 us


def test_tensorrt_and_openvino_state_layers_by_nodes(report, tmp_path):
    layers = [
        {"count": 10},
        {"name": "/net/Conv_c1 + /net/Relu_r1", "timeMs": 0.5, "averageMs": 0.05, "medianMs": 0.04},
        {"name": "/net/Conv_c2 + /net/Add_a2 + /net/Relu_r2", "timeMs": 0.2, "averageMs": 0.02, "medianMs": 0.02},
        {"name": "Reformatting CopyNode for Input Tensor 0 to /net/MatMul_m3", "averageMs": 0.01},
        {"name": "/net/MatMul_m3", "averageMs": 0.03},
    ]
    (tmp_path / "trt.json").write_text(json.dumps(layers))
    view = report.measured(tmp_path / "trt.json")
    assert times(view) == {"Conv-1": 40, "Conv-2": 20, "MatMul-1": 30}
    assert view.parts == {"calls": 90_000, "changes of layout": 10_000, "idle": 0}
    assert inside(report, view)["Add-1"] == "Conv-2"
    rows = ["layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms)"]
    rows += ["/net/Conv_c1;EXECUTED;Convolution;brgconv_avx2_f32;0.015;0.015", "/net/Relu_r1;NOT_RUN;Relu;;0;0"]
    (tmp_path / "counters.csv").write_text("\n".join(rows))
    view = report.measured(tmp_path / "counters.csv")
    assert times(view) == {"Conv-1": 15} and inside(report, view)["Relu-1"] == "Conv-1"


def test_a_region_of_tensorrt_has_all_nodes_from_its_first_to_its_last(report, tmp_path):
    layers = [{"count": 1}, {"name": "{ForeignNode[/net/Conv_c1.../net/Relu_r2]}", "averageMs": 0.05}]
    layers += [{"name": "/net/MatMul_m3 + /net/Add_l3", "averageMs": 0.01}]
    (tmp_path / "trt.json").write_text(json.dumps(layers))
    view = report.measured(tmp_path / "trt.json")
    region = [name for name, main in inside(report, view).items() if main == "Conv-1"]
    assert {"Relu-1", "Conv-2", "Add-1", "Relu-2"} <= set(region)
    assert times(view) == {"Conv-1": 50, "MatMul-1": 10}
    assert view.n_missed == 1  # the second product has no kernel in the file


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[{"cat":"Session","ts":1,"dur":2,"name":"model_run"}', r"ends early"),
        ("{}", r"has no times of nodes"),
        ("[1, 2]", r"has no times of nodes"),
        ("\x00", r"is not JSON"),
        ("[" * 100_000, r"ends early|is not JSON"),
        (
            '[{"ts":0,"dur":9,"name":"model_run"},{"ts":1,"dur":2,"name":"other_kernel_time","args":{}}]',
            "names no node",
        ),
    ],
)
def test_other_files_end_with_a_sentence(report, tmp_path, content, message):
    (tmp_path / "file.json").write_text(content)
    with pytest.raises(CostError, match=message):
        report.measured(tmp_path / "file.json")


def test_a_file_that_is_missing_or_a_report_without_nodes_ends_with_a_sentence(report):
    with pytest.raises(CostError, match=r"nowhere\.json cannot be read"):
        report.measured("nowhere.json")
    torch = pytest.importorskip("torch")
    with pytest.raises(CostError, match=r"estimate\('model\.onnx'\)"):
        estimate(torch.nn.Linear(2, 2), (1, 2)).measured(of_level("all"))


def test_a_file_may_be_compressed(report, tmp_path):
    packed = gzip.compress(of_level("all").read_bytes())
    (tmp_path / "profile.json.gz").write_bytes(packed)
    assert times(report.measured(tmp_path / "profile.json.gz")) == times(report.measured(of_level("all")))
    (tmp_path / "profile.json.gz").write_bytes(packed[:20] + b"damaged" + packed[27:])
    with pytest.raises(CostError, match=r"cannot be read|is not JSON|ends early|has no times"):
        report.measured(tmp_path / "profile.json.gz")


def test_command_line(tmp_path, capsys):
    import onnx

    onnx.save(runtime_model(), tmp_path / "model.onnx")
    options = ["--model", str(tmp_path / "model.onnx"), "--by", "op", "--format", "csv", "--device", "l4"]
    assert main(["profile", str(of_level("all")), *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("layer_norm,1,3.3e-05,3.3e-05,24.44")  # 33 of 135 µs
    assert main(["profile", str(of_level("all"))]) == 1
    assert "pass --model model.onnx" in capsys.readouterr().err
