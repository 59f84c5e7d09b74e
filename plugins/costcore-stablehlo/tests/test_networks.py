"""Exported networks have the integers of the JAX plug-in, and those of the same networks in PyTorch."""

from __future__ import annotations

import pytest
from exported import exported
from networks import LSTM, Llama, ResNet50, ViT

from costcore import Tensor, estimate

PYTORCH = {
    "resnet50": (4_089_184_256, 25_557_032),
    "vit_b_16": (17_563_828_224, 86_567_656),
    "llama": (362_807_296, 3_282_432),
    "lstm": (983_040, 25_088),
}
"""MACs and parameters, recorded from torchvision, transformers and ``torch.nn.LSTM`` as the JAX plug-in's tests say."""

NETWORKS = {
    "resnet50": (ResNet50(), (1, 224, 224, 3)),
    "vit_b_16": (ViT(), (1, 224, 224, 3)),
    "llama": (Llama(), Tensor((2, 64), "int32")),
    "lstm": (LSTM(), (4, 10, 32)),
}


@pytest.fixture(scope="module", params=NETWORKS)
def counted(request):
    network, inputs = NETWORKS[request.param]
    return request.param, estimate(exported(network, [inputs]), layout="free", regroup=True)


def test_macs_and_parameters_are_those_of_pytorch(counted):
    name, report = counted
    assert (report.total_report["macs"], report.total_report["n_params"]) == PYTORCH[name]
    assert report.status == "complete"


def test_a_text_and_a_portable_artifact_cost_the_same():
    network, inputs = NETWORKS["lstm"]
    artifact, text = (estimate(exported(network, [inputs], text=text)).total_report for text in (False, True))
    assert artifact == text


def test_all_figures_of_resnet_are_those_of_the_module():
    report = estimate(exported(ResNet50(), [(2, 97, 131, 3)]), layout="free", regroup=True)
    figures = tuple(report.total_report[name] for name in ("macs", "n_params", "flops", "mread", "mwrite"))
    # the figures of torchvision's resnet50 in PyTorch, as the tests of the JAX plug-in have them
    assert figures == (2_567_865_088, 25_557_032, 2_583_807_744, 201_266_152, 85_877_056)


def test_modules_and_their_parameters_are_those_of_flax():
    report = estimate(exported(ResNet50(), [(1, 64, 64, 3)]), regroup=True)
    modules = report.trace.run.modules
    assert modules["Bottleneck_0.Conv_1"].own == (("kernel", 64 * 64 * 9),)
    assert {call.module for call in report.trace.calls} <= modules.keys()
