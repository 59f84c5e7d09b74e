"""Without the key ``PreDispatch``, estimates of whole networks and of their training steps are the same."""

from __future__ import annotations

from importlib import import_module

import pytest
import torch
from torch import nn

from costcore import estimate
from tests.frontends.pytorch.test_transformers import NETWORKS
from tests.whole_networks import pytorch_models

IMAGES = (2, 3, 64, 64)
SEQUENCES = (2, 5, 8)
CASES = {
    **{name: (network.build, network.inputs) for name, network in NETWORKS.items()},
    "ResNet-50": (pytorch_models.resnet50, IMAGES),
    "DenseNet-121": (pytorch_models.densenet121, IMAGES),
    "MobileNetV3": (pytorch_models.mobilenet_v3_large, IMAGES),
    "LSTM": (lambda: nn.LSTM(8, 16, 2, batch_first=True), SEQUENCES),
    "GRU": (lambda: nn.GRU(8, 16, 2, bidirectional=True), SEQUENCES),
    "RNN": (lambda: nn.RNN(8, 16), SEQUENCES),
    "encoder": (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2), SEQUENCES),
    "encoder and decoder": (
        lambda: nn.Transformer(8, 2, 1, 1, 16, batch_first=True),
        (torch.ones(SEQUENCES), torch.ones(SEQUENCES)),
    ),
}


@pytest.mark.filterwarnings("ignore:data-dependent branch")  # whether ids contain padding, of which it only warns
@pytest.mark.parametrize("is_training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("name", CASES)
def test_every_total_is_the_same(name, is_training, monkeypatch):
    build, inputs = CASES[name]
    network = build().train(is_training)
    expected = estimate(network, inputs, backward=is_training)
    monkeypatch.setattr(
        import_module("costcore.frontends.pytorch.capture.context"), "can_see_composites", lambda: False
    )
    found = estimate(network, inputs, backward=is_training)
    assert any("hides composite operators" in note for note in found.notes)
    assert found.total_report == expected.total_report
    assert [entry["type"] for entry in found.layer_report.values()] == [
        entry["type"] for entry in expected.layer_report.values()
    ]


def test_the_peak_of_memory_is_the_same(monkeypatch):
    """Of an LSTM, whose kernel keeps a workspace, and of attention."""
    for name in ("LSTM", "encoder", "llama"):
        build, inputs = CASES[name]
        network = build().train()
        expected = estimate(network, inputs, backward=True, memory=True)
        with monkeypatch.context() as patch:
            context = import_module("costcore.frontends.pytorch.capture.context")
            patch.setattr(context, "can_see_composites", lambda: False)
            found = estimate(network, inputs, backward=True, memory=True)
        assert found.memory.peak == expected.memory.peak, name
