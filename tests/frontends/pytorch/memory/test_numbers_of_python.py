"""Tensors that PyTorch makes of Python's numbers during a run: no operator returns them on the meta device."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from costcore import ComputationalCostHook, estimate

X = 4 * 4 * 4
"""Bytes of the input, 4 x 4 in float32."""


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Attribute(nn.Module):
    def __init__(self, *index):
        super().__init__()
        self.index = torch.tensor([0, 1]) if not index else [torch.tensor(index)]

    def forward(self, x):
        index = self.index if isinstance(self.index, torch.Tensor) else self.index[0]
        return x[index] + x[index]


def assigned(x):
    x = x.clone()
    x[[0, 1]] = 1.0
    x[:, [1]] += 2
    return x


MADE_IN_THE_RUN = {
    "tensor": (lambda x: x + torch.tensor([1.0, 2, 3, 4], device=x.device), X + 16 + X),
    "new_tensor": (lambda x: x + x.new_tensor([1.0, 2, 3, 4]), X + 16 + X),
    "as_tensor": (lambda x: x + torch.as_tensor([1.0, 2, 3, 4], device=x.device), X + 16 + X),
    "asarray": (lambda x: x + torch.asarray([1.0, 2, 3, 4], device=x.device), X + 16 + X),
    "an index that is a list": (lambda x: x[:, [-1, 0]] * 2, X + 32 + 32),
    "two lists": (lambda x: x[[[0, 1], [1, 2]], [0, 1]] * 2, X + 32 + 16 + 16),
    "a range": (lambda x: x[range(2)] * 2, X + 32 + 32),
    "an assignment": (assigned, X + X + 8 + 16),  # the second index, and the column that becomes larger
}
"""Functions of x, and the peak in bytes: x, the numbers, and results; a list of indices has 8 bytes per number."""


def figures_of(memory):
    return memory.base, memory.peak, memory.end


def run(net, x):
    with torch.no_grad(), ComputationalCostHook(memory=True) as hook:
        hook.watch(net, x)
        held = net(x)
    del held
    return figures_of(hook.memory)


@pytest.mark.parametrize("name", MADE_IN_THE_RUN)
def test_what_is_made_in_the_run_did_not_live_before(name):
    function, peak = MADE_IN_THE_RUN[name]
    net, x = Function(function), torch.ones(4, 4)
    memory = estimate(net, x, memory=True).memory
    assert memory.base == X and memory.peak == peak and memory.is_exact
    assert figures_of(memory) == run(net, x)


@pytest.mark.parametrize("index", [(), (0, 1)], ids=["tensor", "list of tensors"])
def test_an_attribute_of_the_model_did(index):
    net, x = Attribute(*index), torch.ones(4, 4)
    memory = estimate(net, x, memory=True).memory
    assert memory.base == X + 16
    assert figures_of(memory) == run(net, x)
