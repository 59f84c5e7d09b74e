"""VGG16 against the numbers that chainer-computational-cost published and computes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import chainer
import numpy
import pytest
from chainer import links

from costcore import ComputationalCostHook
from tests.frontends.chainer.zero_weights import with_zero_weights

PREDECESSOR = json.loads((Path(__file__).parents[2] / "data" / "vgg16_ancestor.json").read_text())
RENAMED = {"MaxPoolingND": "MaxPooling2D"}  # the same function in Chainer 7.8.1 and 6.0.0
SIZES = {1: (25088, 4096), 2: (4096, 4096), 3: (4096, 1000)}  # of the three fully connected layers


@pytest.fixture(scope="module")
def vgg():
    return with_zero_weights(links.VGG16Layers)


@pytest.fixture(scope="module", params=[1, 2], ids=["batch1", "batch2"])
def batch(request):
    return request.param


@pytest.fixture(scope="module", params=[True, False], ids=["fma1", "fma2"])
def fma_1flop(request):
    return request.param


@pytest.fixture(scope="module")
def report(vgg, batch, fma_1flop):
    x = numpy.zeros((batch, 3, 224, 224), "float32")
    with (
        chainer.no_backprop_mode(),
        chainer.using_config("train", False),
        ComputationalCostHook(fma_1flop=fma_1flop, frontends=["chainer"]) as hook,
    ):
        vgg(x)
    return hook.report


def test_total(report, batch, fma_1flop):
    total = report.total_report

    assert total["flops"] == batch * (15_488_414_135 if fma_1flop else 30_958_678_455)
    # 13 convolutions, and the fully connected 25088 * 4096 + 4096 * 4096 + 4096 * 1000
    assert total["macs"] == batch * (15_346_630_656 + 123_633_664)
    assert total["n_layers"] == 38
    assert total["n_params"] == 138_357_544
    # parameters are read once for any batch: 138,357,544 * 4 B of the 668,603,456 B
    assert total["mread"] == 553_430_176 + batch * (668_603_456 - 553_430_176)
    assert total["mwrite"] == batch * 114_575_168
    assert report.ignored_layers == {}


def test_every_layer(report, batch, fma_1flop):
    counted = Counter()
    expected = PREDECESSOR[f"batch{batch}"]
    for entry in report.layer_report.values():
        kind = RENAMED.get(entry["type"], entry["type"])
        counted[kind] += 1
        if kind != "LinearFunction":
            published = expected[f"{kind}-{counted[kind]}"]
            assert entry["flops"] == published["flops"][0 if fma_1flop else 1], entry["name"]
            assert (entry["mread"], entry["mwrite"]) == (published["mread"], published["mwrite"]), entry["name"]
            continue
        # the predecessor counts the bias twice, and counts any batch as one sample
        features, units = SIZES[counted[kind]]
        products = batch * units * features
        assert entry["flops"] == (products if fma_1flop else 2 * products), entry["name"]
        assert entry["mread"] == 4 * (batch * features + units * features + units), entry["name"]
        assert entry["mwrite"] == 4 * batch * units, entry["name"]
    assert counted == Counter(name.rpartition("-")[0] for name in expected)
