"""Networks written in Flax have the integers of the same networks in PyTorch.

The PyTorch figures were recorded with costcore's PyTorch frontend, ``layout="free"``, from ``resnet50()`` and
``vit_b_16()`` of torchvision 0.28, ``LlamaModel`` of transformers 5 (one block) and ``torch.nn.LSTM(32, 64)``.
"""

from __future__ import annotations

import runpy
from pathlib import Path

import haiku
import pytest
from flax import linen as nn
from networks import LSTM, Llama, ResNet50, ViT

from costcore import CostError, Tensor, estimate

FIGURES = ("macs", "n_params", "flops", "mread", "mwrite")

PYTORCH = {
    "resnet50": (4_089_184_256, 25_557_032, 4_117_132_288, 275_544_224, 150_239_136),
    "resnet50, odd sizes": (2_567_865_088, 25_557_032, 2_583_807_744, 201_266_152, 85_877_056),
    "vit_b_16": (17_563_828_224, 86_567_656, 17_645_178_980, 493_932_448, 133_141_408),
}
MACS_AND_PARAMETERS = {"llama": (362_807_296, 3_282_432), "lstm": (983_040, 25_088)}
"""PyTorch spells these otherwise: its LSTM is one operator, and transformers computes rotary positions otherwise."""

NETWORKS = {
    "resnet50": (ResNet50(), (1, 224, 224, 3)),
    "resnet50, odd sizes": (ResNet50(), (2, 97, 131, 3)),
    "vit_b_16": (ViT(), (1, 224, 224, 3)),
    "llama": (Llama(), Tensor((2, 64), "int32")),
    "lstm": (LSTM(), (4, 10, 32)),
}


@pytest.fixture(scope="module")
def reports():
    return {name: estimate(*network, layout="free", regroup=True) for name, network in NETWORKS.items()}


@pytest.mark.parametrize("name", PYTORCH)
def test_all_figures_equal_those_of_pytorch(name, reports):
    total = reports[name].total_report
    assert tuple(total[figure] for figure in FIGURES) == PYTORCH[name]
    assert reports[name].status == "complete"


@pytest.mark.parametrize("name", MACS_AND_PARAMETERS)
def test_macs_and_parameters_equal_those_of_pytorch(name, reports):
    total = reports[name].total_report
    assert (total["macs"], total["n_params"]) == MACS_AND_PARAMETERS[name]


def in_haiku(x, is_training):
    return haiku.nets.ResNet50(1000)(x, is_training)


def test_resnet_of_haiku_has_the_figures_of_torchvision():
    network = haiku.transform_with_state(in_haiku)
    report = estimate(network, {"x": (1, 224, 224, 3), "is_training": False}, regroup=True)
    assert tuple(report.total_report[figure] for figure in FIGURES[:3]) == PYTORCH["resnet50"][:3]


def test_vgg16_has_the_flops_that_chainer_computational_cost_published():
    network = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "vgg16.py"))["VGG16"]
    total = estimate(network(), (1, 224, 224, 3), regroup=True).total_report
    # 15,488,404,943 of its documentation, and 9,192 additions of biases that it omits
    assert (total["flops"], total["macs"], total["n_params"]) == (15_488_414_135, 15_470_264_320, 138_357_544)


def test_the_macs_of_the_llama_block_follow_from_its_sizes(reports):
    tokens, width, heads, kv_heads, hidden, steps = 2 * 64, 512, 8, 2, 1376, 64
    projections = width * width * 2 + 2 * width * width * kv_heads // heads  # q and o, k and v
    attention = 2 * steps * width  # scores and weighted values, all pairs
    assert tokens * (projections + attention + 3 * width * hidden) == reports["llama"].total_report["macs"]


def test_the_lstm_runs_its_cell_once_per_step(reports):
    cells = [call for call in reports["lstm"].trace.calls if call.layer.op == "linear"]
    assert [call.times for call in cells] == [10, 10]
    assert reports["lstm"].total_report["macs"] == 4 * 10 * 4 * 64 * (32 + 64)


def test_the_arena_of_a_network_without_loops(reports):
    # the largest moment: the hidden layer of an MLP before and after GELU, and the residual stream
    tokens = 197
    assert reports["vit_b_16"].arena().peak == 4 * tokens * (2 * 3072 + 768)
    with pytest.raises(CostError, match="values that loops and branches of a jaxpr carry"):
        reports["lstm"].arena()


def test_modules_are_those_of_flax(reports):
    tree = reports["resnet50"].trace.run.modules
    assert tree[""].type == "ResNet50"
    assert tree["Bottleneck_0"].type == "Bottleneck"
    assert tree["Bottleneck_0.Conv_1"].own == (("kernel", 64 * 64 * 9),)
    assert {call.module for call in reports["resnet50"].trace.calls} <= tree.keys()


def test_training_counts_both_gradients_of_every_product_but_the_first(reports):
    forward = reports["resnet50"].total_report["macs"]
    training = estimate(ResNet50(train=True), (1, 224, 224, 3), backward=True)
    first = 112 * 112 * 64 * 3 * 49  # the images get no gradient
    assert training.total_report["macs"] == 3 * forward - first == 12_149_538_816  # as recorded from PyTorch
    assert {call.phase for call in training.trace.calls} == {"forward", "backward"}


class Convolutions(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(16, (3, 3), strides=2, padding="VALID")(x))
        x = nn.relu(nn.Conv(32, (3, 3), padding="VALID")(x))
        x = nn.ConvTranspose(8, (4, 4), strides=(2, 2))(x)
        x = nn.max_pool(nn.avg_pool(x, (2, 2), (2, 2)), (2, 2), (2, 2))
        return nn.Dense(10)(x.reshape(x.shape[0], -1))


def test_training_has_the_macs_of_pytorch():
    """The integers are costcore's for the same layers in PyTorch 2.13, with padding=1 of the transposed convolution."""
    phases = estimate(Convolutions(), (2, 33, 33, 3), backward=True).by("phase")
    assert {phase: costs["macs"] for phase, costs in phases.items()} == {"forward": 3640992, "backward": 7060800}
    # by hand: the second convolution, 2 images of 32 x 14 x 14 dot products of length 16 * 9, and its two gradients
    assert 2 * 32 * 14**2 * 16 * 9 == 1806336
