"""Published architectures in plain ``torch.nn``, with their published multiply-adds and parameter counts.

The numbers are the ``_ops`` (in units of 1e9, three decimals) and ``num_params`` entries of the weight metadata of
torchvision 0.28. Inputs are 3 x 224 x 224, for Inception 3 x 299 x 299, with batch size 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional


class Published(NamedTuple):
    """A network and its published numbers: constructor, input shape, GMACs, parameters."""

    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    gmacs: str
    n_params: int


def conv(
    cin: int, cout: int, k: int | tuple[int, int] = 1, act: type[nn.Module] | None = nn.ReLU, **options
) -> nn.Module:
    """Return a convolution that keeps the size at stride 1, a batch norm and, unless None, an activation."""
    eps, padding = options.pop("eps", 1e-5), options.pop("padding", None)
    if padding is None:
        padding = (k - 1) // 2 if isinstance(k, int) else tuple((n - 1) // 2 for n in k)
    layers = [nn.Conv2d(cin, cout, k, padding=padding, bias=False, **options), nn.BatchNorm2d(cout, eps)]
    return nn.Sequential(*layers, *([act(inplace=True)] if act else []))


class Residual(nn.Module):
    """``body(x) + shortcut(x)``, followed by an activation if there is one."""

    def __init__(self, body: nn.Module, shortcut: nn.Module | None = None, act: nn.Module | None = None) -> None:
        super().__init__()
        self.body, self.shortcut, self.act = body, shortcut or nn.Identity(), act or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.body(x) + self.shortcut(x))


class Branches(nn.Module):
    """The outputs of all branches, concatenated along the channels."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


def vgg16() -> nn.Module:
    """Simonyan and Zisserman, arXiv:1409.1556, configuration D."""
    layers: list[nn.Module] = []
    channels = 3
    for width, depth in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(depth):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
            channels = width
        layers.append(nn.MaxPool2d(2))
    sizes = (512 * 7 * 7, 4096, 4096)
    for fan_in, fan_out in pairwise(sizes):
        layers += [
            nn.Flatten() if fan_in != 4096 else nn.Identity(),
            nn.Linear(fan_in, fan_out),
            nn.ReLU(),
            nn.Dropout(),
        ]
    return nn.Sequential(*layers, nn.Linear(4096, 1000))


