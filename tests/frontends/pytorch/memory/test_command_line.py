"""``costcore MODEL --memory``."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from costcore import Report
from tests.command_line import main

NET = """
import torch

def make():
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
"""


@pytest.fixture
def target(tmp_path):
    path = tmp_path / "memory_net.py"
    path.write_text(NET, encoding="utf-8")
    return f"{path}:make"


def last_line(target, capsys, *options):
    assert main([target, "--input", "2x8", "--memory", "--format", "csv", "--columns", "kind,nbytes", *options]) == 0
    return capsys.readouterr().out.splitlines()[-1]


def test_the_peak_with_an_optimizer(target, capsys, tmp_path):
    # After the backward pass: parameters and gradients 848 each, two moments 1,696, steps 16, input 64, output 32, the
    # loss 4 and its gradient 4; and the root of the largest moment 512, its quotient 512.
    assert last_line(target, capsys, "--unit", "none", "--optimizer", "adamw") == f"total,{848 * 4 + 120 + 1024 - 4}"
    saved = str(tmp_path / "report.json")
    assert main([target, "--input", "2x8", "--memory", "--optimizer", "adamw", "--output", saved]) == 0
    assert Report.from_json(Path(saved)).memory.peak == 848 * 4 + 120 + 1024 - 4
    capsys.readouterr()
    assert main([saved, "--memory"]) == 0


def test_a_difference_of_peaks(target, capsys, tmp_path):
    """Inference needs 848 B of parameters, 64 B of input, and two results of 128 B; the peaks differ by the batch."""
    saved = str(tmp_path / "report.json")
    assert main([target, "--input", "2x8", "--memory", "--output", saved]) == 0
    assert main(["diff", saved, target, "--input", "4x8", "--memory"]) == 0
    out = capsys.readouterr().out
    assert "bytes of memory at the peak: 1,168 → 1,488 (+320, ×1.2740)" in out
    assert main(["diff", saved, target, "--input", "4x8"]) == 0
    assert f"peaks of memory are not compared: {target} has none" in capsys.readouterr().out


def write(tmp_path, text):
    (tmp_path / "budget.toml").write_text(text, encoding="utf-8")
    return str(tmp_path / "budget.toml")


def test_a_budget_of_the_peak_records_memory(target, capsys, tmp_path):
    budget = write(tmp_path, "[total]\npeak_memory = 1168\n")
    assert main(["check", target, "--input", "2x8", "--budget", budget]) == 0
    assert main(["check", target, "--input", "2x8", "--budget", budget, "--backward"]) == 1
    # The peak of a training step is that of the test above.
    assert f"total: {2 * 848 + 64 + 32 + 8 + 128:,} bytes of memory at the peak, limit 1,168" in capsys.readouterr().out


@pytest.mark.frontend("onnx")
def test_a_budget_of_the_peak_refers_onnx_models_to_the_arena(capsys, tmp_path):
    import onnx
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    onnx.save(helper.make_model(graph), tmp_path / "relu.onnx")
    budget = write(tmp_path, "[total]\npeak_memory = 1168\n")
    assert main(["check", str(tmp_path / "relu.onnx"), "--budget", budget]) == 1
    assert "memory was not recorded" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([str(tmp_path / "relu.onnx"), "--memory"])
    assert "--arena shows the memory of an inference" in capsys.readouterr().err


def test_the_fixture_records_memory_for_a_limit_of_the_peak(cost_budget):
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    assert cost_budget(net, (2, 8), peak_memory=1168).memory.peak == 1168
    with pytest.raises(pytest.fail.Exception, match="total: 1,168 bytes of memory at the peak, limit 1,167"):
        cost_budget(net, (2, 8), {"total": {"peak_memory": 1167}})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--memory", "--sort", "flops"), "--sort cannot be used with --memory"),
        (("--memory", "--columns", "flops"), "unknown column 'flops'"),
        (("--memory", "--tree"), "not allowed with"),
        (("--allocator", "cuda"), "--allocator requires --memory"),
        (("--optimizer", "adamv"), "unknown optimizer 'adamv'"),
    ],
)
def test_mistakes(target, capsys, options, message):
    with pytest.raises(SystemExit):
        main([target, "--input", "2x8", *options])
    assert message in capsys.readouterr().err
