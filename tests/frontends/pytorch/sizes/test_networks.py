"""Formulas in sizes of whole networks, against closed forms and against estimates at integer sizes."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import pytest
import torch
from torch import nn

from costcore import CostError, CostWarning, Report, estimate
from tests.frontends.pytorch.sizes.points import sized

COLUMNS = ("macs", "flops", "mread", "mwrite", "n_params")


def equal_at(
    report: Report,
    net: nn.Module,
    inputs: Any,
    ranges: dict[str, tuple[int, int]],
    by_call: bool = True,
    **options: Any,
) -> None:
    """Compare all columns and the operations by kind of all calls with those of estimates at three random points."""
    random = Random(7)
    for _ in range(3):
        point = {name: random.randint(*limits) for name, limits in ranges.items()}
        at_point = estimate(net, sized(inputs, point), **options)
        substituted = report.subs(point)
        assert [substituted.total_report[key] for key in COLUMNS] == [at_point.total_report[key] for key in COLUMNS]
        if not by_call:  # calls of a loop are one
            continue
        priced = [entry["operations"] for entry in at_point.layer_report.values() if entry["mrw"]]
        formulas = [entry["operations"] for entry in substituted.layer_report.values() if entry["mrw"]]
        assert formulas == priced


class UNet(nn.Module):
    """Two levels; the sizes of images must be multiples of 4."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1)])
        self.middle = nn.Conv2d(8, 16, 3, padding=1)
        self.up = nn.ModuleList([nn.ConvTranspose2d(16, 8, 2, 2), nn.ConvTranspose2d(8, 4, 2, 2)])
        self.out = nn.ModuleList([nn.Conv2d(16, 8, 1), nn.Conv2d(8, 4, 1)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skipped = []
        for conv in self.down:
            x = conv(x).relu()
            skipped.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = self.middle(x)
        for up, out in zip(self.up, self.out, strict=True):
            x = out(torch.cat([up(x), skipped.pop()], 1))
        return x


class Patches(nn.Module):
    """A vision transformer of one block, with a class token and interpolated positions."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 8, 16, 16)
        self.token = nn.Parameter(torch.zeros(1, 1, 8))
        self.positions = nn.Parameter(torch.zeros(1, 8, 14, 14))
        self.block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        x = x + nn.functional.interpolate(self.positions, x.shape[2:], mode="bicubic")
        x = torch.cat([self.token.expand(len(x), -1, -1), x.flatten(2).mT], 1)
        return self.block(x)


class Decoder(nn.Module):
    """One block of causal attention with grouped keys, and a gated perceptron."""

    def __init__(self, words: int = 50, width: int = 16, heads: int = 4, groups: int = 2) -> None:
        super().__init__()
        self.words, self.norm = nn.Embedding(words, width), nn.RMSNorm(width)
        self.q, self.o = nn.Linear(width, width), nn.Linear(width, width)
        self.kv = nn.Linear(width, 2 * groups * (width // heads))
        self.gate, self.up, self.down = nn.Linear(width, 40), nn.Linear(width, 40), nn.Linear(40, width)
        self.head = nn.Linear(width, words, bias=False)
        self.heads, self.groups = heads, groups

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids)
        n, t, width = x.shape
        q = self.q(self.norm(x)).view(n, t, self.heads, -1).transpose(1, 2)
        k, v = self.kv(x).view(n, t, 2, self.groups, -1).permute(2, 0, 3, 1, 4)
        k, v = (each.repeat_interleave(self.heads // self.groups, 1) for each in (k, v))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(mixed.transpose(1, 2).reshape(n, t, width))
        return self.head(x + self.down(nn.functional.silu(self.gate(x)) * self.up(x)))


def resized() -> nn.Sequential:
    return nn.Sequential(nn.Upsample(scale_factor=1.5), nn.Conv2d(3, 4, 3, padding=1), nn.Upsample(scale_factor=0.5))


def strided() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 4, 7, 2, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(3, 2, 1), nn.Conv2d(4, 8, 3, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2),
    )  # fmt: skip


IDS = {"ids": (("batch", "seq"), torch.int64)}
IMAGE = ("batch", 3, "height", "width")
NETWORKS = {
    "strided": (strided, IMAGE, {"batch": (1, 9), "height": (64, 400), "width": (64, 400)}),
    "one size": (strided, ("batch", 3, "size", "size"), {"batch": (1, 9), "size": (64, 400)}),
    "resized": (resized, IMAGE, {"batch": (1, 9), "height": (64, 400), "width": (64, 400)}),
    "u-net": (UNet, ("batch", 3, "4*h", "4*w"), {"batch": (1, 9), "h": (16, 90), "w": (16, 90)}),
    "patches": (Patches, IMAGE, {"batch": (2, 9), "height": (64, 400), "width": (64, 400)}),
    "decoder": (Decoder, IDS, {"batch": (1, 9), "seq": (2, 900)}),
    "lstm": (lambda: nn.LSTM(8, 16, 2), ("seq", "batch", 8), {"batch": (1, 9), "seq": (2, 90)}),
}


@cache
def counted(name: str) -> tuple[nn.Module, Report]:
    """Return a network and its report."""
    make, inputs, _ = NETWORKS[name]
    net = make().eval()
    return net, estimate(net, inputs)


@pytest.mark.parametrize("name", NETWORKS)
def test_formulas_equal_estimates(name):
    _, inputs, ranges = NETWORKS[name]
    net, report = counted(name)
    assert report.status == "complete"
    equal_at(report, net, inputs, ranges)


@pytest.mark.parametrize("is_batch_first", [True, False])
@pytest.mark.parametrize("cell", [nn.GRU, nn.LSTM])
def test_backward_passes_of_recurrent_layers(cell, is_batch_first):
    """PyTorch runs a loop over the sequence, which is folded."""
    net = cell(8, 16, batch_first=is_batch_first)
    inputs = ("batch", "seq", 8) if is_batch_first else ("seq", "batch", 8)
    report = estimate(net, inputs, backward=True)
    low, _ = report.trace.run.ranges["seq"]
    equal_at(report, net, inputs, {"batch": (2, 9), "seq": (low, 40)}, by_call=False, backward=True)


@pytest.mark.parametrize("name", ["decoder", "u-net"])
def test_formulas_of_training_steps_equal_estimates(name):
    make, inputs, ranges = NETWORKS[name]
    net, options = make(), {"backward": True, "optimizer": "adamw"}
    equal_at(estimate(net, inputs, **options), net, inputs, {**ranges, "batch": (2, 9)}, **options)


def test_macs_are_closed_forms():
    # 7 x 7 x 3 x 4 at half the size, rounded up; 3 x 3 x 4 x 8 at the size of the pooled map, ⌈n/4⌉, without padding:
    # ⌊(⌈n/4⌉ - 3) / 2⌋ + 1 = ⌊(⌈n/4⌉ - 1) / 2⌋ = ⌊(n + 3 - 4) / 8⌋; then 8 x 2.
    macs = counted("strided")[1].total_report["macs"]
    assert str(macs) == (
        "288*batch*floor(height/8 - 1/8)*floor(width/8 - 1/8) + 588*batch*floor(height/2 + 1/2)*floor(width/2 + 1/2) + "
        "16*batch"
    )
    # Per token 16 x 16 (q and o, twice), 16 x 16 (k and v), 3 x 16 x 40, and 16 x 50; attention 2 x 16 for each pair.
    macs = counted("decoder")[1].total_report["macs"]
    assert str(macs) == f"32*batch*seq**2 + {3 * 256 + 3 * 640 + 800}*batch*seq"


def test_few_captures_are_needed(monkeypatch):
    counted = []
    net = strided().eval()
    monkeypatch.setattr(type(net), "__call__", lambda *args: (counted.append(1), torch.nn.Module.__call__(*args))[1])
    estimate(net, IMAGE)
    assert 10 < len(counted) <= 40


def test_a_loop_is_folded():
    class Scan(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            state, states = x.new_zeros(len(x), 8), []
            for i in range(x.shape[1]):
                state = torch.tanh(self.cell(state) + x[:, i])
                states.append(state)
            return torch.stack(states, 1)

    net = Scan()
    report = estimate(net, ("batch", "seq", 8))
    assert str(report.total_report["macs"]) == "64*batch*seq"
    assert len(report.trace) < 20
    for batch, seq in ((2, 3), (5, 40)):
        at_sizes = estimate(net, (batch, seq, 8)).total_report
        assert [report.subs(batch=batch, seq=seq).total_report[key] for key in COLUMNS] == [
            at_sizes[key] for key in COLUMNS
        ]


class Windows(nn.Module):
    """Windows are shifted where the image has more than one."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.roll(x, 4, -1) + 1 if x.shape[-1] > 100 else x + 1


class Steps(nn.Module):
    """Doubles 1 + (a + 120) // period elements of each of two rows."""

    def __init__(self, period: int) -> None:
        super().__init__()
        self.period = period

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, :1].expand(2, 1 + (x.shape[1] + 120) // self.period) * 2


@pytest.mark.parametrize("period", [127, 128, 129, 130, 131])
def test_long_periods_are_told_from_the_longest_that_others_are_looked_for(period):
    elements = estimate(Steps(period), (2, "a"), ranges={"a": (16, 300)}).lambdify("flops")
    assert [elements(a) for a in range(16, 301)] == [2 * (1 + (a + 120) // period) for a in range(16, 301)]


def test_a_structure_that_changes_is_refused():
    with pytest.raises(CostError, match="runs other operators at other sizes: at batch=2, width=16 call 1 of 1 is add"):
        estimate(Windows(), ("batch", "width"))
    report = estimate(Windows(), (2, "width"), ranges={"width": (2, 100)})
    assert str(report.total_report["flops"]) == "2*width"
    assert report.trace.run.ranges["width"] == (2, 100)


def test_values_outside_the_checked_sizes_warn():
    report = estimate(nn.Linear(4, 4), ("batch", 4), ranges={"batch": (1, 64)})
    assert report.trace.run.ranges == {"batch": (1, 64)}
    assert report.subs(batch=64).total_report["macs"] == 1024
    for named in (report, report.under("fvcore")):
        with pytest.warns(CostWarning, match="batch=65 is outside the sizes at which the formulas were") as warned:
            named.subs(batch=65)
        assert warned[0].filename == __file__


def test_a_file_keeps_formulas_and_ranges():
    _, report = counted("decoder")
    read = Report.from_json(report.to_json())
    assert read.trace.run.ranges == report.trace.run.ranges == {"batch": (1, 512), "seq": (1, 4096)}
    assert read.total_report == report.total_report


@pytest.mark.parametrize(
    ("ranges", "error", "message"),
    [
        ({"length": (1, 2)}, ValueError, "the shapes of the inputs have no name 'length' (names are batch)"),
        ({"batch": 3}, TypeError, "'batch' needs its smallest and its largest value"),
        ({"batch": (5, 2)}, ValueError, "needs 1 <= smallest < largest value (got 5 and 2)"),
        ({"batch": (7, 7)}, ValueError, "for a single value, write the integer in the shape"),
        ({"batch": (1, 10**30)}, ValueError, "the largest value of 'batch' cannot exceed 1,099,511,627,776"),
        (3, TypeError, "ranges must be a mapping"),
    ],
)
def test_invalid_ranges(ranges, error, message):
    import re

    with pytest.raises(error, match=re.escape(message)):
        estimate(nn.Linear(4, 4), ("batch", 4), ranges=ranges)


def test_memory_has_no_formula():
    with pytest.raises(ValueError, match="memory=True needs integers in place of batch"):
        estimate(nn.Linear(4, 4), ("batch", 4), memory=True)
