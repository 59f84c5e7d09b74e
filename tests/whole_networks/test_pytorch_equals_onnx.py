"""The same network in PyTorch and in ONNX: equal costs, or a difference that is located by operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from costcore import Report, estimate
from tests import frameworks

pytestmark = pytest.mark.frontend("pytorch", "onnx")

if not {"pytorch", "onnx"} - set(frameworks.available()):
    import torch

    from tests.whole_networks import onnx_models, pytorch_models
    from tests.whole_networks.pytorch_models import Encoder, UNet

    WORDS = torch.zeros(2, 8, dtype=torch.int64)


class Pair(NamedTuple):
    """One network in two frameworks."""

    module: Callable[[], Any]
    inputs: Any
    graph: Callable[[], Any]
    layout: dict[str, int]
    """How many more bytes ONNX moves in data-movement operators, by operator."""


def pairs() -> dict[str, Pair]:
    image = (1, 3, 224, 224)
    resnet = pytorch_models.NETWORKS["resnet50"].build
    mobile = pytorch_models.NETWORKS["mobilenet_v2"].build
    # crops of 18 x 18 from 26 x 26 and of 28 x 28 from 60 x 60: views in PyTorch, read and written in ONNX
    crops = {"slice": 2 * 4 * (32 * 18**2 + 16 * 28**2)}
    return {
        "resnet50": Pair(resnet, image, onnx_models.resnet50, {}),
        "mobilenet_v2": Pair(mobile, image, onnx_models.mobilenet_v2, {}),
        "unet": Pair(UNet, (1, 3, 64, 64), onnx_models.unet, crops),
    }


TOTALS = ("macs", "flops", "mread", "mwrite", "n_params", "n_params_model")


def both(pair: Pair, **settings: Any) -> tuple[Report, Report]:
    """Return the reports of the network in PyTorch and in ONNX."""
    module = pytorch_models.without_data(pair.module)
    return estimate(module, pair.inputs, **settings), estimate(pair.graph(), **settings)


@pytest.mark.parametrize("fma_1flop", [True, False])
@pytest.mark.parametrize("name", ["resnet50", "mobilenet_v2", "unet"])
def test_without_data_movement_the_costs_are_equal(name, fma_1flop):
    torch_report, onnx_report = both(pairs()[name], layout="free", fma_1flop=fma_1flop)
    assert not torch_report.ignored_layers
    assert not onnx_report.ignored_layers
    for total in TOTALS:
        assert torch_report.total_report[total] == onnx_report.total_report[total] > 0


@pytest.mark.parametrize("name", ["resnet50", "mobilenet_v2", "unet"])
def test_frameworks_differ_in_data_movement(name):
    pair = pairs()[name]
    torch_report, onnx_report = both(pair)
    assert bytes_of_layout(onnx_report) == pair.layout
    assert not bytes_of_layout(torch_report)
    difference = onnx_report.total_report["mrw"] - torch_report.total_report["mrw"]
    assert difference == sum(pair.layout.values())


def bytes_of_layout(report: Report) -> dict[str, int]:
    """Return the bytes that data-movement operators move, by operator."""
    names = ("slice", "transpose", "copy", "split", "broadcast_to")
    return {op: entry["mrw"] for op, entry in report.by("op").items() if op in names and entry["mrw"]}


def encoders(**options: Any) -> tuple[Report, Report]:
    module = pytorch_models.without_data(Encoder)
    return estimate(module, WORDS, layout="free"), estimate(onnx_models.encoder(), layout="free", **options)


def test_an_encoder_has_equal_products_and_parameters():
    torch_report, onnx_report = encoders()
    for total in ("macs", "n_params", "n_params_model"):
        assert torch_report.total_report[total] == onnx_report.total_report[total] > 0
