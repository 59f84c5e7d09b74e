"""Networks of Chainer against the tables of their papers."""

from __future__ import annotations

import chainer
import numpy
from chainer import links

from costcore import ComputationalCostHook, estimate
from tests.frontends.chainer.zero_weights import with_zero_weights


def counted(make):
    with chainer.using_config("train", False):
        return estimate(with_zero_weights(make), (1, 3, 224, 224))


def test_resnet50():
    """He et al., arXiv:1512.03385, Table 1; the first 1x1 convolution has the stride, unlike in torchvision."""
    macs = 112**2 * 64 * 3 * 7**2
    fan_in = 64
    for blocks, width, size in ((3, 64, 56), (4, 128, 28), (6, 256, 14), (3, 512, 7)):
        out = 4 * width
        first = fan_in * width + width * width * 9 + width * out + fan_in * out  # the last is the shortcut
        other = out * width + width * width * 9 + width * out
        macs += size**2 * (first + (blocks - 1) * other)
        fan_in = out
    macs += 2048 * 1000
    assert macs == 3_857_973_248  # "3.8 billion" in the paper

    report = counted(links.ResNet50Layers)

    assert report.total_report["macs"] == macs
    # torchvision publishes 25,557,032; Chainer's first convolution has a bias, 64 more
    assert report.total_report["n_params"] == 25_557_032 + 64
    assert report.ignored_layers == {}
    summary = report.summary_report
    assert {kind: entry["n_layers"] for kind, entry in summary.items()} == {
        "Convolution2DFunction": 53,
        "FixedBatchNormalization": 53,
        "ReLU": 49,
        "MaxPoolingND": 1,
        "Add": 16,
        "AveragePooling2D": 1,
        "Reshape": 1,
        "LinearFunction": 1,
        "Softmax": 1,
        "total": 176,
    }
    # 16 shortcuts: 56^2 * 256 * 3, 28^2 * 512 * 4, 14^2 * 1024 * 6, 7^2 * 2048 * 3
    assert summary["Add"]["flops"] == 2_408_448 + 1_605_632 + 1_204_224 + 301_056
    # 7 x 7 averaged, 48 additions and a division, for 2048 channels
    assert summary["AveragePooling2D"]["flops"] == 2048 * 49
    assert report.layer_report["Convolution2DFunction-5"]["module"] == "res2.a.conv4"


def test_googlenet():
    """Szegedy et al., arXiv:1409.4842, Table 1, without the two auxiliary classifiers, which inference does not run."""
    inceptions = (  # size, input; 1x1; 3x3 reduce, 3x3; 5x5 reduce, 5x5; pool projection
        (28, 192, 64, 96, 128, 16, 32, 32),
        (28, 256, 128, 128, 192, 32, 96, 64),
        (14, 480, 192, 96, 208, 16, 48, 64),
        (14, 512, 160, 112, 224, 24, 64, 64),
        (14, 512, 128, 128, 256, 24, 64, 64),
        (14, 512, 112, 144, 288, 32, 64, 64),
        (14, 528, 256, 160, 320, 32, 128, 128),
        (7, 832, 256, 160, 320, 32, 128, 128),
        (7, 832, 384, 192, 384, 48, 128, 128),
    )
    macs = 112**2 * 64 * 3 * 7**2 + 56**2 * 64 * 64 + 56**2 * 192 * 64 * 3**2
    for size, fan_in, one, reduce3, three, reduce5, five, pool in inceptions:
        products = fan_in * (one + reduce3 + reduce5 + pool) + reduce3 * three * 3**2 + reduce5 * five * 5**2
        macs += size**2 * products
    macs += 1024 * 1000
    assert macs == 1_582_671_872  # "1.5 billion multiply-adds" in the paper

    report = counted(links.GoogLeNet)

    assert report.total_report["macs"] == macs
    # published for BVLC GoogLeNet: 6,998,552 as deployed, 13,378,280 with the auxiliary classifiers
    assert report.total_report["n_params"] == 6_998_552
    assert report.total_report["n_params_model"] == 13_378_280
    assert report.ignored_layers == {}
    assert [entry["module"] for entry in report.layer_report.values() if entry["type"] == "Concat"] == [
        "inc3a",
        "inc3b",
        "inc4a",
        "inc4b",
        "inc4c",
        "inc4d",
        "inc4e",
        "inc5a",
        "inc5b",
    ]
    # window 5: (5 + 3) per element, 64 * 56^2 and 192 * 56^2 of them
    assert report.summary_report["LocalResponseNormalization"]["flops"] == 8 * (64 + 192) * 56**2


def test_forward_and_backward_of_a_small_network():
    """Every product of the forward pass has two in the backward pass, one in the first layer: x needs no gradient."""
    net = chainer.Sequential(links.Linear(8, 16), chainer.functions.relu, links.Linear(16, 4))

    report = estimate(net, (3, 8), backward=True)

    phases = [(entry["type"], entry["phase"], entry["macs"]) for entry in report.layer_report.values()]
    assert phases == [
        ("LinearFunction", "forward", 3 * 8 * 16),
        ("ReLU", "forward", 0),
        ("LinearFunction", "forward", 3 * 16 * 4),
        ("LinearGradData", "backward", 3 * 4 * 16),
        ("LinearGradWeight", "backward", 4 * 3 * 16),
        ("Sum", "backward", 0),
        ("ReLUGrad2", "backward", 0),
        ("LinearGradWeight", "backward", 16 * 3 * 8),
        ("Sum", "backward", 0),
    ]
    assert [entry["module"] for entry in report.layer_report.values()] == ["0", "", "1", "1", "1", "1", "", "0", "0"]
    assert report.total_report["n_params"] == 8 * 16 + 16 + 16 * 4 + 4


class Small(chainer.Chain):
    """A convolution of 2 to 4 channels, 3 x 3, and a fully connected layer of 5 outputs, with a loss."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.convolution = links.Convolution2D(2, 4, 3, initialW=0.1)
            self.output = links.Linear(4 * 4 * 4, 5, initialW=0.1)

    def forward(self, images, labels):
        hidden = chainer.functions.relu(self.convolution(images))
        return chainer.functions.softmax_cross_entropy(self.output(hidden), labels)


def test_training_step():
    """3 images of 6 x 6: three times the products of the forward pass, without the gradient of the images."""
    net, images, labels = Small(), numpy.ones((3, 2, 6, 6), "float32"), numpy.array([0, 1, 4], "int32")
    optimizer = chainer.optimizers.SGD(lr=0.1).setup(net)
    first, second = 3 * 4 * 4 * 4 * (2 * 3 * 3), 3 * 5 * 64
    before = net.output.W.array.copy()

    with ComputationalCostHook(frontends=["chainer"]) as hook:
        optimizer.update(net, images, labels)

    macs = {"forward": 0, "backward": 0}
    for entry in hook.layer_report.values():
        macs[entry["phase"]] += entry["macs"]
    assert macs == {"forward": first + second, "backward": first + 2 * second}
    assert hook.total_report["macs"] == 3 * (first + second) - first
    assert hook.ignored_layers == {}
    assert hook.total_report["n_params"] == 4 * 18 + 4 + 64 * 5 + 5
    assert (net.output.W.array != before).any()
    (note,) = hook.report.notes
    assert note.startswith("parameters were updated by SGDRule") and note.endswith("are not counted")
