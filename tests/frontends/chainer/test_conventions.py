"""The numbers of chainer-computational-cost itself, and conventions by operators on Chainer's functions."""

from __future__ import annotations

import json
from pathlib import Path

import chainer
import numpy
import pytest
from chainer import functions, links

from costcore import ComputationalCostHook, CostError, estimate
from tests.frontends.chainer.zero_weights import with_zero_weights

PREDECESSOR = json.loads((Path(__file__).parents[2] / "data" / "vgg16_ancestor.json").read_text())


def captured(run):
    with chainer.no_backprop_mode(), chainer.using_config("train", False), ComputationalCostHook() as hook:
        run()
    return hook.report


@pytest.fixture(scope="module")
def vgg16():
    vgg = with_zero_weights(links.VGG16Layers)
    return captured(lambda: vgg(numpy.zeros((1, 3, 224, 224), "float32")))


def test_vgg16_has_the_published_number(vgg16):
    view = vgg16.under("chainer-computational-cost")
    # 13 convolutions, 15 ReLU, 5 pools and softmax; linear layers with their bias: 123,633,664 + 9,192
    assert view.total == 15_346_630_656 + 13_555_712 + 4_591_104 + 2_999 + 123_642_856 == 15_488_423_327


@pytest.mark.parametrize(("convention", "column"), [("", 0), ("-fma2", 1)])
def test_every_layer_of_vgg16_is_that_of_the_ancestor(vgg16, convention, column):
    theirs = [layer["flops"][column] for layer in PREDECESSOR["batch1"].values()]
    counted = vgg16.under(f"chainer-computational-cost{convention}").by_call
    assert [counted[name] for name in counted if not name.startswith("Reshape")] == [
        flops for name, flops in zip(PREDECESSOR["batch1"], theirs, strict=True) if not name.startswith("Reshape")
    ]


def x(*shape):
    return numpy.ones(shape, "float32")


@pytest.mark.parametrize(
    ("run", "fma1", "fma2"),
    [
        # 2 x 4 inputs, 3 outputs: 24 products; a bias of 3 counts once per batch
        (lambda: functions.linear(x(2, 4), x(3, 4), x(3)), 24 + 3, 2 * 24 - 6 + 3),
        (lambda: functions.linear(x(2, 4), x(3, 4)), 24, 2 * 24 - 6),
        # 2 groups of 2 to 3 channels, 3 x 3 taps, 3 x 3 positions: 972 products
        (lambda: functions.convolution_2d(x(1, 4, 5, 5), x(6, 2, 3, 3), x(6), groups=2), 972, 2 * 972),
        (lambda: functions.convolution_2d(x(1, 4, 5, 5), x(6, 2, 3, 3), groups=2), 972, 2 * (2 * 3 - 1) * 9 * 9 * 2),
        (lambda: functions.deconvolution_2d(x(1, 4, 3, 3), x(4, 5, 2, 2)), 4 * 5 * 4 * 9, 2 * 4 * 5 * 4 * 9),
        (lambda: functions.prelu(x(2, 3), x(3)), 6, 6),
        # 4 channels at 2 x 2 positions, whatever the batch
        (lambda: functions.local_response_normalization(x(3, 4, 2, 2)), 19 * 4, 23 * 4),
        (lambda: functions.softmax(x(2, 5)), 2 * 10 + 2 * 4, 2 * 10 + 2 * 4),
        (lambda: functions.tanh(x(2, 5)), 0, 0),  # not among its operators
    ],
)
def test_single_functions(run, fma1, fma2):
    report = captured(run)
    assert report.under("chainer-computational-cost").total == fma1
    assert report.under("chainer-computational-cost-fma2").total == fma2


def test_conventions_by_operator_work_and_those_by_module_refuse():
    linear = links.Linear(4, 3)
    report = estimate(linear, numpy.zeros((2, 4), "float32"))
    assert report.under("fvcore").total == report.under("macs").total == 24
    assert report.under("torch").total == 48
    with pytest.raises(CostError, match="a capture of chainer lacks"):
        report.under("thop")
