"""What a backward pass reads of its forward pass is written there, in the same type and size."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from costcore import ComputationalCostHook, Operations
from tests.frontends.pytorch.rows.recorded_costs import costs, leaf, trained
from tests.frontends.pytorch.runs import record

X = torch.rand(2, 3, 6, 6)
ROW, CUBE = X[0, :, 0], torch.rand(1, 2, 4, 4, 4)

POOLS = [  # function, x, outputs
    (lambda x: functional.max_pool1d(x, 2), ROW, 9),
    (lambda x: functional.max_pool2d(x, 2), X, 54),
    (lambda x: functional.max_pool3d(x, 2), CUBE, 16),
    (lambda x: functional.adaptive_max_pool1d(x, 3), ROW, 9),
    (lambda x: functional.adaptive_max_pool2d(x, 3), X, 54),
    (lambda x: functional.adaptive_max_pool2d(x, (4, 5)), X, 120),
    (lambda x: functional.adaptive_max_pool3d(x, 2), CUBE, 16),
    (lambda x: functional.fractional_max_pool2d(x, 2, 3), X, 54),
    (lambda x: functional.fractional_max_pool3d(x, 2, 2), CUBE, 16),
]


def pool(run):
    with ComputationalCostHook(frontends=["pytorch"]) as hook:
        run()
    return next(entry for entry in hook.layer_report.values() if entry["op"].endswith("_pool"))


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(("run", "x", "n"), POOLS)
def test_indices_are_written_if_a_gradient_needs_them(run, x, n, device):
    x = x.to(device)
    plain = pool(lambda: run(x))
    assert plain["mwrite"] == 4 * n
    needed = x.clone().requires_grad_()
    trained = pool(lambda: run(needed))
    assert trained["mwrite"] == 4 * n + 8 * n
    with torch.no_grad():
        assert pool(lambda: run(needed))["mwrite"] == 4 * n
    assert (trained["mread"], trained["operations"]) == (plain["mread"], plain["operations"])


@pytest.mark.parametrize(
    "run",
    [
        lambda x: functional.max_pool2d(x, 2, return_indices=True),
        lambda x: functional.adaptive_max_pool2d(x, 3, return_indices=True),
        lambda x: functional.fractional_max_pool2d(x, 2, 3, return_indices=True),
        lambda x: nn.AdaptiveMaxPool2d(3, return_indices=True)(x),
        lambda x: torch.adaptive_max_pool1d(x[0], 3),
    ],
)
@pytest.mark.parametrize("needs_gradient", [False, True])
def test_indices_that_the_user_asks_for_are_written(run, needs_gradient):
    x = X.clone().requires_grad_(needs_gradient)
    entry = pool(lambda: run(x))
    indices = entry["mwrite"] // 12
    assert entry["mwrite"] == 4 * indices + 8 * indices


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("run", [lambda x: functional.max_pool2d(x, 2), lambda x: functional.adaptive_max_pool2d(x, 3)])
def test_the_backward_pass_reads_the_indices_that_the_forward_pass_wrote(run, device):
    calls = trained(run, leaf(2, 3, 6, 6, device=device)).calls
    backward = next(call.layer for call in calls if call.phase == "backward" and "pool" in call.layer.op)
    assert (backward["indices"].shape, backward["indices"].dtype) == ((2, 3, 3, 3), "int64")


DROPOUTS = [  # function, elements of the mask for x[2, 3, 6, 6]
    (functional.dropout, 216),
    (functional.alpha_dropout, 216),
    (functional.dropout2d, 6),
    (functional.feature_alpha_dropout, 6),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("run", "n"), DROPOUTS)
def test_the_backward_pass_of_dropout_reads_the_mask_that_the_forward_pass_wrote(run, n, dtype):
    x = leaf(2, 3, 6, 6, dtype=dtype)
    recorder = trained(lambda x: run(x, 0.5, True), x)
    name = {functional.dropout2d: "feature_dropout"}.get(run, run.__name__)
    ((_, forward),) = costs(recorder, name)
    assert forward.mwrite == dtype.itemsize * (216 + n)
    ((layer, backward),) = costs(recorder, "mul")
    assert sorted(operand.size for operand in layer.inputs.values()) == [n, 216][: len(layer.inputs)]
    assert backward.mread == dtype.itemsize * (216 + n)


@pytest.mark.parametrize("run", [run for run, _ in DROPOUTS])
def test_dropout_at_a_rate_of_0_returns_its_operand_in_training(run):
    x = leaf(2, 3, 6, 6)
    assert run(x, 0.0, True).data_ptr() == x.data_ptr()
    name = {functional.dropout2d: "feature_dropout"}.get(run, run.__name__)
    ((_, cost),) = costs(record(lambda: run(x, 0.0, True)), name)
    assert (cost.flops, cost.mread, cost.mwrite) == (Operations(), 0, 0)


def test_the_backward_pass_of_an_lstm_reads_no_workspace():
    """3 steps of 2 samples, 4 inputs, 5 units: gradients, operands and weights, no memory of the kernel."""
    recorder = trained(lambda x: nn.LSTM(4, 5)(x)[0], leaf(3, 2, 4))
    called = costs(recorder, "mkldnn_rnn_layer_backward")
    assert called
    for layer, cost in called:
        assert set(layer.inputs) <= {"dy", "dh", "dc", "x", "y", "h0", "c0", "w0", "w1", "b0", "b1"}
        # dy, y [3, 2, 5], dh, dc, h0, c0 [2, 5], x [3, 2, 4], w0 [20, 4], w1 [20, 5], biases [20]
        elements = sum(operand.size for operand in layer.inputs.values())
        assert elements <= 30 + 30 + 4 * 10 + 24 + 80 + 100 + 40
        assert cost.mread == 4 * elements
