"""Receptive fields of networks: measured tables, gradients of random networks, and equality of the frontends."""

from __future__ import annotations

import csv
import io
import logging
import random
import warnings
from fractions import Fraction
from typing import Any

import pytest

from costcore import ComputationalCostHook, Report, estimate
from tests import frameworks
from tests.command_line import main
from tests.frameworks import with_chainer

pytestmark = pytest.mark.frontend("pytorch", "onnx")

if not {"pytorch", "onnx"} - set(frameworks.available()):
    import torch
    from torch import nn
    from torch.nn import functional

    from benchmarks import receptive_field as benchmark
    from tests.whole_networks.exporters import HAS_NEWER, export

    ROWS = [
        row
        for row in csv.DictReader(benchmark.DATA.read_text(encoding="utf-8").splitlines())
        if row["net"] in benchmark.SMALL or row["net"] in benchmark.SLIM
    ]

    class Residual(nn.Module):
        """A basic block of ResNet."""

        def __init__(self, inside: int, outside: int, stride: int) -> None:
            super().__init__()
            self.a, self.b = nn.Conv2d(inside, outside, 3, stride, 1), nn.Conv2d(outside, outside, 3, 1, 1)
            self.short = nn.Conv2d(inside, outside, 1, stride) if stride > 1 else nn.Identity()
            self.norms = nn.ModuleList(nn.BatchNorm2d(outside) for _ in range(2))

        def forward(self, x: Any) -> Any:
            """Add the shortcut in place."""
            y = self.norms[1](self.b(functional.relu(self.norms[0](self.a(x)))))
            y += self.short(x)
            return functional.relu_(y)

    class Gate(nn.Module):
        """Squeeze and excitation."""

        def __init__(self) -> None:
            super().__init__()
            self.conv, self.pool, self.one = nn.Conv2d(3, 4, 5, 2, 2), nn.AdaptiveAvgPool2d(1), nn.Conv2d(4, 4, 1)

        def forward(self, x: Any) -> Any:
            """Scale channels."""
            x = self.conv(x)
            return x * torch.sigmoid(self.one(self.pool(x)))

    class Movements(nn.Module):
        """Views, slices, splits, padding and pixel shuffles between convolutions."""

        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Conv2d(3, 16, 3, 2, 1), nn.Conv2d(4, 4, 3)

        def forward(self, x: Any) -> Any:
            """Return channels last, and one row."""
            y = self.a(functional.pad(x, (1, 2, 3, 0)))
            n, c, h, w = y.shape
            y = y.view(n, 4, 4, h, w).transpose(1, 2).reshape(n, c, h, w)
            one, other = y.chunk(2, 1)
            y = self.b(functional.pixel_shuffle(torch.cat([other, torch.relu(one)], 1), 2))
            y = y.permute(0, 2, 3, 1)[:, 1:-1, ::2]
            return y, y[:, 3].flatten(1, -1)

    class Patches(nn.Module):
        """A vision transformer of one layer: a class token, attention, and tokens back as an image."""

        def __init__(self) -> None:
            super().__init__()
            self.patches, self.token = nn.Conv2d(3, 16, 4, 4), nn.Parameter(torch.zeros(1, 1, 16))
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

        def forward(self, x: Any) -> Any:
            """Return the class token before attention and the tokens behind it."""
            y = self.patches(x).flatten(2).transpose(1, 2)
            y = self.layer(torch.cat([self.token, y], 1))
            return y[:, 0], y[:, 1:].transpose(1, 2).reshape(1, 16, 8, 8)

    class Windowed(nn.Module):
        """Attention inside shifted windows of 4 x 4, written as Swin Transformer writes it."""

        def __init__(self, shift: int) -> None:
            super().__init__()
            self.shift, self.qkv = shift, nn.Linear(8, 24)

        def forward(self, x: Any) -> Any:
            """Mix the features of each window."""
            n, h, w, c = x.shape
            y = torch.roll(x, (-self.shift, -self.shift), (1, 2)) if self.shift else x
            y = y.view(n, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
            q, k, v = self.qkv(y).reshape(-1, 16, 3, 2, c // 2).permute(2, 0, 3, 1, 4)
            y = (q @ k.transpose(-2, -1)) @ v
            y = y.transpose(1, 2).reshape(n, h // 4, w // 4, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(n, h, w, c)
            return x + (torch.roll(y, (self.shift, self.shift), (1, 2)) if self.shift else y)

    class Swin(nn.Module):
        """Patches of 4, windows, shifted windows, and a patch merging."""

        def __init__(self) -> None:
            super().__init__()
            self.patches, self.blocks = nn.Conv2d(3, 8, 4, 4), nn.Sequential(Windowed(0), Windowed(2))

        def forward(self, x: Any) -> Any:
            """Return merged patches, channels last."""
            y = self.blocks(self.patches(x).permute(0, 2, 3, 1))
            return torch.cat([y[:, i::2, j::2] for i in (0, 1) for j in (0, 1)], -1)

    def vgg() -> nn.Module:
        layers: list[nn.Module] = []
        channels = 3
        for count in (2, 2, 3, 3, 3):
            for _ in range(count):
                layers += [nn.Conv2d(channels, 4, 3, 1, 1), nn.ReLU(inplace=True)]
                channels = 4
            layers.append(nn.MaxPool2d(2))
        return nn.Sequential(*layers)

    def resnet() -> nn.Module:
        stem = [nn.Conv2d(3, 4, 7, 2, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
        return nn.Sequential(*stem, *(Residual(4, 4, stride) for stride in (1, 1, 2, 1, 2, 1, 2, 1)))

    NETS = {"vgg": vgg, "resnet": resnet, "gate": Gate, "movements": Movements, "patches": Patches, "swin": Swin}

    def exported(net: nn.Module, shape: tuple[int, ...], **options: Any) -> Report:
        if options.get("dynamo"):
            return estimate(export(net, (torch.zeros(shape),), "newer", 18, folded=True))
        file = io.BytesIO()
        logger = logging.getLogger("torch.onnx")
        level = logger.level
        logger.setLevel(logging.ERROR)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.onnx.export(net, (torch.zeros(shape),), file, input_names=["x"], **{"dynamo": False, **options})
        finally:
            logger.setLevel(level)
        return estimate(file.getvalue())

    def gradient_extent(y: Any, x: Any, position: int) -> tuple[int, int] | None:
        """The first and last row of the input that the channels of a row of the output depend on."""
        (gradient,) = torch.autograd.grad(y[:, :, position].sum(), x, retain_graph=True)
        rows = gradient.abs().sum((0, 1, 3)).nonzero().flatten().tolist()
        return (rows[0], rows[-1]) if rows else None

    class Positive(nn.Module):
        """A random network of convolutions and the like with positive weights; max pooling is done as a mean.

        Args:
            seed: decides the network.
            probing: whether max pooling is replaced, of which only one element of a window has a gradient.
        """

        def __init__(self, seed: int, probing: bool) -> None:
            super().__init__()
            self.rng, self.probing = random.Random(seed), probing
            rng = self.rng
            self.kinds, self.parts = [], nn.ModuleList()
            scale = Fraction(1)
            for _ in range(rng.randint(3, 7)):
                kind = rng.choice(("conv", "conv", "pool", "up", "transposed", "branch", "slice", "resize", "shuffle"))
                part: nn.Module = nn.Identity()
                k, s, d = rng.randint(1, 4), rng.randint(1, 2), rng.randint(1, 2)
                s = 1 if scale > 2 else s
                if kind == "conv":
                    part = nn.Conv2d(2, 2, k, s, rng.randint(0, 2), d)
                elif kind == "pool":
                    part = self._pool(k + 1, s, rng.randint(0, (k + 1) // 2))
                elif kind == "transposed":
                    s = rng.choice((1, 2, 3)) if scale > 1 else 1
                    part = nn.ConvTranspose2d(2, 2, k, s, rng.randint(0, k - 1), dilation=d)
                    s = 1 / Fraction(s)
                elif kind in ("up", "resize"):
                    ratio = rng.choice((2, 3)) if kind == "up" else rng.choice((Fraction(3, 2), Fraction(2, 3)))
                    mode = rng.choice(("nearest", "bilinear", "bicubic", "nearest-exact"))
                    part = nn.Upsample(scale_factor=float(ratio), mode=mode)
                    part.recompute_scale_factor = True
                    s = 1 / Fraction(ratio)
                elif kind == "branch":
                    part = nn.ModuleList([nn.Conv2d(2, 2, 3, 1, d, d), nn.Conv2d(2, 2, k, 1, k // 2)])
                    s = 1
                elif kind == "slice":
                    s = 1
                elif kind == "shuffle":
                    part = nn.Conv2d(2, 8, k, 1, 0)
                    s = Fraction(1, 2)
                scale *= s
                if not Fraction(1, 3) <= scale <= 6:
                    scale /= s
                    continue
                self.kinds.append(kind)
                self.parts.append(part)
            with torch.no_grad():
                for parameter in self.parameters():
                    parameter.uniform_(0.5, 1.5)

        def _pool(self, kernel: int, stride: int, padding: int) -> nn.Module:
            kind = nn.AvgPool2d if self.probing or self.rng.random() < 0.3 else nn.MaxPool2d
            return kind(kernel, stride, padding)

        def forward(self, x: Any) -> Any:
            """Run the parts."""
            for kind, part in zip(self.kinds, self.parts, strict=True):
                if kind == "branch":
                    y, z = part[0](x), part[1](x)
                    x = y[:, :, : z.shape[2]] + z[:, :, : y.shape[2], : y.shape[3]]
                elif kind == "slice":
                    x = torch.cat([x[:, :1], x[:, 1:]], 1)[:, :, 1:]
                elif kind == "shuffle":
                    x = functional.pixel_shuffle(part(x), 2)
                else:
                    x = part(x)
            return x


@pytest.mark.parametrize("index", range(37))
def test_fields_are_those_measured(index):
    """Rows that were measured by gradients, or published; see ``benchmarks/receptive_field.py``."""
    row = ROWS[index]
    assert benchmark.differences(row, benchmark.field_of(row)) == []


def test_every_small_row_is_tested():
    assert len(ROWS) == 37


@pytest.mark.parametrize(("name", "size", "stride", "padding"), [("vgg", 212, 32, 90), ("resnet", 435, 32, 217)])
def test_backbones_have_the_published_fields(name, size, stride, padding):
    """VGG-16: Araujo, Norris, Sim, Distill 2019 (212, 32, 90). ResNet-18 was measured by gradients (435, 32, 217)."""
    field = estimate(NETS[name]().eval(), (1, 3, 64, 64)).receptive_field().last
    assert (field.size, field.stride, field.padding) == ((size,) * 2, (stride,) * 2, (padding,) * 2)


def test_windows_of_attention_are_exact():
    """Windows of 4 patches of 4 pixels: 16; shifted by 2, each token sees two of them, 32; merged, two tokens: 32 + 16.

    Tokens 0 and 1 of the shifted window that starts at 2 are of window 0, tokens 2 and 3 of window 1. Token 2t and
    2t + 1 are in the same shifted window, because windows start at 2 mod 4, so that merging adds none.
    """
    found = estimate(Swin(), (1, 3, 64, 64)).receptive_field()
    assert (found.last.size, found.last.stride) == ((32, 32), (8, 8))
    assert found.last.wrapped_by.startswith("roll-1")
    x = torch.rand(1, 3, 64, 64, requires_grad=True)
    Swin()(x)[0, 3].sum().backward()
    rows = x.grad.abs().sum((0, 1, 3)).nonzero().flatten()
    assert found.last.region(3)[0] == (int(rows[0]), int(rows[-1]))


@pytest.mark.parametrize("seed", range(40))
def test_random_networks_depend_on_their_regions(seed):
    """The extent of gradients at rows in the middle, for every phase of the pattern."""
    torch.manual_seed(seed)
    shape = (1, 2, 64, 64)
    net = Positive(seed, probing=True).double()
    field = estimate(net, shape, dtype="float64").receptive_field().last
    if field.misaligned_by:
        pytest.skip("branches of different strides")
    assert field.is_known, field
    x = torch.full(shape, 0.5, dtype=torch.float64, requires_grad=True)
    y = net(x)
    start, probed = y.shape[2] // 3, 0
    for position in range(start, min(start + field.maps[0].period, y.shape[2])):
        low, high = field.maps[0](position) or (8, 8)
        if low < 8 or high > 55 or probed > 6:
            continue  # the border is near: resizes clip there
        assert gradient_extent(y, x, position) == (field.maps[0](position) and (low, high))
        probed += 1
    assert probed or field.size[0] > 20


@pytest.mark.parametrize(
    ("name", "exporter"),
    [
        *((name, "torchscript") for name in ("vgg", "resnet", "gate", "movements", "patches", "swin")),
        *((name, "symbolic") for name in ("vgg", "resnet", "gate", "movements")),
        *((name, "dynamo") for name in ("movements", "patches", "swin")),
    ],
)
def test_exports_have_the_fields_of_the_network(name, exporter):
    """Maps, and what is global, are equal; with symbolic heights and widths too."""
    if exporter == "dynamo" and not HAS_NEWER:
        pytest.skip("this PyTorch does not have the newer exporter yet")
    net = NETS[name]().eval()
    options: dict[str, Any] = {"dynamo": {"dynamo": True}, "torchscript": {}}.get(
        exporter, {"dynamic_axes": {"x": {2: "height", 3: "width"}}}
    )
    ours = list(estimate(net, (1, 3, 32, 32)).receptive_field().outputs.values())
    theirs = list(exported(net, (1, 3, 32, 32), **options).receptive_field().outputs.values())
    assert [one.maps for one in theirs] == [one.maps for one in ours]
    assert [list(map(bool, one.global_by)) for one in theirs] == [list(map(bool, one.global_by)) for one in ours]
    assert all(one.is_known for one in (*ours, *theirs))


def test_the_hook_finds_the_input_behind_buffers():
    class Normalized(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3)
            self.register_buffer("mean", torch.zeros(1, 3, 1, 1))
            self.register_buffer("canvas", torch.zeros(1, 3, 16, 16))

        def forward(self, x: Any) -> Any:
            return self.conv(self.canvas + (x - self.mean))

    net = Normalized().eval()
    x = torch.zeros(1, 3, 16, 16)
    with torch.no_grad(), ComputationalCostHook() as hook:
        net(x)
    for report in (hook.report, estimate(net, (1, 3, 16, 16))):
        assert len(report.trace.run.inputs) == 1 and len(report.trace.run.buffers) == 2
        assert str(report.receptive_field().last) == "3x3"
    assert Report.from_json(hook.report.to_json()) == hook.report


def test_the_command_line_and_the_tables_show_fields(tmp_path, capsys):
    file = tmp_path / "gated.py"
    file.write_text(
        "from torch import nn\n\n\n"
        "def make():\n    return nn.Sequential(nn.Conv2d(3, 4, 5, 2, 2), nn.AdaptiveAvgPool2d(1))\n"
    )
    target = [f"{file}:make", "--input", "1x3x32x32", "--format", "csv"]
    assert main([*target, "--receptive-field"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Layer name,Module,Output shape,Size,Stride,Padding,Remark",
        'conv2d-1,0,"(1, 4, 16, 16)",5x5,2x2,2x2,',
        'adaptive_avg_pool2d-1,1,"(1, 4, 1, 1)",,,,global by adaptive_avg_pool2d-1 in 1',
    ]
    shown = ["5x5", "global by adaptive_avg_pool2d-1 in 1"]
    for view, total in (([], '""'), (["--layers"], '""'), (["--tree"], shown[1])):
        assert main([*target, *view, "--columns", "receptive_field"]) == 0
        rows = capsys.readouterr().out.splitlines()[1:]
        paths = zip(("total", "0", "1"), [total, *shown], strict=True)  # a tree begins with the module
        assert rows == ([f"{path},{field}" for path, field in paths] if view == ["--tree"] else [*shown, total])


@pytest.mark.frontend("chainer")
def test_chainer_has_the_same_fields():
    np, chainer = pytest.importorskip("numpy"), with_chainer()
    functions, links = chainer.functions, chainer.links

    class Net(chainer.Chain):
        def __init__(self) -> None:
            super().__init__()
            with self.init_scope():
                self.a = links.Convolution2D(3, 8, 5, 2, 2)
                self.b = links.DilatedConvolution2D(8, 8, 3, 1, 2, 2)
                self.up = links.Deconvolution2D(8, 8, 4, 2, 1)
                self.norm = links.BatchNormalization(8)

        def forward(self, x: Any) -> Any:
            y = functions.max_pooling_2d(functions.relu(self.norm(self.a(x))), 3, 2, 1, cover_all=False)
            y = self.up(self.b(y) + y)
            y = functions.concat([y[:, 4:], functions.resize_images(y[:, :4], (16, 16), align_corners=False)], 1)[
                :, :, 1:
            ]
            return functions.transpose(functions.pad(y, ((0, 0), (0, 0), (2, 0), (0, 0)), "constant"), (0, 2, 3, 1))

    class Same(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Conv2d(3, 8, 5, 2, 2), nn.Conv2d(8, 8, 3, 1, 2, 2)
            self.up, self.norm = nn.ConvTranspose2d(8, 8, 4, 2, 1), nn.BatchNorm2d(8)

        def forward(self, x: Any) -> Any:
            y = functional.max_pool2d(functional.relu(self.norm(self.a(x))), 3, 2, 1)
            y = self.up(self.b(y) + y)
            y = torch.cat([y[:, 4:], functional.interpolate(y[:, :4], (16, 16), mode="bilinear")], 1)[:, :, 1:]
            return functional.pad(y, (0, 0, 2, 0)).permute(0, 2, 3, 1)

    net = Net()
    with chainer.using_config("train", False):
        ours = estimate(net, (1, 3, 32, 32)).receptive_field()
        with ComputationalCostHook(frontends=["chainer"]) as hook:
            net(np.zeros((1, 3, 32, 32), "float32"))
    assert hook.report.receptive_field().last.maps == ours.last.maps and len(hook.report.trace.run.inputs) == 1
    theirs = estimate(Same().eval(), (1, 3, 32, 32)).receptive_field()
    # conv 5/2: 5, stride 2; pool 3/2: 5 + 2*2 = 9, stride 4; dilated 3: 9 + 4*4 = 25; transposed: two taps, 25 + 4 = 29
    assert ours.last.size == theirs.last.size == (29, 29)
    assert ours.last.maps == theirs.last.maps
