"""Conventions that count by operators give the same for a network and its ONNX export."""

from __future__ import annotations

import warnings

import pytest

import costcore

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")

from tests.whole_networks.exporters import NEEDS_NEWER  # noqa: E402 - of the frameworks above

BY_OPERATORS = ("torch", "torchvision", "fvcore", "timm", "torchprofile", "macs", "mults", "bops")


def mlp() -> tuple[torch.nn.Module, tuple[int, ...]]:
    nn = torch.nn
    return nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4)), (2, 5, 8)


def images() -> tuple[torch.nn.Module, tuple[int, ...]]:
    nn = torch.nn
    layers = (nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.GroupNorm(2, 8), nn.ConvTranspose2d(8, 4, 4, 2, 1))
    return nn.Sequential(*layers, nn.Upsample(scale_factor=2), nn.LeakyReLU(), nn.MaxPool2d(2)), (2, 3, 16, 16)


def encoder() -> tuple[torch.nn.Module, tuple[int, ...]]:
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    return torch.nn.Sequential(layer), (1, 10, 32)


@pytest.fixture(scope="module", params=[mlp, images, encoder], ids=lambda build: build.__name__)
def network(request):
    model, shape = request.param()
    return model.eval(), shape


@pytest.fixture(scope="module", params=[pytest.param(True, marks=NEEDS_NEWER), False], ids=["dynamo", "older exporter"])
def reports(request, network, tmp_path_factory):
    model, shape = network
    file = tmp_path_factory.mktemp("exports") / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {} if request.param else {"opset_version": 17}
        torch.onnx.export(model, (torch.zeros(shape),), file, dynamo=request.param, **options)
    return costcore.estimate(model, shape), costcore.estimate(str(file), regroup=True)


@pytest.mark.parametrize("convention", BY_OPERATORS)
def test_an_export_counts_as_the_network(reports, convention):
    original, exported = (report.under(convention) for report in reports)
    size_arithmetic = 4 if convention == "torchprofile" else 0
    assert original.total > 0
    assert abs(original.total - exported.total) <= size_arithmetic


def test_products_of_an_export_that_is_not_regrouped_are_counted(tmp_path):
    model, shape = mlp()
    file = str(tmp_path / "model.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model.eval(), (torch.zeros(shape),), file, dynamo=False, opset_version=17)
    view = costcore.estimate(file).under("torch")
    assert view.total == 2 * 10 * (8 * 16 + 16 * 4)  # 10 rows through two matrices, 2 per multiply-add
    assert any("regroup=True" in note for note in view.notes)
