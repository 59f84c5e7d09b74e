"""The same networks in Chainer and in PyTorch: equal products, equal FLOPs, equal parameters."""

from __future__ import annotations

import chainer
import numpy
import pytest
from chainer import functions, links

from costcore import ComputationalCostHook, estimate
from tests.frontends.chainer.zero_weights import with_zero_weights

pytestmark = pytest.mark.frontend("pytorch")


def in_pytorch(make, *arguments, shape, **options):
    import torch

    with torch.device("meta"):
        return estimate(make(*arguments).eval(), shape, **options)


NETWORKS = {  # image size, constructor and arguments of the PyTorch model; small images for what Chainer runs slowly
    "VGG16Layers": (224, "vgg"),
    "ResNet50Layers": (224, "resnet", 50),
    "ResNet101Layers": (64, "resnet", 101, 64),
    "ResNet152Layers": (64, "resnet", 152, 64),
    "GoogLeNet": (224, "googlenet"),
}
# Chainer has local response normalization as one operator, 8 FLOPs per element for a window of 5, or 9 with FMA = 2;
# PyTorch composes it of a square, an average over 5, two products, a sum and a power: 1 + 5 + 2 + 1 + 1.
NORMALIZED = {"GoogLeNet": (64 + 192) * 56**2}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_of_chainer(name):
    from tests.whole_networks import chainer_models_in_pytorch

    size, make, *arguments = NETWORKS[name]
    shape = (1, 3, size, size)
    hooks = [ComputationalCostHook(fma_1flop, frontends=["chainer"]) for fma_1flop in (True, False)]
    with chainer.using_config("train", False), chainer.no_backprop_mode(), hooks[0], hooks[1]:
        with_zero_weights(getattr(links, name))(numpy.zeros(shape, "float32"))
    in_torch = [
        in_pytorch(getattr(chainer_models_in_pytorch, make), *arguments, shape=shape, fma_1flop=fma_1flop)
        for fma_1flop in (True, False)
    ]

    for hook, report, surplus in zip(hooks, in_torch, (10 - 8, 10 - 9), strict=True):
        assert hook.ignored_layers == report.ignored_layers == {}
        total, torch_total = hook.total_report, report.total_report
        assert (total["macs"], total["n_params"]) == (torch_total["macs"], torch_total["n_params"])
        assert total["flops"] == torch_total["flops"] - surplus * NORMALIZED.get(name, 0)
        for op in ("conv", "linear", "relu", "max_pool"):
            entries = [either.by("op")[op] for either in (hook.report, report)]
            assert entries[0]["n_layers"] == entries[1]["n_layers"]
            assert entries[0]["flops"] == entries[1]["flops"]


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
    from tests.whole_networks.chainer_models_in_pytorch import Attention as TorchAttention

    shape = (2, 5, 12)
    in_chainer, in_torch = estimate(Attention(12, 3), shape), in_pytorch(TorchAttention, 12, 3, shape=shape)

    # four projections, scores and weighted values
    macs = 4 * 2 * 5 * 12 * 12 + 2 * 2 * 5 * 5 * 12
    assert in_chainer.total_report["macs"] == in_torch.total_report["macs"] == macs
    assert in_chainer.total_report["flops"] == in_torch.total_report["flops"]
    assert in_chainer.total_report["n_params"] == in_torch.total_report["n_params"] == 4 * (12 * 12 + 12) + 2 * 12


@pytest.mark.parametrize("fma_1flop", [True, False], ids=["fma1", "fma2"])
def test_n_step_lstm(fma_1flop):
    """On a CPU Chainer runs the two products of a gate as two layers and adds them: 4 more additions per unit."""
    import torch

    steps, batch, inputs, hidden, layers = 4, 3, 5, 6, 2
    with torch.device("meta"):
        lstm = torch.nn.LSTM(inputs, hidden, layers)
    in_torch = estimate(lstm, (steps, batch, inputs), fma_1flop=fma_1flop)

    net = links.NStepLSTM(layers, inputs, hidden, 0.0)
    with chainer.using_config("train", False), ComputationalCostHook(fma_1flop, frontends=["chainer"]) as in_chainer:
        net(None, None, [numpy.zeros((steps, inputs), "float32") for _ in range(batch)])

    units = steps * batch * hidden * layers
    assert in_chainer.ignored_layers == {}
    assert in_chainer.total_report["macs"] == in_torch.total_report["macs"]
    assert in_chainer.total_report["macs"] == 4 * steps * batch * hidden * (inputs + hidden + 2 * hidden)
    assert in_chainer.total_report["flops"] == in_torch.total_report["flops"] + 4 * units
    assert in_chainer.total_report["n_params"] == in_torch.total_report["n_params"]
