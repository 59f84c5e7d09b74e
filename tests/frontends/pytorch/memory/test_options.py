"""Options of training steps and of memory, what they refuse, and what a report with memory shows and stores."""

from __future__ import annotations

import io

import pytest
import torch
from torch import nn

from costcore import CostError, Report, estimate


def make_net():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


PARAMETERS = (8 * 16 + 16 + 16 * 4 + 4) * 4
"""The bytes of all parameters of the network: 848."""


@pytest.mark.parametrize(
    ("optimizer", "states", "steps"),
    [("sgd", 0, 0), ("sgd_momentum", 1, 0), ("adam", 2, 4), ("adamw", 2, 4)],
)
def test_the_state_of_an_optimizer(optimizer, states, steps):
    """A step is a number of 4 bytes for each of 4 parameters."""
    state = states * PARAMETERS + 4 * steps
    steady = estimate(make_net(), (2, 8), memory=True, optimizer=optimizer).memory
    assert steady.base == PARAMETERS + 64 + state
    first = estimate(make_net(), (2, 8), memory=True, optimizer=optimizer, step="first").memory
    assert first.base == PARAMETERS + 64
    assert first.end == steady.end == 2 * PARAMETERS + 64 + state + 32 + 4  # gradients, state, output and loss


def test_a_loss_is_part_of_the_step():
    target = torch.zeros(2, 4, device="meta")
    report = estimate(make_net(), (2, 8), memory=True, loss=lambda y: nn.functional.mse_loss(y, target))
    assert "mse_loss" in {call.type for call in report.calls}
    assert "mse_loss_backward" in {call.type for call in report.calls if call.phase == "backward"}
    assert estimate(make_net(), (2, 8), loss=lambda y: y.mean()).memory is None


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"optimizer": "adamv"}, ValueError, "unknown optimizer 'adamv'"),
        ({"optimizer": 3}, TypeError, "optimizer must be a name or a function"),
        ({"optimizer": lambda parameters: 3}, TypeError, "optimizer must return a torch.optim.Optimizer"),
        ({"optimizer": torch.optim.SGD([nn.Parameter(torch.ones(1))])}, TypeError, r"or a function.*\(got SGD .*…\)"),
        ({"optimizer": lambda parameters: torch.optim.LBFGS(parameters)}, CostError, "a step of LBFGS calls the model"),
        ({"step": "second"}, ValueError, "unknown step 'second'"),
        ({"loss": "mse"}, TypeError, "loss must be a function"),
        ({"loss": lambda y: y}, CostError, "loss must return a scalar"),
        ({"loss": lambda y: 3}, CostError, "loss must return a scalar"),
        ({"memory": "yes"}, TypeError, "memory must be True or False"),
    ],
)
def test_invalid_options_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        estimate(make_net(), (2, 8), **options)


@pytest.mark.frontend("onnx")
def test_other_frontends_name_the_one_that_has_the_option():
    from onnx import TensorProto, helper

    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value], [result])
    with pytest.raises(TypeError, match="'memory' is an option of pytorch"):
        estimate(helper.make_model(graph), memory=True)


def test_a_report_with_memory_comes_back_from_json():
    from json import loads
    from pathlib import Path

    from jsonschema import Draft202012Validator

    import costcore

    report = estimate(nn.Sequential(nn.LSTM(8, 4)), (3, 2, 8), memory=True, backward=True)
    text = report.to_json()
    again = Report.from_json(text)
    assert again == report
    assert again.memory == report.memory
    assert again.memory.notes == report.memory.notes != []
    assert again.to_json() == text
    schema = Path(costcore.__file__).parent / "reports" / "report.schema.json"
    Draft202012Validator(loads(schema.read_text(encoding="utf-8"))).validate(loads(text))
    assert "memory" not in loads(estimate(make_net(), (2, 8)).to_json())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda memory: memory["events"].insert(0, 99), "memory.events"),
        (lambda memory: memory["blocks"][0].update(kind="food"), r"memory.blocks\[0\].kind"),
        (lambda memory: memory["blocks"][0].update(nbytes=-1), r"memory.blocks\[0\]"),
        (lambda memory: memory["blocks"][0].update(born=10**6), r"memory.blocks\[0\]"),
        (lambda memory: memory["blocks"][-1].update(died=0), r"memory.blocks\[\d+\]"),
        (lambda memory: memory["blocks"][0].update(color="red"), "color"),
        (lambda memory: memory.pop("blocks"), "blocks"),
    ],
)
def test_a_damaged_file_is_refused(change, message):
    data = estimate(make_net(), (2, 8), memory=True).to_dict()
    change(data["memory"])
    from json import dumps

    with pytest.raises(CostError, match=message):
        Report.from_json(dumps(data))


def test_columns_of_memory():
    report = estimate(make_net(), (2, 8), memory=True, backward=True)
    entry = report.layer_report["relu-1"]
    # Before: parameters 848, input 64. The first linear layer makes 128, the ReLU 128 more.
    assert (entry["live_peak"], entry["live"], entry["saved"]) == (1168, 1168, 128)
    tree = {node["path"]: node for node in report.tree()["children"]}
    # Its backward pass: 912 as before, the output of the ReLU 128, y 32, the loss and its gradient 8, the gradients of
    # the second linear layer 256 + 16, and those of the ReLU's output and input 128 each.
    assert (tree["1"]["live_peak"], tree["1"]["saved"], tree["1"]["live"]) == (1608, 128, 128)
    assert report.total_report["live_peak"] == report.memory.peak
    for show in (report.show_report, report.show_tree, report.show_layers):
        out = io.StringIO()
        show(out, columns=["module", "live", "live_peak", "saved"], top=1)
        assert "Live peak" in out.getvalue()
