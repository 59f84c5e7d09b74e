"""Compares receptive fields with measured and published ones.

Run in the root of the repository, in an environment with torchvision: ``python -m benchmarks.receptive_field
[--only NAME]``. Prints one line per row of ``data/receptive_field.csv``, and exits with 1 if a row differs. Networks of
torchvision are skipped if it is not installed.

The rows are fields along the height. Those of source ``probe`` were measured with torch 2.13 on the CPU: the extent of
non-zero gradients of the sum of all channels at one output row, with positive weights, neutral batch norm, ReLU as the
identity and max pooling as the mean of its window, in float64. Those of source ``published`` are from the table of
Araujo, Norris, Sim, "Computing Receptive Fields of Convolutional Neural Networks", Distill 2019,
doi:10.23915/distill.00021.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable, Mapping
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import nn

from costcore import estimate

DATA = Path(__file__).parent / "data" / "receptive_field.csv"


class Branches(nn.Module):
    """Two branches of one input, added or concatenated, and a module ``after`` them."""

    def __init__(self, one: nn.Module, other: nn.Module, join: str, after: nn.Module | None = None) -> None:
        super().__init__()
        self.one, self.other, self.join, self.after = one, other, join, after or nn.Identity()

    def forward(self, x: Any) -> Any:
        """Run both branches."""
        y, z = self.one(x), self.other(x)
        return self.after(y + z if self.join == "add" else torch.cat([y, z], 1))


class UNet(nn.Module):
    """A U-Net of three levels: pairs of 3x3 convolutions, max pooling, transposed convolutions, concatenations."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()

        def pair(inside: int, outside: int) -> nn.Module:
            layers: list[nn.Module] = []
            for c in (inside, outside):
                layers += [nn.Conv2d(c, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU(inplace=True)]
            return nn.Sequential(*layers)

        widths = [width * 2**level for level in range(4)]
        self.down = nn.ModuleList(pair(a, b) for a, b in zip([3, *widths], widths[:3], strict=False))
        self.bottom = pair(widths[2], widths[3])
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in reversed(widths[:3]))
        self.merge = nn.ModuleList(pair(2 * w, w) for w in reversed(widths[:3]))
        self.out = nn.Conv2d(width, 2, 1)

    def forward(self, x: Any) -> Any:
        """Segment an image."""
        skips = []
        for block in self.down:
            x = block(x)
            skips.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = self.bottom(x)
        for up, merge, skip in zip(self.up, self.merge, reversed(skips), strict=True):
            x = merge(torch.cat([up(x), skip], 1))
        return self.out(x)


def _conv(kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1, channels: int = 1) -> nn.Module:
    return nn.Conv2d(channels, 1, kernel, stride, padding, dilation)


SMALL: Mapping[str, Callable[[], nn.Module]] = {
    "dilated3": lambda: nn.Sequential(_conv(3, 1, 1), _conv(3, 1, 2, 2), _conv(3, 1, 4, 4)),
    "deconv_k4s2": lambda: nn.Sequential(
        _conv(3, 2, 1), _conv(3, 2, 1), nn.ConvTranspose2d(1, 1, 4, 2, 1), nn.ConvTranspose2d(1, 1, 4, 2, 1)
    ),
    "deconv_k3s2": lambda: nn.Sequential(_conv(3, 2, 1), nn.ConvTranspose2d(1, 1, 3, 2, 1, output_padding=1)),
    "deconv_k5s3d2": lambda: nn.Sequential(_conv(3, 3, 1), nn.ConvTranspose2d(1, 1, 5, 3, 2, dilation=2)),
    "deconv_k2s3_holes": lambda: nn.Sequential(nn.ConvTranspose2d(1, 1, 2, 3), _conv(3, 1, 1)),
    "nearest2": lambda: nn.Sequential(_conv(3, 2, 1), nn.Upsample(scale_factor=2), _conv(3, 1, 1)),
    "bilinear2": lambda: nn.Sequential(
        _conv(3, 2, 1), nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False), _conv(3, 1, 1)
    ),
    "add_branches": lambda: Branches(
        _conv(5, 2, 2), nn.Sequential(_conv(3, 2, 1), _conv(3, 1, 1)), "add", _conv(3, 1, 2, 2)
    ),
    "cat_pool": lambda: Branches(nn.Conv2d(1, 2, 7, 2, 3), nn.MaxPool2d(3, 2, 1), "concat"),
    "unet16": UNet,
}
"""Networks without torchvision."""


