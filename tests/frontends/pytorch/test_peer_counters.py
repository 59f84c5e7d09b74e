"""The published test cases of other counters (tests/data/peer_cases_pytorch.csv): our macs, and their figure from ours.

``convert`` says how their convention makes their figure of our macs m, our FLOPs f with FMA = 2 and what stands in the
case; None where it counts norms or biases in ways of its own.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from costcore.ir import Operations
from tests.frontends.pytorch.runs import macs, record
from tests.registered import cost
from tests.whole_networks.pytorch_models import NETWORKS, Residual, conv, without_data

with (Path(__file__).parents[2] / "data" / "peer_cases_pytorch.csv").open(encoding="utf-8", newline="") as file:
    ROWS = list(csv.DictReader(file))


class Peer(NamedTuple):
    """A case: what runs, the other counter's result from our MACs m and FLOPs f, and the phase it counts."""

    run: Callable[[], object]
    convert: Callable[[int, int], int] | None = lambda m, f: m
    phase: str | None = None


def meta(*shape: int, **settings: Any) -> Tensor:
    return torch.ones(shape, device="meta", **settings)


def layer(make: Callable[[], nn.Module], *shape: int, training: bool = True) -> Callable[[], object]:
    module, x = without_data(make).train(training), meta(*shape)
    return lambda: module(x)


def product(*shapes: tuple[int, ...], function: Callable[..., object] = torch.matmul) -> Callable[[], object]:
    return lambda: function(*(meta(*shape) for shape in shapes))


def forward_and_backward(function: Callable[..., Tensor], *shapes: tuple[int, ...], **settings: Any):
    def run() -> None:
        y = function(*(meta(*shape, requires_grad=True, **settings) for shape in shapes))
        y.backward(torch.ones_like(y))

    return run


def resnet18() -> nn.Module:
    stages = []
    for cin, cout, stride in ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)):
        shortcut = conv(cin, cout, 1, None, stride=stride) if stride > 1 else None
        first = nn.Sequential(conv(cin, cout, 3, stride=stride), conv(cout, cout, 3, None))
        second = nn.Sequential(conv(cout, cout, 3), conv(cout, cout, 3, None))
        stages += [Residual(first, shortcut, nn.ReLU()), Residual(second, None, nn.ReLU())]
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))
    return nn.Sequential(conv(3, 64, 7, stride=2), nn.MaxPool2d(3, 2, 1), *stages, *head)


def trained(make: Callable[[], nn.Module], *shape: int) -> Callable[[], object]:
    module = without_data(make)
    return forward_and_backward(module, shape)


def transposed(stride: int, padding: int, output_padding: int, groups: int) -> Callable[[], object]:
    return layer(lambda: nn.ConvTranspose2d(4, 8, 3, stride, padding, output_padding, groups), 2, 4, 8, 8)


def several_products() -> None:
    torch.mm(meta(4, 5), meta(5, 6))
    torch.addmm(meta(4, 6), meta(4, 5), meta(5, 6))
    torch.matmul(meta(5, 6), meta(6, 7))
    torch.einsum("ab,bc->ac", meta(6, 7), meta(7, 8))
    nn.Linear(9, 10, device="meta")(meta(8, 9))


def squared(a: Tensor) -> Tensor:
    return a.mm(a.t())


def twice() -> None:
    for _ in range(2):
        forward_and_backward(squared, (4, 5))()


def parted() -> None:
    shared = nn.Linear(100, 100, bias=False, device="meta")
    x = meta(1, 300)
    for i in range(3):
        shared(x[:, 100 * i : 100 * i + 100])


def lenet() -> nn.Module:
    convolutions = (nn.Conv2d(1, 6, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2))
    last = (nn.Conv2d(16, 120, 5), nn.Tanh(), nn.Flatten(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10))
    return nn.Sequential(*convolutions, *last)


def three_net() -> nn.Module:
    pooled = (nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten())
    return nn.Sequential(nn.Conv2d(2, 5, 1), *pooled, nn.Linear(5, 3), nn.Linear(3, 1))


def three_convolutions() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 1), nn.Conv2d(8, 4, 1, stride=2), nn.Conv2d(4, 2, 1, stride=2))


def lstm() -> object:
    return nn.LSTM(300, 512, 2, batch_first=True, device="meta")(meta(1, 100, 300))


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def batch_norm(training: bool) -> Callable[[], object]:
    return layer(lambda: nn.BatchNorm2d(2), 2, 2, 2, 2, training=training)


Q, K = (4, 8, 128, 64), (4, 8, 256, 64)


