"""Compares receptive fields with measured and published ones.

Run in the root of the repository, in an environment with torchvision: ``python -m benchmarks.receptive_field
[--only NAME]``. Prints one line per row of ``data/receptive_field.csv``, and exits with 1 if a row differs. Networks of
torchvision are skipped if it is not installed, as are published networks of TF-slim that torchvision does not have.

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
    """Two branches of one input, added or concatenated, and what follows."""

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

PUBLISHED: Mapping[str, str] = {"vgg_16": "vgg16", "inception_v3": "inception_v3"}
"""Published networks that torchvision has, too."""


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
            net, name = row["net"], PUBLISHED.get(row["net"], row["net"])
            if only and only not in net:
                continue
            if row["source"] == "published" and net not in PUBLISHED:
                print(f"skip  {net}: TF-slim")
                continue
            if name not in SMALL and not find_spec("torchvision"):
                print(f"skip  {net}: no torchvision")
                continue
            if name not in fields:
                model = SMALL[name]() if name in SMALL else of_torchvision(name)
                shape = row["input"] or "3x1024x1024"
                report = estimate(model.eval(), (1, *map(int, shape.split("x"))))
                fields[name] = report.receptive_field().last
            wrong = differences(row, fields[name])
            failed += bool(wrong)
            print(f"{'FAIL' if wrong else 'ok  '}  {net} {row['position']}: {', '.join(wrong) or fields[name]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
