"""The same networks in Chainer and in PyTorch: equal products, equal FLOPs, equal parameters."""

from __future__ import annotations

import chainer
import numpy
import pytest
from chainer import functions, links

from costcore import ComputationalCostHook, estimate
from tests.frontends.chainer.zero_weights import with_zero_weights

pytestmark = pytest.mark.frontend("pytorch")


def in_pytorch(make, *arguments, shape, **settings):
    import torch

    with torch.device("meta"):
        return estimate(make(*arguments).eval(), shape, **settings)


NETWORKS = {  # image size, and the twin with its arguments; the deepest on small images, as Chainer really runs them
    "VGG16Layers": (224, "vgg"),
    "ResNet50Layers": (224, "resnet", 50),
    "ResNet101Layers": (64, "resnet", 101, 64),
    "ResNet152Layers": (64, "resnet", 152, 64),
    "GoogLeNet": (224, "googlenet"),
}
# Chainer has local response normalisation as one operator, 8 FLOPs an element for a window of 5, or 9 with FMA = 2;
# PyTorch writes it out as a square, an average over 5, two products, a sum and a power: 1 + 5 + 2 + 1 + 1.
NORMALISED = {"GoogLeNet": (64 + 192) * 56**2}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_of_chainer(name):
    from tests.whole_networks import chainer_models_in_pytorch

    size, make, *arguments = NETWORKS[name]
    shape = (1, 3, size, size)
    hooks = [ComputationalCostHook(fma_1flop, frontends=["chainer"]) for fma_1flop in (True, False)]
    with chainer.using_config("train", False), chainer.no_backprop_mode(), hooks[0], hooks[1]:
        with_zero_weights(getattr(links, name))(numpy.zeros(shape, "float32"))
    theirs = [
        in_pytorch(getattr(chainer_models_in_pytorch, make), *arguments, shape=shape, fma_1flop=fma_1flop)
        for fma_1flop in (True, False)
    ]

    for hook, twin, more in zip(hooks, theirs, (10 - 8, 10 - 9), strict=True):
        assert hook.ignored_layers == twin.ignored_layers == {}
        ours, other = hook.total_report, twin.total_report
        assert (ours["macs"], ours["n_params"]) == (other["macs"], other["n_params"])
        assert ours["flops"] == other["flops"] - more * NORMALISED.get(name, 0)
        for op in ("conv", "linear", "relu", "max_pool"):
            figures = [report.by("op")[op] for report in (hook.report, twin)]
            assert figures[0]["n_layers"] == figures[1]["n_layers"]
            assert figures[0]["flops"] == figures[1]["flops"]


class Attention(chainer.Chain):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        with self.init_scope():
            self.norm = links.LayerNormalization(width)
            self.q, self.k, self.v, self.out = (links.Linear(width, width) for _ in range(4))

    def forward(self, x):
        n, t, width = x.shape
        rows = self.norm(functions.reshape(x, (n * t, width)))
        q, k, v = (
            functions.transpose(functions.reshape(part(rows), (n, t, self.heads, -1)), (0, 2, 1, 3))
            for part in (self.q, self.k, self.v)
        )
        weights = functions.softmax(functions.matmul(q, k, transb=True) * (width // self.heads) ** -0.5, axis=3)
        y = functions.transpose(functions.matmul(weights, v), (0, 2, 1, 3))
        return x + functions.reshape(self.out(functions.reshape(y, (n * t, width))), (n, t, width))


def test_attention():
    from tests.whole_networks.chainer_models_in_pytorch import Attention as Twin

    shape = (2, 5, 12)
    ours, theirs = estimate(Attention(12, 3), shape), in_pytorch(Twin, 12, 3, shape=shape)

    # four projections, scores and weighted values
    macs = 4 * 2 * 5 * 12 * 12 + 2 * 2 * 5 * 5 * 12
    assert ours.total_report["macs"] == theirs.total_report["macs"] == macs
    assert ours.total_report["flops"] == theirs.total_report["flops"]
    assert ours.total_report["n_params"] == theirs.total_report["n_params"] == 4 * (12 * 12 + 12) + 2 * 12


@pytest.mark.parametrize("fma_1flop", [True, False], ids=["fma1", "fma2"])
def test_n_step_lstm(fma_1flop):
    """On a CPU Chainer runs the two products of a gate as two layers and adds them: 4 additions a unit more."""
    import torch

    steps, batch, inputs, hidden, layers = 4, 3, 5, 6, 2
    with torch.device("meta"):
        twin = torch.nn.LSTM(inputs, hidden, layers)
    theirs = estimate(twin, (steps, batch, inputs), fma_1flop=fma_1flop)

    net = links.NStepLSTM(layers, inputs, hidden, 0.0)
    with chainer.using_config("train", False), ComputationalCostHook(fma_1flop, frontends=["chainer"]) as ours:
        net(None, None, [numpy.zeros((steps, inputs), "float32") for _ in range(batch)])

    units = steps * batch * hidden * layers
    assert ours.ignored_layers == {}
    assert ours.total_report["macs"] == theirs.total_report["macs"]
    assert ours.total_report["macs"] == 4 * steps * batch * hidden * (inputs + hidden + 2 * hidden)
    assert ours.total_report["flops"] == theirs.total_report["flops"] + 4 * units
    assert ours.total_report["n_params"] == theirs.total_report["n_params"]
