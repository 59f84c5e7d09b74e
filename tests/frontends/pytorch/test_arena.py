"""The arena of an inference capture of PyTorch: values freed after their last reader, views and in-place results."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from costcore import ComputationalCostHook, Report, estimate
from costcore.errors import ArenaError


def test_a_network_has_the_arena_of_its_export():
    # as the chain of tests/frontends/onnx/test_arena.py, with biases: 4 * 256 * 4 B twice
    net = nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 10))
    report = estimate(net, (4, 32))
    arena = report.arena()
    assert (arena.peak, arena.size, arena.at) == (8192, 8192, "relu-1")
    assert arena.weights == 4 * sum(p.numel() for p in net.parameters())
    assert report.arena(inplace=True).peak == 4096 + 1024
    assert [slot.kind for slot in arena.slots] == ["input", *["value"] * 4, "output"]
    assert Report.from_json(report.to_json()).arena().to_dict() == arena.to_dict()


def test_results_in_place_and_views_share_memory():
    def run(x: torch.Tensor) -> torch.Tensor:
        y = (x + 1).relu_()
        return (y.view(8) * 2).reshape(2, 4)

    x = torch.zeros(2, 4)
    with ComputationalCostHook() as hook:
        run(x)
    arena = hook.report.arena()
    # add: x and y; relu_: y; mul: y and the product
    assert [live for _, live in arena.timeline] == [64, 32, 32, 64, 32]
    assert "assuming that values without a reader are returned" in arena.notes[0]
    assert arena.lower_bound == 64


def test_the_order_of_writes_is_kept():
    def run(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        before = y.view(8) * 2
        y.mul_(3)
        return before.sum() + y.sum()

    with ComputationalCostHook() as hook:
        run(torch.zeros(2, 4))
    order = hook.report.arena().order
    assert order.index("mul-1") < order.index("mul-2" if "mul-2" in order else "mul_-1")


def test_a_tied_weight_counts_once():
    net = nn.Sequential(nn.Linear(8, 8, bias=False), nn.ReLU(), nn.Linear(8, 8, bias=False))
    net[2].weight = net[0].weight
    assert estimate(net, (1, 8)).arena().weights == 4 * 64


def test_buffers_are_stored_too():
    net = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)).eval()
    arena = estimate(net, (1, 3, 5, 5)).arena()
    assert arena.weights == 4 * (3 * 4 + 4 + 4 * 4), "weight and bias; gamma, beta, mean and variance"
    assert arena.peak == 4 * 25 * (4 + 4)


def test_a_training_step_has_no_arena():
    report = estimate(nn.Linear(4, 4), (1, 4), backward=True)
    with pytest.raises(ArenaError, match="inference only"):
        report.arena()
    assert "id='arena'" not in report.to_html()
