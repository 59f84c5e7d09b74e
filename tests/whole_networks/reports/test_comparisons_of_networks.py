"""Comparisons of real networks: with themselves, pruned, and with their exports."""

from __future__ import annotations

import json

import pytest

from costcore import compare, estimate
from tests.command_line import main
from tests.whole_networks.reports.subjects import FOLDED, IMAGE, RESNET50, RESNET50_MACS, resnet50

MODES = ("table", "md", "json", "html")

PRUNED = ["5.body.1.0", "5.body.1.1", "5.body.1.2", "5.body.2.0"]
"""The modules affected by a narrower convolution: itself, its batch norm, its ReLU and the next convolution."""


@pytest.mark.parametrize("by", ["module", "order"])
def test_a_network_against_itself_is_empty(report, by):
    found = compare(report, report, by=by)
    assert found.equal
    assert (found.differences, found.moved) == ([], [])
    assert all(delta.equal for delta in (*found.totals.values(), found.data_movement))
    assert json.loads(found.to_json())["differences"] == []
    assert "no call differs" in found.to_html()


@pytest.fixture(scope="session")
def pruned():
    """Return the report of ResNet-50 with 96 instead of 128 channels in one convolution."""
    from torch import nn

    net = resnet50()
    body = net[5].body
    body[1][0] = nn.Conv2d(128, 96, 3, stride=2, padding=1, bias=False, device="meta")
    body[1][1] = nn.BatchNorm2d(96, device="meta").eval()
    body[2][0] = nn.Conv2d(96, 512, 1, bias=False, device="meta")
    return estimate(net, IMAGE)


@pytest.mark.frontend("pytorch")
def test_the_changed_layers_of_a_pruned_network_are_listed(counted, pruned):
    """32 of 128 channels are removed at 28 x 28: 128 x 9 weights each, 512 of the next layer, a scale and a shift."""
    found = compare(counted("resnet50").report, pruned)
    assert [(d.change, d.entry["module"]) for d in found.differences] == [("changed", path) for path in PRUNED]
    removed = 28 * 28 * (32 * 128 * 9 + 512 * 32)
    assert found.totals["macs"] == (RESNET50_MACS, RESNET50_MACS - removed)
    assert found.totals["n_params"] == (RESNET50, RESNET50 - 32 * 128 * 9 - 512 * 32 - 2 * 32)


@pytest.mark.frontend("pytorch")
@pytest.mark.parametrize("mode", MODES)
def test_the_command_lists_the_layers_in_every_format(counted, pruned, tmp_path, capsys, golden, mode):
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    counted("resnet50").report.to_json(old)
    pruned.to_json(new)
    assert main(["diff", str(old), str(new), "--format", mode]) == 0
    text = capsys.readouterr().out
    assert all(path in text for path in PRUNED)
    assert main(["diff", str(old), str(new), "--format", mode, "--exit-code"]) == 1
    if mode == "md":
        golden("reports/pruned.md", text.replace(str(tmp_path), ""))


@pytest.mark.frontend("pytorch", "onnx")
def test_an_export_has_the_same_macs_and_folded_norms(counted, golden):
    """53 batch norms with 11,113,984 elements in total are removed: one fma per element."""
    found = compare(counted("resnet50").report, counted("export").report, names=("PyTorch", "ONNX"))
    assert found.by == "order"
    assert found.totals["macs"] == (RESNET50_MACS, RESNET50_MACS)
    assert found.totals["flops"].difference == -11_113_984
    assert found.totals["n_params"] == (RESNET50, FOLDED)
    assert found.data_movement == (0, 0)
    changes = found.to_dict()["conversion"]
    assert [(each["what"], each["old"], each["new"], each["times"]) for each in changes] == [
        ("changed", ["conv"], ["conv"], 53),  # each reads a bias more
        ("folded", ["batch_norm"], [], 53),
    ]
    assert found.summary[0] == "53 batch_norm folded into conv"
    assert {d.change for d in found.differences} == {"removed", "changed"}
    assert all("input_shapes" in d.settings for d in found.changed)  # an additional bias
    golden("reports/export.md", found.to_markdown(top=6))


@pytest.mark.frontend("chainer", "onnx")
def test_a_chainer_network_has_the_macs_of_its_graph(counted):
    """The graph has the same operators with the same shapes, and therefore the same costs."""
    from tests.whole_networks import onnx_models

    found = compare(counted("vgg16").report, estimate(onnx_models.vgg16()), names=("Chainer", "ONNX"))
    assert found.by == "order"
    assert found.equal
    assert all(delta.equal for delta in found.totals.values())


@pytest.mark.frontend("pytorch", "onnx")
@pytest.mark.filterwarnings("ignore")  # of the exporter
def test_a_product_does_not_become_a_recurrent_layer_of_equal_macs(tmp_path):
    """Per step, the first layer has 2 · 4 · 16 · (8 + 16) MACs, as many as the products of attention, 3 · 32 · 32."""
    import torch
    from torch import nn

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.LSTM(8, 16, 2, batch_first=True, bidirectional=True)
            self.attention = nn.MultiheadAttention(32, 4, batch_first=True)

        def forward(self, x):
            x, _ = self.rnn(x)
            return self.attention(x, x, x, need_weights=False)[0]

    model, path = Tagger().eval(), tmp_path / "tagger.onnx"
    torch.onnx.export(model, (torch.zeros(1, 6, 8),), path, dynamo=False, opset_version=17)
    made = compare(estimate(model, (1, 6, 8)), estimate(path)).to_dict()["conversion"]
    assert [(m["what"], m["new"]) for m in made if m["old"] == ["lstm"]] == [("became", ["lstm", "lstm"])]
