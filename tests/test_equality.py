"""The same network through PyTorch and through ONNX: the same integers, and where not, which operators differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from costcore import Report, estimate
from tests import frameworks

pytestmark = pytest.mark.frontend("pytorch", "onnx")

if not {"pytorch", "onnx"} - set(frameworks.available()):
    import torch
    from torch import Tensor, nn
    from torch.nn import functional

    from tests import networks_onnx, networks_pytorch

    class UNet(nn.Module):
        """What :func:`tests.networks_onnx.unet` writes out: unpadded convolutions, skips cropped by slicing."""

        def __init__(self, width: int = 16, depth: int = 2) -> None:
            super().__init__()
            sizes = [3, *(width << level for level in range(depth + 1))]
            self.down = nn.ModuleList(self.twice(*sizes[i : i + 2]) for i in range(depth))
            self.bottom = self.twice(*sizes[-2:])
            self.up = nn.ModuleList(nn.ConvTranspose2d(2 * n, n, 2, 2) for n in sizes[-2:0:-1])
            self.merge = nn.ModuleList(self.twice(2 * n, n) for n in sizes[-2:0:-1])
            self.head = nn.Conv2d(width, 2, 1)

        @staticmethod
        def twice(cin: int, cout: int) -> nn.Module:
            return nn.Sequential(nn.Conv2d(cin, cout, 3), nn.ReLU(), nn.Conv2d(cout, cout, 3), nn.ReLU())

        def forward(self, x: Tensor) -> Tensor:
            skips = []
            for block in self.down:
                x = block(x)
                skips.append(x)
                x = functional.max_pool2d(x, 2)
            x = self.bottom(x)
            for up, merge in zip(self.up, self.merge, strict=True):
                x, skip = up(x), skips.pop()
                x = merge(torch.cat([skip[:, :, : x.shape[2], : x.shape[3]], x], 1))
            return self.head(x)

    class Encoder(nn.Module):
        """What :func:`tests.networks_onnx.encoder` writes out: embedding, one block with norms after it."""

        def __init__(self, width: int = 16, heads: int = 4, inner: int = 64, vocabulary: int = 50) -> None:
            super().__init__()
            self.words = nn.Embedding(vocabulary, width)
            self.block = networks_pytorch.block(width, heads, inner, norm_first=False)

        def forward(self, x: Tensor) -> Tensor:
            return self.block(self.words(x))

    WORDS = torch.zeros(2, 8, dtype=torch.int64)


class Pair(NamedTuple):
    """One network in two frameworks."""

    module: Callable[[], Any]
    inputs: Any
    graph: Callable[[], Any]
    layout: dict[str, int]
    """How many more bytes ONNX moves by the operators that only rearrange, by operator."""


def pairs() -> dict[str, Pair]:
    image = (1, 3, 224, 224)
    resnet = networks_pytorch.NETWORKS["resnet50"].build
    mobile = networks_pytorch.NETWORKS["mobilenet_v2"].build
    # crops of 18 x 18 from 26 x 26 and of 28 x 28 from 60 x 60: views in PyTorch, read and written in ONNX
    crops = {"slice": 2 * 4 * (32 * 18**2 + 16 * 28**2)}
    return {
        "resnet50": Pair(resnet, image, networks_onnx.resnet50, {}),
        "mobilenet_v2": Pair(mobile, image, networks_onnx.mobilenet_v2, {}),
        "unet": Pair(UNet, (1, 3, 64, 64), networks_onnx.unet, crops),
    }


FIGURES = ("macs", "flops", "mread", "mwrite", "n_params", "n_params_model")


def both(pair: Pair, **settings: Any) -> tuple[Report, Report]:
    """The network through PyTorch and through ONNX."""
    module = networks_pytorch.without_data(pair.module)
    return estimate(module, pair.inputs, **settings), estimate(pair.graph(), **settings)


@pytest.mark.parametrize("fma_1flop", [True, False])
@pytest.mark.parametrize("name", ["resnet50", "mobilenet_v2", "unet"])
def test_the_same_operators_cost_the_same(name, fma_1flop):
    torch_report, onnx_report = both(pairs()[name], layout="free", fma_1flop=fma_1flop)
    assert not torch_report.ignored_layers
    assert not onnx_report.ignored_layers
    for figure in FIGURES:
        assert torch_report.total_report[figure] == onnx_report.total_report[figure] > 0


@pytest.mark.parametrize("name", ["resnet50", "mobilenet_v2", "unet"])
def test_frameworks_differ_by_what_they_move(name):
    pair = pairs()[name]
    torch_report, onnx_report = both(pair)
    assert bytes_of_layout(onnx_report) == pair.layout
    assert not bytes_of_layout(torch_report)
    difference = onnx_report.total_report["mrw"] - torch_report.total_report["mrw"]
    assert difference == sum(pair.layout.values())


def bytes_of_layout(report: Report) -> dict[str, int]:
    """The bytes that the operators move that only rearrange, by operator."""
    names = ("slice", "transpose", "copy", "split", "broadcast_to")
    return {op: entry["mrw"] for op, entry in report.by("op").items() if op in names and entry["mrw"]}


def encoders(**options: Any) -> tuple[Report, Report]:
    module = networks_pytorch.without_data(Encoder)
    return estimate(module, WORDS, layout="free"), estimate(networks_onnx.encoder(), layout="free", **options)


def test_an_encoder_has_the_same_products_and_parameters():
    torch_report, onnx_report = encoders()
    for figure in ("macs", "n_params", "n_params_model"):
        assert torch_report.total_report[figure] == onnx_report.total_report[figure] > 0
