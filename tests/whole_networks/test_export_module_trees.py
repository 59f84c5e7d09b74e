"""The module tree of an exported network is that of the network in PyTorch."""

from __future__ import annotations

import io
import logging
import warnings
from functools import cache
from typing import Any

import pytest

from costcore import Report, estimate
from tests import frameworks
from tests.nodes import walk

pytestmark = pytest.mark.frontend("pytorch", "onnx")

if not {"pytorch", "onnx"} - set(frameworks.available()):
    import torch
    from torch import nn

    from tests.whole_networks.exporters import skip_unless_exported

    class Block(nn.Module):
        """A residual block that runs one activation twice, and has a shortcut if the shape changes."""

        def __init__(self, channels: int, out: int) -> None:
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(channels, out, 3, padding=1, bias=False), nn.BatchNorm2d(out)
            self.relu = nn.ReLU()
            self.conv2 = nn.Conv2d(out, out, 3, padding=1)
            shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, bias=False), nn.BatchNorm2d(out))
            self.shortcut = shortcut if channels != out else nn.Identity()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.relu(self.conv2(self.relu(self.bn1(self.conv1(x)))) + self.shortcut(x))

    class ResNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.layers = nn.Conv2d(3, 4, 3), nn.Sequential(Block(4, 4), nn.Sequential(Block(4, 8)))
            self.pool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(8, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(torch.flatten(self.pool(self.layers(self.stem(x))), 1))

    class Words(nn.Module):
        """Tied weights, layers in a ModuleList, and a parameter of the model itself."""

        def __init__(self) -> None:
            super().__init__()
            self.embed, self.places = nn.Embedding(50, 8), nn.Parameter(torch.zeros(6, 8))
            self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8)) for _ in range(2))
            self.head = nn.Linear(8, 50, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.embed(x) + self.places
            for block in self.blocks:
                y = y + block(y)
            return self.head(y)

    NETWORKS: dict[str, tuple[Any, Any]] = {
        "resnet": (ResNet, torch.zeros(2, 3, 16, 16)),
        "words": (Words, torch.zeros(2, 6, dtype=torch.int64)),
    }

EXPORTERS = ("older", "newer")
CONTAINERS = ("ModuleList", "Identity")
"""Classes of modules that run no operator: exporters record at most their names."""


@cache
def reports(name: str, exporter: str, folded: bool) -> tuple[Report, Report]:
    """Return the reports of the network in PyTorch and of its export, with weights that all differ."""
    torch.manual_seed(0)
    build, x = NETWORKS[name]
    module, out = build().eval(), io.BytesIO()
    if exporter == "newer":
        skip_unless_exported(module)
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.is_floating_point():
            tensor.data.uniform_(0.1, 1)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporters' own warnings
        if exporter == "older":
            torch.onnx.export(module, (x,), out, dynamo=False, opset_version=18, do_constant_folding=folded)
        else:
            program = torch.onnx.export(module, (x,), dynamo=True, opset_version=18, optimize=folded, verbose=False)
            out.write(program.model_proto.SerializeToString())
    return estimate(module, x), estimate(out.getvalue())


def nodes(report: Report) -> dict[tuple[str, bool], dict[str, Any]]:
    return {(node["path"], node["is_own"]): node for _, node in walk(report.tree())}


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("name", ["resnet", "words"])
def test_paths_parameters_and_products_are_equal(name, exporter):
    mine, exported = map(nodes, reports(name, exporter, False))
    same = {key for key, node in mine.items() if node["type"] not in CONTAINERS}
    assert same - exported.keys() == set()
    assert {mine[key]["type"] for key in mine.keys() - exported.keys()} <= {"Identity"}
    assert exported.keys() <= mine.keys()
    for key in same:
        for column in ("n_params", "n_trainable", "n_shared", "macs"):
            assert exported[key][column] == mine[key][column], (key, column)


@pytest.mark.parametrize("name", ["resnet", "words"])
def test_the_newer_exporter_records_classes(name):
    mine, exported = map(nodes, reports(name, "newer", False))
    told = {key: node["type"] for key, node in exported.items() if node["type"]}
    assert told == {key: mine[key]["type"] for key in told}
    assert {mine[key]["type"] for key, node in exported.items() if not node["type"]} <= {"", "ModuleList"}


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_running_statistics_are_the_buffers_of_a_file(exporter):
    _, exported = map(nodes, reports("resnet", exporter, False))
    assert exported["layers.0.bn1", False]["n_buffers"] == 2 * 4  # the count of batches is not stored
    assert exported["", False]["n_buffers"] == 2 * (4 + 8 + 8)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_convolutions_keep_their_weights_if_norms_are_folded_into_them(exporter):
    _, exported = map(nodes, reports("resnet", exporter, True))
    convolutions = ("layers.0.conv1", "layers.1.0.conv2", "layers.1.0.shortcut.0")
    assert [exported[path, False]["n_params"] for path in convolutions] == [
        4 * 4 * 3 * 3 + 4,  # the bias is what remains of the norm
        8 * 8 * 3 * 3 + 8,
        8 * 4 + 8,
    ]