class Chain(nn.Module):
    """Windows one after another along one axis, padded as TensorFlow does.

    Args:
        windows: sizes, each with ``/`` and a stride if it is not 1, and with a suffix for the padding: ``v`` for none
            (``VALID``), ``p`` for ``size - 1`` in total (``conv2d_same``). Without a suffix, the padding gives
            ``ceil(input / stride)`` outputs (``SAME``).
    """

    def __init__(self, windows: str) -> None:
        super().__init__()
        self.windows, self.convs = windows.split(), nn.ModuleList()
        for window in self.windows:
            size, _, stride = window.rstrip("vp").partition("/")
            self.convs.append(nn.Conv1d(1, 1, int(size), int(stride or 1)))

    def forward(self, x: Any) -> Any:
        """Run the windows."""
        for window, conv in zip(self.windows, self.convs, strict=True):
            (size,), (stride,), length = conv.kernel_size, conv.stride, x.shape[2]
            total = max((-(-length // stride) - 1) * stride + size - length, 0)
            if window.endswith("p"):
                total = size - 1
            if total and not window.endswith("v"):
                x = nn.functional.pad(x, (total // 2, total - total // 2))
            x = conv(x)
        return x


class Mixed(nn.Module):
    """Branches of chains, added or, with ``residual``, added to their input."""

    def __init__(self, *branches: str, residual: bool = False) -> None:
        super().__init__()
        self.branches, self.residual = nn.ModuleList(map(Chain, branches)), residual

    def forward(self, x: Any) -> Any:
        """Run all branches."""
        outputs = [branch(x) for branch in self.branches]
        return sum(outputs) + x if self.residual else torch.cat(outputs, 1).sum(1, keepdim=True)


class Unit(nn.Module):
    """A bottleneck of ResNet whose window has a stride; the shortcut is subsampled."""

    def __init__(self, stride: int) -> None:
        super().__init__()
        self.window, self.short = Chain(f"3/{stride}p"), Chain(f"1/{stride}v")

    def forward(self, x: Any) -> Any:
        """Add the shortcut."""
        return self.window(x) + self.short(x)


def resnet_v1(*counts: int) -> nn.Module:
    """Return a ResNet of TF-slim, in which the last unit of each block but the last one has the stride."""
    strides = [2 if i < 3 and unit == count - 1 else 1 for i, count in enumerate(counts) for unit in range(count)]
    return nn.Sequential(Chain("7/2p 3/2"), *map(Unit, strides))


def inception_v2() -> nn.Module:
    """Return the network of Ioffe and Szegedy, 2015, as TF-slim has it."""
    same = ("1", "1 3", "1 3 3", "3 1")
    half = ("1 3/2", "1 3 3/2", "3/2")
    blocks = [same] * 2 + [half] + [same] * 4 + [half] + [same] * 2
    return nn.Sequential(Chain("7/2 3/2 1 3 3/2"), *(Mixed(*block) for block in blocks))


def inception_v4() -> nn.Module:
    """Return Inception-v4 along the height: a window of 1 x 7 has size 1, a window of 7 x 1 has size 7."""
    a, b, c = ("1", "1 3", "1 3 3", "3 1"), ("1", "1 7", "1 7 7", "3 1"), ("1", "1 3", "1 3 3", "3 1")
    stem = [Chain("3/2v 3v 3"), Mixed("3/2v", "3/2v"), Mixed("1 3v", "1 7 3v"), Mixed("3/2v", "3/2v")]
    blocks = [a] * 4 + [("3/2v", "1 3 3/2v", "3/2v")] + [b] * 7 + [("1 3/2v", "1 7 3/2v", "3/2v")] + [c] * 3
    return nn.Sequential(*stem, *(Mixed(*block) for block in blocks))


def inception_resnet_v2() -> nn.Module:
    """Return Inception-ResNet-v2 along the height."""
    parts: list[nn.Module] = [Chain("3/2v 3v 3 3/2v 1 3v 3/2v"), Mixed("1", "1 5", "1 3 3", "3 1")]
    parts += [Mixed("1", "1 3", "1 3 3", residual=True) for _ in range(10)]
    parts.append(Mixed("3/2v", "1 3 3/2v", "3/2v"))
    parts += [Mixed("1", "1 7", residual=True) for _ in range(20)]
    parts.append(Mixed("1 3/2v", "1 3/2v", "1 3 3/2v", "3/2v"))
    return nn.Sequential(*parts, *(Mixed("1", "1 3", residual=True) for _ in range(10)))


SLIM: Mapping[str, Callable[[], nn.Module]] = {
    "alexnet_v2": lambda: Chain("11/4v 3/2v 5 3/2v 3 3 3 3/2v"),
    "vgg_16": lambda: Chain("3 3 2/2v 3 3 2/2v 3 3 3 2/2v 3 3 3 2/2v 3 3 3 2/2v"),
    "mobilenet_v1": lambda: Chain("3/2 3 3/2 3 3/2 3 3/2 3 3 3 3 3 3/2 3"),
    "inception_v2": inception_v2,
    "inception_v4": inception_v4,
    "inception_resnet_v2": inception_resnet_v2,
    "resnet_v1_50": lambda: resnet_v1(3, 4, 6, 3),
    "resnet_v1_101": lambda: resnet_v1(3, 4, 23, 3),
    "resnet_v1_152": lambda: resnet_v1(3, 8, 36, 3),
    "resnet_v1_200": lambda: resnet_v1(3, 24, 36, 3),
}
"""The networks of the published table, along one axis and with one channel: only windows matter to the field."""

LENGTHS = {"inception_v4": 299, "inception_resnet_v2": 299}
"""Input sizes other than 224. The padding of ``SAME`` depends on them."""

PUBLISHED: Mapping[str, str] = {"inception_v3": "inception_v3"}
"""Published networks that are compared with those of torchvision."""


def field_of(row: Mapping[str, str]) -> Any:
    """Return the receptive field of the network of a row."""
    name = row["net"]
    if name in SLIM:
        return estimate(SLIM[name](), (1, 1, LENGTHS.get(name, 224))).receptive_field().last
    model = SMALL[name]() if name in SMALL else of_torchvision(PUBLISHED.get(name, name))
    shape = row["input"] or "3x1024x1024"
    return estimate(model.eval(), (1, *map(int, shape.split("x")))).receptive_field().last


def of_torchvision(name: str) -> nn.Module:
    """Return the part of a network of torchvision that the row is about."""
    import torchvision

    if name == "resnet50_dilated":
        net = torchvision.models.resnet50(weights=None, replace_stride_with_dilation=[False, True, True])
    else:
        settings = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
        net = getattr(torchvision.models, name)(weights=None, **settings)
    if name.startswith("resnet"):
        return nn.Sequential(*list(net.children())[:-2])
    if name == "googlenet":
        return nn.Sequential(*[part for child, part in net.named_children() if child[:4] in ("conv", "maxp", "ince")])
    if name == "inception_v3":
        return nn.Sequential(*[part for child, part in net.named_children() if child[:4] in ("Conv", "maxp", "Mixe")])
    return net.layers if name.startswith("mnasnet") else net.features


def differences(row: Mapping[str, str], field: Any) -> list[str]:
    """Return where a field along the height differs from a row."""
    one_map = field.maps[0]
    found: dict[str, Any] = {"size_max": field.size[0], "stride": field.stride[0], "padding": field.padding[0]}
    found["period"] = one_map.period
    if row["position"]:
        found["first"], found["last"] = field.region(int(row["position"]))[0]
        found["size"] = found["last"] - found["first"] + 1
    expected = {key: Fraction(row[key]) for key in found}
    return [f"{key} {found[key]} (expected {value})" for key, value in expected.items() if found[key] != value]


def main() -> int:
    """Compare all rows and return the exit code."""
    parser = argparse.ArgumentParser(description="Compare receptive fields with measured and published ones.")
    parser.add_argument("--only", metavar="NAME", help="only rows of networks whose name contains this")
    only = parser.parse_args().only
    fields: dict[str, Any] = {}
    failed = 0
    with DATA.open(newline="") as lines:
        for row in csv.DictReader(lines):
            net = row["net"]
            if only and only not in net:
                continue
            if net not in SMALL and net not in SLIM and not find_spec("torchvision"):
                print(f"skip  {net}: no torchvision")
                continue
            if net not in fields:
                fields[net] = field_of(row)
            wrong = differences(row, fields[net])
            failed += bool(wrong)
            print(f"{'FAIL' if wrong else 'ok  '}  {net} {row['position']}: {', '.join(wrong) or fields[net]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