def resnet50() -> nn.Module:
    """He et al., arXiv:1512.03385, with the stride in the 3x3 convolution."""
    layers = [conv(3, 64, 7, stride=2), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, (width, depth) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(depth):
            stride = 2 if stage and not block else 1
            body = nn.Sequential(
                conv(channels, width), conv(width, width, 3, stride=stride), conv(width, 4 * width, act=None)
            )
            shortcut = conv(channels, 4 * width, act=None, stride=stride) if not block else None
            layers.append(Residual(body, shortcut, nn.ReLU(inplace=True)))
            channels = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


def densenet121() -> nn.Module:
    """Huang et al., arXiv:1608.06993, growth 32."""

    def before(cin: int, cout: int, k: int) -> nn.Module:
        layers = [nn.BatchNorm2d(cin), nn.ReLU(inplace=True), nn.Conv2d(cin, cout, k, padding=k // 2, bias=False)]
        return nn.Sequential(*layers)

    layers = [conv(3, 64, 7, stride=2), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, depth in enumerate((6, 12, 24, 16)):
        if stage:
            layers += [before(channels, channels // 2, 1), nn.AvgPool2d(2)]
            channels //= 2
        for _ in range(depth):
            layers.append(Branches(nn.Identity(), nn.Sequential(before(channels, 128, 1), before(128, 32, 3))))
            channels += 32
    head = [nn.BatchNorm2d(channels), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, *head, nn.Linear(channels, 1000))


class Excite(nn.Module):
    """Squeeze and excitation: scales ``x`` per channel."""

    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__()
        layers = [nn.Conv2d(channels, hidden, 1), nn.ReLU(), nn.Conv2d(hidden, channels, 1), nn.Hardsigmoid()]
        self.scale = nn.Sequential(nn.AdaptiveAvgPool2d(1), *layers)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale(x)


def rounded(channels: float) -> int:
    """Round to the nearest multiple of 8, but not below nine tenths of the value."""
    near = max(8, int(channels + 4) // 8 * 8)
    return near if near >= 0.9 * channels else near + 8


def inverted(cin: int, hidden: int, cout: int, k: int, stride: int, act, excite: bool = False) -> nn.Module:
    """Return an inverted residual block: expand, convolve depthwise, project."""
    body = [conv(cin, hidden, act=act)] if hidden != cin else []
    body.append(conv(hidden, hidden, k, act, stride=stride, groups=hidden))
    body += [Excite(hidden, rounded(hidden / 4))] if excite else []
    block = nn.Sequential(*body, conv(hidden, cout, act=None))
    return Residual(block) if stride == 1 and cin == cout else block


def mobilenet_v2() -> nn.Module:
    """Sandler et al., arXiv:1801.04381, table 2."""
    layers = [conv(3, 32, 3, nn.ReLU6, stride=2)]
    cin = 32
    for expansion, cout, depth, stride in (
        *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
        *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
    ):
        for block in range(depth):
            layers.append(inverted(cin, cin * expansion, cout, 3, 1 if block else stride, nn.ReLU6))
            cin = cout
    head = [conv(cin, 1280, act=nn.ReLU6), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2)]
    return nn.Sequential(*layers, *head, nn.Linear(1280, 1000))


def mobilenet_v3_large() -> nn.Module:
    """Howard et al., arXiv:1905.02244, table 1."""
    layers = [conv(3, 16, 3, nn.Hardswish, stride=2)]
    cin = 16
    for k, hidden, cout, excite, act, stride in (
        *((3, 16, 16, 0, nn.ReLU, 1), (3, 64, 24, 0, nn.ReLU, 2), (3, 72, 24, 0, nn.ReLU, 1)),
        *((5, 72, 40, 1, nn.ReLU, 2), (5, 120, 40, 1, nn.ReLU, 1), (5, 120, 40, 1, nn.ReLU, 1)),
        *((3, 240, 80, 0, nn.Hardswish, 2), (3, 200, 80, 0, nn.Hardswish, 1), (3, 184, 80, 0, nn.Hardswish, 1)),
        *((3, 184, 80, 0, nn.Hardswish, 1), (3, 480, 112, 1, nn.Hardswish, 1), (3, 672, 112, 1, nn.Hardswish, 1)),
        *((5, 672, 160, 1, nn.Hardswish, 2), (5, 960, 160, 1, nn.Hardswish, 1), (5, 960, 160, 1, nn.Hardswish, 1)),
    ):
        layers.append(inverted(cin, hidden, cout, k, stride, act, bool(excite)))
        cin = cout
    head = [conv(cin, 960, act=nn.Hardswish), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, *head, nn.Linear(960, 1280), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(1280, 1000))


class InceptionV3(nn.Module):
    """Szegedy et al., arXiv:1512.00567, with the auxiliary classifier, which runs in training only."""

    def __init__(self) -> None:
        super().__init__()

        def chain(cin: int, *steps) -> nn.Module:
            layers = []
            for cout, k, *rest in steps:
                layers.append(conv(cin, cout, k, eps=1e-3, **(rest[0] if rest else {})))
                cin = cout
            return nn.Sequential(*layers)

        def pooled(cin: int, cout: int) -> nn.Module:
            return nn.Sequential(nn.AvgPool2d(3, 1, 1), chain(cin, (cout, 1)))

        def split(cin: int) -> nn.Module:
            return Branches(chain(cin, (384, (1, 3))), chain(cin, (384, (3, 1))))

        def mixed_a(cin: int, cout: int) -> nn.Module:
            long = chain(cin, (64, 1), (96, 3), (96, 3))
            return Branches(chain(cin, (64, 1)), chain(cin, (48, 1), (64, 5)), long, pooled(cin, cout))

        def mixed_c(mid: int) -> nn.Module:
            short = chain(768, (mid, 1), (mid, (1, 7)), (192, (7, 1)))
            long = chain(768, (mid, 1), (mid, (7, 1)), (mid, (1, 7)), (mid, (7, 1)), (192, (1, 7)))
            return Branches(chain(768, (192, 1)), short, long, pooled(768, 192))

        def mixed_e(cin: int) -> nn.Module:
            short = nn.Sequential(chain(cin, (384, 1)), split(384))
            long = nn.Sequential(chain(cin, (448, 1), (384, 3)), split(384))
            return Branches(chain(cin, (320, 1)), short, long, pooled(cin, 192))

        down = {"stride": 2, "padding": 0}
        self.stem = nn.Sequential(
            chain(3, (32, 3, down), (32, 3, {"padding": 0}), (64, 3)),
            nn.MaxPool2d(3, 2),
            chain(64, (80, 1), (192, 3, {"padding": 0})),
            nn.MaxPool2d(3, 2),
        )
        seven = (192, 1), (192, (1, 7)), (192, (7, 1))
        self.body = nn.Sequential(
            *(mixed_a(cin, cout) for cin, cout in ((192, 32), (256, 64), (288, 64))),
            Branches(chain(288, (384, 3, down)), chain(288, (64, 1), (96, 3), (96, 3, down)), nn.MaxPool2d(3, 2)),
            *(mixed_c(mid) for mid in (128, 160, 160, 192)),
        )
        auxiliary = chain(768, (128, 1), (768, 5, {"padding": 0}))
        self.auxiliary = nn.Sequential(
            nn.AvgPool2d(5, 3), auxiliary, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(768, 1000)
        )
        self.tail = nn.Sequential(
            Branches(chain(768, (192, 1), (320, 3, down)), chain(768, *seven, (192, 3, down)), nn.MaxPool2d(3, 2)),
            mixed_e(1280),
            mixed_e(2048),
            *(nn.AdaptiveAvgPool2d(1), nn.Dropout(), nn.Flatten(), nn.Linear(2048, 1000)),
        )

    def forward(self, x: Tensor):
        x = self.body(self.stem(x))
        y = self.tail(x)
        return (y, self.auxiliary(x)) if self.training else y


class Attention(nn.Module):
    """Multi-head self-attention with one projection for queries, keys and values."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.project, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        n, t, width = x.shape
        q, k, v = self.project(x).view(n, t, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(n, t, width))


def block(width: int, heads: int, hidden: int, norm_first: bool = True) -> nn.Module:
    """Return attention and MLP, each with a residual connection and a norm before (ViT) or after it (BERT)."""
    perceptron = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))
    layers: list[nn.Module] = []
    for layer in (Attention(width, heads), perceptron):
        norm = nn.LayerNorm(width)
        layers += [Residual(nn.Sequential(norm, layer))] if norm_first else [Residual(layer), norm]
    return nn.Sequential(*layers)


class ViT(nn.Module):
    """Dosovitskiy et al., arXiv:2010.11929, ViT-Base with patches of 16 x 16."""

    def __init__(self, size: int = 224, patch: int = 16, width: int = 768, depth: int = 12, heads: int = 12) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.zeros(1, (size // patch) ** 2 + 1, width))
        self.blocks = nn.Sequential(*(block(width, heads, 4 * width) for _ in range(depth)), nn.LayerNorm(width))
        self.head = nn.Linear(width, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.positions
        return self.head(self.blocks(x)[:, 0])


class Bert(nn.Module):
    """A small encoder after Devlin et al., arXiv:1810.04805; the word embedding is tied to the output layer."""

    def __init__(self, words: int = 1000, length: int = 64, width: int = 64, depth: int = 2, heads: int = 4) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width), nn.Embedding(length, width)
        self.norm = nn.LayerNorm(width)
        self.blocks = nn.Sequential(*(block(width, heads, 4 * width, norm_first=False) for _ in range(depth)))
        self.decode = nn.Linear(width, words, bias=False)
        self.decode.weight = self.words.weight

    def forward(self, x: Tensor) -> Tensor:
        places = torch.arange(x.shape[1], device=x.device)
        return self.decode(self.blocks(self.norm(self.words(x) + self.positions(places))))


class UNet(nn.Module):
    """The model of ``onnx_models.unet``: unpadded convolutions, skip connections cropped by slicing."""

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
    """The model of ``onnx_models.encoder``: an embedding and one block with normalization after it."""

    def __init__(self, width: int = 16, heads: int = 4, inner: int = 64, vocabulary: int = 50) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.block = block(width, heads, inner, norm_first=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.block(self.words(x))


NETWORKS: Mapping[str, Published] = {
    "vgg16": Published(vgg16, (1, 3, 224, 224), "15.470", 138357544),
    "resnet50": Published(resnet50, (1, 3, 224, 224), "4.089", 25557032),
    "densenet121": Published(densenet121, (1, 3, 224, 224), "2.834", 7978856),
    "mobilenet_v2": Published(mobilenet_v2, (1, 3, 224, 224), "0.301", 3504872),
    "mobilenet_v3_large": Published(mobilenet_v3_large, (1, 3, 224, 224), "0.217", 5483032),
    "inception_v3": Published(InceptionV3, (1, 3, 299, 299), "5.713", 27161264),
    "vit_b_16": Published(ViT, (1, 3, 224, 224), "17.564", 86567656),
}


def without_data(build: Callable[[], nn.Module]) -> nn.Module:
    """Build the network on the meta device, in inference mode."""
    with torch.device("meta"):
        return build().eval()