def doubled(m: int, f: int) -> int:
    return 2 * m


def with_bias(y: int) -> Callable[[int, int], int]:
    """Add one multiply-add per output element."""
    return lambda m, f: m + y


def twice_with_bias(y: int) -> Callable[[int, int], int]:
    return lambda m, f: 2 * m + y


def flops(m: int, f: int) -> int:
    return f


PEERS = (
    # fvcore
    Peer(layer(lambda: nn.Linear(8, 4), 5, 8)),
    Peer(layer(lambda: nn.Linear(10, 20), 5, 5, 10)),
    Peer(layer(lambda: nn.Conv2d(10, 6, 3, 2, 1), 2, 10, 20, 20)),
    Peer(layer(lambda: nn.Conv2d(16, 8, 3, 1, 1, groups=8), 5, 16, 15, 15)),
    Peer(layer(lambda: nn.Conv3d(10, 3, 3, 1, 1), 5, 10, 15, 15, 15)),
    Peer(layer(lambda: nn.ConvTranspose2d(10, 3, 3, 2, 1), 5, 10, 15, 15)),
    Peer(product((20, 10), (10, 100))),
    Peer(product((2, 2, 20, 10), (2, 2, 10, 100))),
    Peer(product((2, 20, 10), (10, 100))),
    Peer(lambda: torch.einsum("nct,ncp->ntp", meta(1, 5, 2), meta(1, 5, 12))),
    Peer(lambda: torch.einsum("nc,nchw->hw", meta(3, 4), meta(3, 4, 2, 3))),
    Peer(product((3, 4), (4, 5), function=torch.mm)),
    Peer(layer(lambda: nn.BatchNorm2d(10, affine=False), 10, 10, 5, 5), None),
    Peer(batch_norm(training=False), flops),
    Peer(batch_norm(training=True), None),
    Peer(layer(lambda: nn.GroupNorm(2, 2, affine=False), 2, 2, 2, 2), None),
    Peer(layer(three_net, 4, 2, 10, 10), lambda m, f: m + 4 * 5 * 100),  # 1 per input element of the pooling
    Peer(layer(three_convolutions, 1, 3, 32, 32), None),
    # FlopCounterMode
    Peer(several_products, doubled),
    Peer(product((3, 4, 5), (3, 5, 6), function=torch.bmm), doubled),
    Peer(product((3, 4, 6), (3, 4, 5), (3, 5, 6), function=torch.baddbmm), doubled),
    Peer(lambda: functional.conv1d(meta(2, 3, 6), meta(6, 3, 4), padding=1), doubled),
    Peer(twice, doubled),
    Peer(product((1, 1, 2, 2), (1, 1, 2, 2), function=functional.conv_transpose2d), doubled),
    Peer(trained(resnet18, 1, 3, 224, 224), doubled),
    Peer(
        trained(lambda: nn.Sequential(*[nn.Conv2d(64, 64, 3, padding=1, bias=False) for _ in range(4)]), 1, 64, 56, 56),
        doubled,
        "backward",
    ),
    Peer(lambda: attention(*[meta(*Q, dtype=torch.float16)] * 3), doubled),
    # the score product is computed again inside of the kernel: 7 products in place of 6
    Peer(forward_and_backward(attention, Q, Q, Q, dtype=torch.float16), lambda m, f: 2 * m * 7 // 6),
    Peer(forward_and_backward(functional.scaled_dot_product_attention, Q, K, K, dtype=torch.float16), doubled),
    Peer(lambda: torch.mm(meta(10, 10), meta(10, 10), out=meta(10, 10)), doubled),
    Peer(forward_and_backward(torch.mm, (10, 10), (10, 10)), doubled),
    # DeepSpeed
    Peer(lambda: functional.scaled_dot_product_attention(*[meta(2, 4, 16, 8)] * 3), doubled),
    Peer(transposed(1, 0, 0, 1), twice_with_bias(2 * 8 * 10 * 10)),
    Peer(transposed(2, 1, 1, 1), twice_with_bias(2 * 8 * 16 * 16)),
    Peer(transposed(1, 0, 0, 2), twice_with_bias(2 * 8 * 10 * 10)),
    Peer(transposed(2, 1, 1, 2), twice_with_bias(2 * 8 * 16 * 16)),
    Peer(transposed(1, 0, 0, 4), twice_with_bias(2 * 8 * 10 * 10)),
    Peer(transposed(2, 1, 1, 4), twice_with_bias(2 * 8 * 16 * 16)),
    Peer(layer(lambda: nn.Linear(8, 16, bias=False), 4, 8), doubled),
    Peer(product((4, 8), (8,))),
    Peer(product((4, 8), (8, 5))),
    Peer(product((2, 1, 4, 8), (3, 8, 5))),
    Peer(product((1, 1, 5), (2, 4, 8), (2, 8, 5), function=torch.baddbmm), twice_with_bias(2 * 4 * 5)),
    Peer(product((8,), (2, 8), function=torch.mul), flops),
    Peer(parted),
    Peer(layer(lenet, 1024, 1, 32, 32)),
    # ptflops
    Peer(layer(lambda: nn.Conv2d(3, 2, 3), 1, 3, 224, 224), with_bias(2 * 222 * 222)),
    Peer(layer(lambda: nn.Linear(3, 2), 3), with_bias(2)),
    Peer(
        lambda: functional.interpolate(meta(1, 3, 10, 10), scale_factor=2, mode="bilinear"),
        lambda m, f: f // 9,  # 1 per output element, where the definition has 9
    ),
    # thop
    Peer(layer(lambda: nn.Conv2d(3, 12, 5, padding=1), 1, 3, 32, 32)),
    Peer(layer(nn.ReLU, 1, 100)),
    # torchinfo
    Peer(layer(lambda: nn.Conv2d(16, 32, 3, groups=4), 7, 16, 28, 28), with_bias(7 * 32 * 26 * 26)),
    Peer(layer(lambda: nn.Conv1d(1, 1, 3, padding=1), 1, 1, 16), with_bias(16)),
    Peer(lstm, with_bias(100 * 2 * 2 * 4 * 512)),
    Peer(layer(lambda: nn.Conv2d(1, 10, 5), 7, 1, 28, 28), with_bias(7 * 10 * 24 * 24)),
    Peer(layer(lambda: nn.Linear(320, 50), 7, 320), with_bias(7 * 50)),
    Peer(layer(NETWORKS["resnet50"].build, 2, 3, 224, 224), lambda m, f: round(m, -7)),
    # torch-scan
    Peer(layer(lambda: nn.Linear(8, 4, bias=False), 1, 8), flops),
    Peer(layer(lambda: nn.Conv2d(3, 8, 3), 1, 3, 32, 32), flops),
    # every window read anew, the parameters, the output
    Peer(layer(lambda: nn.Conv2d(3, 8, 3), 1, 3, 32, 32), lambda m, f: m + (8 * 27 + 8) + 8 * 30 * 30),
    # positions of the output, 34 x 34, in place of those of the input
    Peer(layer(lambda: nn.ConvTranspose2d(3, 8, 3), 1, 3, 32, 32), lambda m, f: m * 34 * 34 // (32 * 32) + 8),
    Peer(layer(nn.Sigmoid, 1, 8), flops),
    Peer(layer(lambda: nn.MaxPool2d(2), 1, 8, 4, 4), flops),
    Peer(layer(lambda: nn.LayerNorm(4), 2, 3, 4), None),
    Peer(layer(lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 1, 3, 4, training=False), None),
)


def total_flops(calls: list[Any]) -> int:
    """FLOPs of all calls with FMA = 2."""
    total = 0
    for call in calls:
        operations = cost(call).flops
        assert isinstance(operations, Operations)
        total += operations.flops(fma_1flop=False)
    return total


def test_every_row_has_a_case():
    assert len(PEERS) == len(ROWS)


@pytest.mark.parametrize(
    ("peer", "row"), [*zip(PEERS, ROWS, strict=True)], ids=[f"{row['tool']} {row['case']} {row['op']}" for row in ROWS]
)
def test_case(peer, row):
    recorder = record(peer.run)
    calls = [call for call in recorder.calls if peer.phase in (None, call.phase)]
    counted = macs(calls)
    if row["pure_macs"]:
        assert counted == int(row["pure_macs"])
    if peer.convert is not None:
        assert peer.convert(counted, total_flops(calls)) == int(float(row["expected"]))


def test_activations_are_the_outputs_of_products():
    """fvcore, test_activation_count.py: 8 * 32 * 32 + 4 * 16 * 16 + 2 * 8 * 8."""
    row = next(row for row in ROWS if row["metric"].startswith("activations"))
    recorder = record(PEERS[ROWS.index(row)].run)
    assert sum(call.layer.out.size for call in recorder.calls) == int(row["expected"])


def test_a_transformer_layer_by_hand():
    """3 positions of 4 features: projections 3*4*12 + 3*16, scores and sums 2*3*3*4, perceptron 2*3*32."""
    recorder = record(PEERS[-1].run)
    assert macs(recorder.calls) == 144 + 48 + 72 + 192
