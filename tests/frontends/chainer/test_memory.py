"""Memory of Chainer runs: after every function it is what NumPy has allocated, as ``tracemalloc`` follows it."""

from __future__ import annotations

import gc
import tracemalloc

import chainer
import numpy as np
import pytest
from chainer import functions, links

from costcore import ComputationalCostHook, CostError, Report


class Net(chainer.Chain):
    def __init__(self, **links):
        super().__init__()
        with self.init_scope():
            for name, link in links.items():
                setattr(self, name, link)


class Images(Net):
    def __init__(self):
        super().__init__(
            conv=links.Convolution2D(3, 8, 3, pad=1), norm=links.BatchNormalization(8), linear=links.Linear(128, 4)
        )

    def forward(self, x):
        h = functions.max_pooling_2d(functions.relu(self.norm(self.conv(x))), 2)
        return functions.sum(self.linear(functions.dropout(h, 0.5)))


class Words(Net):
    state = np.zeros((2, 8), "f")

    def __init__(self):
        super().__init__(embed=links.EmbedID(20, 8), gates=links.Linear(16, 32), out=links.Linear(8, 20))

    def forward(self, x):
        cell = state = self.state
        for i in range(3):
            cell, state = functions.lstm(cell, self.gates(functions.concat([self.embed(x[:, i]), state])))
        return functions.softmax_cross_entropy(self.out(state), x[:, 0])


class Branches(Net):
    def __init__(self):
        super().__init__(a=links.Linear(8, 8), b=links.Linear(8, 8))

    def forward(self, x):
        h = functions.tanh(self.a(x))
        return functions.sum(functions.concat([h + self.b(h), h * 2]))


NETS = {
    "images": (Images, np.ones((2, 3, 8, 8), "f")),
    "words": (Words, np.zeros((2, 3), "i")),
    "branches": (Branches, np.ones((4, 8), "f")),
}


def allocated():
    domain = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
    return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces([domain]).traces)


class Probe(chainer.FunctionHook):
    """Notes what is allocated after every function that runs forward, those that compute gradients included."""

    name = "probe"

    def __init__(self):
        self.sizes = []

    def forward_postprocess(self, function, in_data):
        self.sizes.append(allocated())


def run(net, x, trains):
    with chainer.using_config("train", trains), chainer.using_config("enable_backprop", trains):
        loss = net(x)
        if trains:
            loss.backward()
        return loss


def measured(net, x, trains):
    """Return what is allocated after every function and at the end, above what lives before the run."""
    tracemalloc.start()
    try:
        before = allocated()
        with Probe() as probe:
            held = run(net, x, trains)
        end = allocated()
        del held
    finally:
        tracemalloc.stop()
    return [size - before for size in probe.sizes], end - before


@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("name", NETS)
def test_memory_is_what_numpy_has_allocated(name, trains):
    make, x = NETS[name]
    net = make()
    run(net, x, trains)
    net.cleargrads()
    gc.collect()
    sizes, end = measured(net, x, trains)
    net.cleargrads()
    gc.collect()
    with ComputationalCostHook(memory=True, frontends=["chainer"]) as hook:
        hook.watch(net, x, Words.state)
        held = run(net, x, trains)  # noqa: F841 - lives until the end
    memory = hook.memory
    assert [live - memory.base for _, live, _ in memory.live_by_call()] == sizes
    assert memory.end - memory.base == end
    assert sum(memory.by_kind.values()) == memory.peak
    assert Report.from_json(hook.report.to_json()).memory == memory


def test_kinds_and_names():
    net, x = Branches(), np.ones((4, 8), "f")
    optimizer = chainer.optimizers.MomentumSGD().setup(net)
    run(net, x, True)
    optimizer.update()
    net.cleargrads()
    with ComputationalCostHook(memory=True, frontends=["chainer"]) as hook:
        hook.watch(optimizer, x)
        loss = run(net, x, True)  # noqa: F841
        optimizer.update()
    memory = hook.memory
    parameters = 2 * (8 * 8 + 8) * 4
    assert memory.base == 2 * parameters + x.nbytes  # and one moment
    end = {}
    for block in memory.ledger.alive(len(memory.ledger.calls)):
        end[block.kind] = end.get(block.kind, 0) + block.nbytes
    assert end["parameter"] == end["gradient"] == end["optimizer"] == parameters
    assert {block["name"] for block in memory.blocks() if block["kind"] == "parameter"} == {"a.W", "a.b", "b.W", "b.b"}
    assert memory.notes == ["memory: temporary arrays of optimizer updates are not counted"]


def test_what_is_watched():
    hook = ComputationalCostHook(memory=True, frontends=["chainer"])
    with hook, pytest.raises(TypeError, match="watch expects links"):
        hook.watch(3)
    with pytest.raises(CostError, match="no frontend of this hook records memory"):
        ComputationalCostHook(memory=True, frontends=["onnx"]).__enter__()


@pytest.mark.frontend("pytorch")
def test_the_framework_that_runs_has_the_memory():
    import torch

    x = np.ones((4, 8), "f")
    with ComputationalCostHook(memory=True) as hook:
        held = functions.relu(x)
    assert hook.memory.peak == 2 * x.nbytes
    with ComputationalCostHook(memory=True) as hook:
        y = torch.ones(4) + 1
    assert hook.memory.peak == 32
    with ComputationalCostHook(memory=True) as hook:
        held, y = functions.relu(x), torch.ones(4) + 1  # noqa: F841
    assert any("not the arrays of Chainer" in note for note in hook.memory.notes)
