"""Bytes and kernels after fusion, against TorchInductor's own scheduler, and the same from PyTorch and ONNX.

``tests/data/fusion_inductor.csv`` has the kernels and bytes of PyTorch 2.13's scheduler with default settings, but
without its pass that changes layouts: it scheduled for a described CUDA device (sm_90, 132 multiprocessors), from fake
tensors, and was stopped before code was generated. ``bytes`` are the sum of ``get_read_write_buffers_sizes``.
``bytes_adjusted`` counts of an embedding the rows that are looked up instead of the whole table. The networks of
``tests/data/fusion_more.csv``, which are in ``fused_networks.py``, were scheduled in the same way.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from costcore import Report, Tensor, estimate
from tests import frameworks
from tests.core.analyses.fusion.properties import check_groups, kernels, total

pytestmark = pytest.mark.frontend("pytorch", "onnx")

if not {"pytorch", "onnx"} - set(frameworks.available()):
    import torch
    from torch import nn
    from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM

    from tests.frontends.pytorch.transformers_differences import ANGLES_ARE_PRODUCTS
    from tests.whole_networks import fused_networks, onnx_models, pytorch_models
    from tests.whole_networks.exporters import HAS_NEWER, export, newer_operators
    from tests.whole_networks.pytorch_models import Branches, Residual, conv

DATA = Path(__file__).parents[1] / "data" / "fusion_inductor.csv"
IMAGE = (1, 3, 224, 224)
MOST_BYTES, MEDIAN_BYTES = 0.07, 0.015
"""The largest error of the bytes of a network, and of the median over all networks."""


MORE = {
    **dict.fromkeys(("unet", "vae", "moe", "wave", "gmlp", "reduced_attention", "talking_heads"), MOST_BYTES),
    **dict.fromkeys(
        ("two_group_norms", "group_norms", "einsum_attention", "half_norm", "pad_beside", "long_softmax"), 0.001
    ),
    **dict.fromkeys(("normed_image", "channels_last", "two_convs", "three_branches"), 0.001),
}
"""The largest error of the bytes of each network of the second table; the later ones do one thing each."""


def mlp() -> Any:
    layers = [nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10), nn.Softmax(-1)]
    return nn.Sequential(*layers)


def resnet18() -> Any:
    layers, channels = [conv(3, 64, 7, stride=2), nn.MaxPool2d(3, 2, 1)], 64
    for stage, width in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            body = nn.Sequential(conv(channels, width, 3, stride=stride), conv(width, width, 3, act=None))
            shortcut = conv(channels, width, act=None, stride=stride) if stride == 2 else None
            layers.append(Residual(body, shortcut, nn.ReLU()))
            channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


def vgg11() -> Any:
    layers: list[Any] = []
    channels = 3
    for width, depth in ((64, 1), (128, 1), (256, 2), (512, 2), (512, 2)):
        for _ in range(depth):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
            channels = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(7), nn.Flatten(), *classifier(25088, 4096))


def alexnet() -> Any:
    sizes = ((3, 64, 11, 4, 2), (64, 192, 5, 1, 2), (192, 384, 3, 1, 1), (384, 256, 3, 1, 1), (256, 256, 3, 1, 1))
    layers: list[Any] = []
    for i, (cin, cout, k, stride, padding) in enumerate(sizes):
        layers += [nn.Conv2d(cin, cout, k, stride, padding), nn.ReLU()]
        layers += [nn.MaxPool2d(3, 2)] if i in (0, 1, 4) else []
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(6), nn.Flatten(), *classifier(9216, 4096))


def classifier(fan_in: int, width: int) -> list[Any]:
    return [nn.Linear(fan_in, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1000)]


def squeezenet1_1() -> Any:
    def fire(cin: int, squeeze: int, expand: int) -> Any:
        wide = (nn.Sequential(nn.Conv2d(squeeze, expand, k, padding=k // 2), nn.ReLU()) for k in (1, 3))
        return nn.Sequential(nn.Conv2d(cin, squeeze, 1), nn.ReLU(), Branches(*wide))

    pool = (3, 2, 0, 1, False, True)  # with ceil_mode
    layers = [nn.Conv2d(3, 64, 3, 2), nn.ReLU(), nn.MaxPool2d(*pool), fire(64, 16, 64), fire(128, 16, 64)]
    layers += [nn.MaxPool2d(*pool), fire(128, 32, 128), fire(256, 32, 128), nn.MaxPool2d(*pool)]
    layers += [fire(256, 48, 192), fire(384, 48, 192), fire(384, 64, 256), fire(512, 64, 256)]
    return nn.Sequential(*layers, nn.Conv2d(512, 1000, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def bert() -> Any:
    sizes = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024}
    # With a padding token, transformers 4 looks whether the input has one, which is a branch that depends on data.
    return BertModel(BertConfig(**sizes, pad_token_id=None, attn_implementation="sdpa"))


def llama() -> Any:
    sizes = {"hidden_size": 512, "intermediate_size": 1376, "num_hidden_layers": 4, "num_attention_heads": 8}
    config = LlamaConfig(**sizes, num_key_value_heads=4, vocab_size=8000, attn_implementation="sdpa", use_cache=False)
    return LlamaForCausalLM(config)


def networks() -> dict[str, tuple[Callable[[], Any], Any]]:
    words = {"input_ids": Tensor((1, 128), "int64")}
    published = pytorch_models.NETWORKS
    return {
        "mlp": (mlp, (32, 784)),
        **{build.__name__: (build, IMAGE) for build in (resnet18, vgg11, alexnet, squeezenet1_1)},
        **{
            name: (published[name].build, IMAGE)
            for name in ("resnet50", "mobilenet_v2", "mobilenet_v3_large", "inception_v3")
        },
        "bert_4x256": (bert, words),
        **({} if ANGLES_ARE_PRODUCTS else {"llama_4x512": (llama, words)}),
    }


@pytest.fixture(scope="module")
def reports() -> dict[str, Report]:
    with torch.no_grad():
        return {
            name: estimate(pytorch_models.without_data(build), inputs) for name, (build, inputs) in networks().items()
        }


@pytest.fixture(scope="module")
def truth() -> dict[str, dict[str, int]]:
    with DATA.open(encoding="utf-8") as file:
        return {
            row["net"]: {key: int(row[key]) for key in ("kernels", "bytes_adjusted")} for row in csv.DictReader(file)
        }


def test_bytes_are_those_of_torchinductor(reports, truth):
    errors = {}
    for name, report in reports.items():
        fused = report.fused("pointwise").total_report["mrw"]
        errors[name] = abs(fused / truth[name]["bytes_adjusted"] - 1)
    assert max(errors.values()) <= MOST_BYTES, errors
    assert median(errors.values()) <= MEDIAN_BYTES, errors


@pytest.mark.parametrize("name", MORE)
def test_bytes_of_what_loops_do_not_share(name):
    """Long rows are read twice, operands copied, and element-wise results computed again."""
    build, shape = fused_networks.NETWORKS[name]
    with torch.no_grad():
        report = estimate(pytorch_models.without_data(build), shape)
    with (DATA.parent / "fusion_more.csv").open(encoding="utf-8") as file:
        expected = {row["net"]: int(row["bytes"]) for row in csv.DictReader(file)}[name]
    fused = [report.fused(level).total_report["mrw"] for level in ("pointwise", "compiler")]
    assert abs(fused[0] / expected - 1) <= MORE[name]
    assert fused == sorted(fused, reverse=True)
    check_groups(report.trace)


def test_kernels_are_those_of_torchinductor(reports, truth):
    found = {name: report.fused("pointwise").total_report["n_groups"] for name, report in reports.items()}
    expected = {name: truth[name]["kernels"] for name in found}
    far = {name: (n, expected[name]) for name, n in found.items() if abs(n - expected[name]) > max(3, 0.1 * n)}
    assert not far


def test_what_holds_for_every_run(reports):
    for report in reports.values():
        groups = check_groups(report.trace)
        assert kernels(groups["compiler"]) <= kernels(groups["pointwise"]) <= kernels(groups["none"])
        assert total(groups["pointwise"]) == report.fused("pointwise").total_report["mrw"]


def test_a_training_step():
    """The forward pass keeps what the backward pass reads, and is not fused with it."""
    net = nn.Sequential(conv(3, 8, 3), Residual(conv(8, 8, 3), act=nn.GELU()), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    report = estimate(net.train(), (2, 3, 16, 16), backward=True, optimizer="adamw")
    groups = check_groups(report.trace)["compiler"]
    phases = [{report.calls[i].phase for i in group.calls} for group in groups]
    assert all(len(each) == 1 for each in phases)
    assert {phase for each in phases for phase in each} == {"forward", "backward", "optimizer"}


def test_memory_that_is_written_under_another_name():
    """A row of a buffer is written in place; nobody can fuse the buffer's first value with what reads it later.

    zeros writes 16 elements; exp reads and writes 8, as does the copy; the product reads the buffer and writes 16.
    """

    class Buffered(nn.Module):
        def forward(self, x: Any) -> Any:
            rows = torch.zeros(2, 8)
            rows[0] = x.exp()
            return rows * 2

    report = estimate(Buffered(), (8,))
    groups = [group for group in check_groups(report.trace)["pointwise"] if group.read or group.written]
    first, between, last = groups[0], groups[1:-1], groups[-1]
    assert (first.read, first.written) == (0, 4 * 16)
    assert sum(group.read + group.written for group in between) == 4 * (16 + 16)  # exp, and the copy by itself
    assert (last.read, last.written) == (4 * 16, 4 * 16)


def test_symbolic_sizes():
    """Bytes after fusion are expressions too; substituted, they are those of the numbers."""
    net = nn.Sequential(conv(3, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4), nn.Softmax(-1)).eval()
    symbolic = estimate(export(net, (torch.zeros(2, 3, 16, 16),), "older", 17, batch="batch"))
    fixed = symbolic.subs(batch=2)
    for level in ("pointwise", "compiler"):
        fused = symbolic.fused(level)
        assert fused.report.subs(batch=2).total_report == fixed.fused(level).report.total_report
        assert fused.subs(batch=2).total_report == fixed.fused(level).total_report
        assert check_groups(fixed.trace)


BY_HAND = ("resnet50", "mobilenet_v2")
"""The networks that ``onnx_models`` has too."""


def plain_networks() -> dict[str, tuple[Any, Any, Any]]:
    """Module, inputs, and the model file: graphs written by hand, and exports."""
    mixed = nn.Sequential(
        nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), Residual(nn.Linear(16, 16), act=nn.Softmax(-1))
    )
    perceptron = mlp()
    has_gelu = HAS_NEWER and "Gelu" in newer_operators(20, nn.GELU)  # otherwise, several operators are in its place
    newer = export(mixed.eval(), (torch.zeros(4, 8),), "newer", 20) if has_gelu else b""
    modules = {name: pytorch_models.without_data(pytorch_models.NETWORKS[name].build) for name in BY_HAND}
    return {
        **{name: (module, IMAGE, getattr(onnx_models, name)()) for name, module in modules.items()},
        "unet": (pytorch_models.without_data(pytorch_models.UNet), (1, 3, 64, 64), onnx_models.unet()),
        "mlp": (perceptron, (32, 784), export(perceptron.eval(), (torch.zeros(32, 784),), "older", 17)),
        **({"norms": (mixed.eval(), (4, 8), newer)} if newer else {}),
    }


def test_pytorch_and_onnx_have_the_same_groups():
    for name, (module, shape, model) in plain_networks().items():
        reports = [estimate(module, shape, layout="free"), estimate(model, layout="free")]
        for level in ("pointwise", "compiler"):
            first, second = ([content(report, group) for group in work(report, level)] for report in reports)
            assert first == second, f"{name}, {level}"


def work(report: Report, level: str) -> list[Any]:
    """The groups that read or write anything."""
    return [group for group in check_groups(report.trace)[level] if group.read or group.written]


def content(report: Report, group: Any) -> tuple[int, int, int]:
    """The number of calls of a group that write anything, and its bytes."""
    records = [report.trace.records[i] for i in group.calls]
    n_calls = sum(1 for _, cost, *_ in records if cost is not None and cost.mwrite)
    return n_calls, group.read, group.written
