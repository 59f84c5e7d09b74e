"""What an analysis of another package can rely on: the calls of a trace and their ids form the graph of the network."""

from __future__ import annotations

import pytest

from costcore import Trace, estimate

pytestmark = pytest.mark.frontend("pytorch")


def arithmetic_intensity(trace: Trace) -> dict[str, float]:
    """An analysis as others may write one: FLOPs per byte of every counted call."""
    return {
        call.name: cost.flops.flops(trace.run.fma_1flop) / (cost.mread + cost.mwrite)
        for call, cost, *_ in trace
        if cost is not None and cost.mread + cost.mwrite
    }


def residual_block():
    import torch

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(8, 8)

        def forward(self, x):
            y = torch.relu(self.linear(x))
            return self.linear(y) + x

    return Block()


def test_operand_ids_connect_producers_and_consumers():
    first, relu, second, add = estimate(residual_block(), (2, 8)).trace.calls
    assert [call.layer.op for call in (first, relu, second, add)] == ["linear", "relu", "linear", "add"]
    assert first.outputs == relu.inputs
    assert relu.outputs[0] == second.inputs[0]
    assert add.inputs == (second.outputs[0], first.inputs[0])


def test_parameter_ids_tell_what_is_shared_and_how_large_it_is():
    trace = estimate(residual_block(), (2, 8)).trace
    first, _, second, _ = trace.calls
    assert first.parameters == second.parameters
    assert [trace.run.parameters[identity] for identity in first.parameters] == [8 * 8, 8]


def test_storage_ids_tell_views_and_in_place_writes_from_new_memory():
    import torch

    class Net(torch.nn.Module):
        def forward(self, x):
            y = x + 1
            y.relu_()
            return y.view(-1)

    add, relu, view = estimate(Net(), (2, 3)).trace.calls
    memory = [call.storages[-1] for call in (add, relu, view)]
    assert memory[0] == memory[1] == memory[2] != add.storages[0]


def test_an_analysis_is_a_function_of_the_trace():
    # the first linear: 2 x 8 outputs of 8 fma; reads x, w and b, writes y, four bytes each
    intensity = arithmetic_intensity(estimate(residual_block(), (2, 8)).trace)
    assert intensity["linear-1"] == (2 * 8 * 8) / (4 * (2 * 8 + 8 * 8 + 8 + 2 * 8))
