"""Whole networks without weights: published figures, and formulas that give the same integers."""

from __future__ import annotations

import pytest

from costcore import estimate
from tests.whole_networks.onnx_models import encoder, mobilenet_v2, resnet50, unet, vgg16


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(("fma_1flop", "flops"), [(True, 15_488_414_135), (False, 30_958_678_455)])
def test_vgg16_costs_what_the_ancestor_says(batch, fma_1flop, flops):
    total = estimate(vgg16(batch), fma_1flop=fma_1flop).total_report
    assert total["flops"] == batch * flops
    # weights are read once, activations once a sample
    assert total["mread"] == 4 * 138_357_544 + batch * (668_603_456 - 4 * 138_357_544)
    assert total["mwrite"] == batch * 114_575_168
    assert total["n_params"] == total["n_params_model"] == 138_357_544


@pytest.mark.parametrize(
    ("network", "gmacs", "parameters"), [(resnet50, 4.089, 25_557_032), (mobilenet_v2, 0.301, 3_504_872)]
)
def test_published_operations_and_parameters(network, gmacs, parameters):
    # torchvision 0.28.0, weights IMAGENET1K_V1: "_ops" and "num_params"
    report = estimate(network())
    assert round(report.total_report["macs"] / 1e9, 3) == gmacs
    assert report.total_report["n_params"] == report.total_report["n_params_model"] == parameters
    assert not report.ignored_layers
    assert not report.assumptions


def test_encoder_by_hand():
    # 2 samples of 8 tokens, width 16, 4 heads of 4, inner width 64, 50 words
    total = estimate(encoder(2, 8, 16, 4, 64, 50)).total_report
    tokens, scores = 2 * 8, 2 * 4 * 8 * 8
    projections = tokens * (16 * 48 + 16 * 16 + 16 * 64 + 64 * 16)
    assert total["macs"] == projections + 2 * scores * 4
    assert total["n_params"] == 50 * 16 + (16 + 1) * 48 + (16 + 1) * 16 + (16 + 1) * 64 + (64 + 1) * 16 + 4 * 16


@pytest.mark.parametrize("network", [vgg16, resnet50, mobilenet_v2, unet, encoder])
def test_a_symbolic_batch_gives_formulas_of_the_same_integers(network):
    symbolic = estimate(network("n"))
    assert {str(s) for s in symbolic.total_report["flops"].free_symbols} == {"n"}
    assert symbolic.subs(n=3).total_report == estimate(network(3)).total_report
    assert estimate(network("n"), dims={"n": 3}).total_report == estimate(network(3)).total_report


@pytest.mark.parametrize("size", [64, 60])
def test_symbolic_lengths_go_through_strides_and_crops(size):
    symbolic = estimate(unet("n", size="s"))
    assert symbolic.subs(n=2, s=size).total_report == estimate(unet(2, size=size)).total_report
    assert all("the slice" in assumption.what for assumption in symbolic.assumptions)
    steps = estimate(encoder("n", "t"))
    assert steps.subs(n=2, t=8).total_report == estimate(encoder(2, 8)).total_report
    assert not steps.assumptions
