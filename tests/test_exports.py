"""Networks written by PyTorch's own exporters cost what they cost in PyTorch."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from costcore import Report, estimate
from tests import frameworks

pytestmark = pytest.mark.frontend("pytorch", "onnx")

if not {"pytorch", "onnx"} - set(frameworks.available()):
    import torch
    from torch import nn
    from torch.nn import functional

    from tests import networks_pytorch
    from tests.networks_pytorch import Attention, Bert, Residual, ViT, conv
    from tests.test_equality import Encoder, UNet

    class Masked(nn.Module):
        """Self-attention that is causal, or masked by bools or floats."""

        def __init__(self, mask: str) -> None:
            super().__init__()
            self.mask, self.project = mask, nn.Linear(16, 48)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            n, t, width = x.shape
            q, k, v = self.project(x).view(n, t, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
            mask = None if self.mask == "causal" else x[:, None, None, :, 0]
            mask = mask > 0 if self.mask == "bool" else mask
            return functional.scaled_dot_product_attention(q, k, v, mask, is_causal=self.mask == "causal")

    def small_resnet() -> nn.Module:
        def bottleneck(cin: int, width: int, stride: int) -> nn.Module:
            steps = conv(cin, width), conv(width, width, 3, stride=stride), conv(width, 4 * width, act=None)
            return Residual(nn.Sequential(*steps), conv(cin, 4 * width, act=None, stride=stride), nn.ReLU())

        body = conv(3, 8, 7, stride=2), nn.MaxPool2d(3, 2, 1), bottleneck(8, 8, 1), bottleneck(32, 16, 2)
        return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))

    def activations() -> nn.Module:
        """What has no operator of its own in older versions."""
        parts = nn.GELU(), nn.GELU("tanh"), nn.SiLU(), nn.GroupNorm(4, 8), nn.Hardswish(), nn.Hardsigmoid(), nn.ELU()
        return nn.Sequential(nn.Conv2d(3, 8, 3), *parts)

    IMAGE, WORDS, ROWS = torch.zeros(2, 3, 32, 32), torch.zeros(2, 16, dtype=torch.int64), torch.zeros(2, 16, 16)
    NETWORKS: dict[str, tuple[Callable[[], nn.Module], Any]] = {
        "resnet": (small_resnet, IMAGE),
        "mobilenet_v2": (networks_pytorch.NETWORKS["mobilenet_v2"].build, IMAGE),
        "mobilenet_v3": (networks_pytorch.NETWORKS["mobilenet_v3_large"].build, IMAGE),
        "unet": (lambda: UNet(4), torch.zeros(1, 3, 64, 64)),
        "activations": (activations, IMAGE),
        "vit": (lambda: ViT(32, 8, 32, 2, 4), IMAGE),
        "bert": (Bert, WORDS),
        "encoder": (Encoder, WORDS),
        "attention": (lambda: Attention(16, 4), ROWS),
        "causal": (lambda: Masked("causal"), ROWS),
        "bool mask": (lambda: Masked("bool"), ROWS),
        "float mask": (lambda: Masked("float"), ROWS),
        "layer norm": (lambda: nn.Sequential(nn.LayerNorm(16), nn.LayerNorm((16, 16))), ROWS),
    }

EXPORTERS = ("older", "newer")
"""The older one is built into torch, the newer one writes with onnxscript."""

FIGURES = ("macs", "flops", "mread", "mwrite")


@cache
def network(name: str) -> Any:
    """The network with weights that all differ: the older exporter stores equal ones once."""
    torch.manual_seed(0)
    module = NETWORKS[name][0]().eval()
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.is_floating_point():
            tensor.data.uniform_(0.1, 1)
    return module


@cache
def exported(name: str, exporter: str, opset: int, batch: str = "", folded: bool = False) -> bytes:
    """The network as a serialised model."""
    x, out = NETWORKS[name][1], io.BytesIO()
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # exporters warn of themselves
        if exporter == "older":
            axes = {"x": {0: batch}} if batch else None
            options: dict[str, Any] = {"input_names": ["x"], "dynamic_axes": axes, "do_constant_folding": folded}
            torch.onnx.export(network(name), (x,), out, dynamo=False, opset_version=opset, **options)
            return out.getvalue()
        shapes = ({0: torch.export.Dim(batch)},) if batch else None
        options = {"dynamic_shapes": shapes, "optimize": folded, "verbose": False}
        program = torch.onnx.export(network(name), (x,), dynamo=True, opset_version=opset, **options)
        content: bytes = program.model_proto.SerializeToString()
        return content


def both(name: str, model: bytes, **options: Any) -> tuple[Report, Report]:
    return estimate(network(name), NETWORKS[name][1], layout="free"), estimate(model, layout="free", **options)


def figures(report: Report, *names: str) -> dict[str, Any]:
    return {name: report.total_report[name] for name in names}


def cases() -> list[tuple[str, str, int]]:
    """Every network by every exporter, with operators of an old and of a new version."""
    if {"pytorch", "onnx"} - set(frameworks.available()):
        return []
    versions = {"older": (16, 20), "newer": (18, 20)}
    return [(name, exporter, opset) for name in NETWORKS for exporter in EXPORTERS for opset in versions[exporter]]


each = pytest.mark.parametrize(("name", "exporter", "opset"), cases())


@each
def test_products_and_parameters_are_the_same_as_written(name, exporter, opset):
    torch_report, onnx_report = both(name, exported(name, exporter, opset))
    names = ("macs", "n_params", "n_params_model")
    if (name, exporter) == ("activations", "older"):  # its norm has ones and zeros of its own, one of each a group
        assert onnx_report.total_report["n_params"] == torch_report.total_report["n_params"] + 2 * 4
        names = ("macs",)
    assert figures(torch_report, *names) == figures(onnx_report, *names)
    assert not onnx_report.ignored_layers


@each
def test_operations_and_bytes_are_the_same_regrouped(name, exporter, opset):
    torch_report, onnx_report = both(name, exported(name, exporter, opset), regroup=True)
    assert differing(torch_report, onnx_report) == EXCEPTIONS.get((name, exporter), {})
    names = ("macs", "n_params", "n_params_model")
    assert figures(torch_report, *names) == figures(onnx_report, *names)


def differing(first: Report, second: Report) -> dict[str, int]:
    """The figures that differ."""
    differences = {name: second.total_report[name] - first.total_report[name] for name in FIGURES}
    return {name: difference for name, difference in differences.items() if difference != 0}


EXCEPTIONS = {
    ("bert", exporter): {"mwrite": -8 * 16}  # the positions 0 .. 15 are written in the file
    for exporter in EXPORTERS
}


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("name", ["resnet", "vit", "bert", "causal"])
def test_a_symbolic_batch_gives_the_same(name, exporter):
    model = exported(name, exporter, 18, "batch")
    torch_report, onnx_report = both(name, model, regroup=True)
    assert {str(symbol) for symbol in onnx_report.total_report["flops"].free_symbols} == {"batch"}
    expected = EXCEPTIONS.get((name, exporter), {}) if exporter == "newer" else {}
    assert differing(torch_report, onnx_report.subs(batch=2)) == expected
    assert differing(torch_report, estimate(model, layout="free", regroup=True, dims={"batch": 2})) == expected


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_folding_takes_norms_into_convolutions_and_nothing_else(exporter):
    torch_report, onnx_report = both("mobilenet_v2", exported("mobilenet_v2", exporter, 18, folded=True), regroup=True)
    norms = [call.layer for call in torch_report.calls if call.layer.op == "batch_norm"]
    features, channels = sum(norm["x"].size for norm in norms), sum(norm["w"].size for norm in norms)
    assert len(norms) == 52
    # a norm reads and writes its input and reads two vectors; its convolution reads a bias instead
    assert differing(torch_report, onnx_report) == {
        "flops": -features,
        "mread": -4 * (features + 2 * channels) + 4 * channels,
        "mwrite": -4 * features,
    }
    assert onnx_report.total_report["n_params"] == torch_report.total_report["n_params"] - channels
