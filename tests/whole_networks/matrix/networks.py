"""Forty small networks of the kinds people use: name -> how to make one, and its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn

from tests.frontends.pytorch.training_networks import Decoder, with_adapters
from tests.whole_networks.random_models import Gated, Joined, Sum, network


class Network(NamedTuple):
    """A network with real inputs, on which it runs in a moment."""

    build: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Any, ...]]


class Of(nn.Module):
    """A module whose forward is a function of the module and its inputs."""

    def __init__(self, forward: Callable[..., Any], **modules: nn.Module) -> None:
        super().__init__()
        self._forward = forward
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, *inputs: Any) -> Any:
        return self._forward(self, *inputs)


def conv(cin: int, cout: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> nn.Module:
    layers = nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(cout)
    return nn.Sequential(*layers, nn.ReLU(inplace=True))


def classified(width: int, *features: nn.Module) -> nn.Module:
    return nn.Sequential(*features, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 5))


def residual(width: int) -> nn.Module:
    return Sum(nn.Sequential(conv(width, width), nn.Conv2d(width, width, 3, padding=1)), nn.Identity())


def inverted(width: int) -> nn.Module:
    body = conv(width, 2 * width, 1), conv(2 * width, 2 * width, groups=2 * width), nn.Conv2d(2 * width, width, 1)
    return Sum(nn.Sequential(*body), nn.Identity())


def convnext(width: int) -> nn.Module:
    def forward(m: nn.Module, x: Tensor) -> Tensor:
        y = m.norm(m.depthwise(x).permute(0, 2, 3, 1))
        return x + m.down(F.gelu(m.up(y))).permute(0, 3, 1, 2)

    layers = {"depthwise": nn.Conv2d(width, width, 7, padding=3, groups=width), "norm": nn.LayerNorm(width)}
    return Of(forward, **layers, up=nn.Linear(width, 2 * width), down=nn.Linear(2 * width, width))


def unet() -> nn.Module:
    def forward(m: nn.Module, x: Tensor) -> Tensor:
        outer = m.first(x)
        inner = m.second(F.max_pool2d(outer, 2))
        return m.last(torch.cat([outer, m.up(inner)], 1))

    layers = {"first": conv(3, 4), "second": conv(4, 8), "up": nn.ConvTranspose2d(8, 4, 2, 2)}
    return Of(forward, **layers, last=nn.Conv2d(8, 2, 1))


def pyramid() -> nn.Module:
    def forward(m: nn.Module, x: Tensor) -> list[Tensor]:
        a = m.first(x)
        b = m.second(a)
        top = m.top(b)
        low = m.low(a) + F.interpolate(top, scale_factor=2.0, mode="nearest")
        return [m.head(level) for level in (low, top)]

    layers = {"first": conv(3, 4, stride=2), "second": conv(4, 8, stride=2), "top": nn.Conv2d(8, 4, 1)}
    return Of(forward, **layers, low=nn.Conv2d(4, 4, 1), head=nn.Conv2d(4, 6, 3, padding=1))


def segmentation() -> nn.Module:
    def forward(m: nn.Module, x: Tensor) -> Tensor:
        y = m.features(x)
        pooled = m.pooled(F.adaptive_avg_pool2d(y, 1)).expand(-1, -1, *y.shape[2:])
        y = m.head(torch.cat([m.wide(y), pooled], 1))
        return F.interpolate(y, size=x.shape[2:], mode="bilinear", align_corners=False)

    layers = {"features": nn.Sequential(conv(3, 4, stride=2), conv(4, 8)), "pooled": nn.Conv2d(8, 4, 1)}
    return Of(forward, **layers, wide=nn.Conv2d(8, 4, 3, padding=2, dilation=2), head=nn.Conv2d(8, 3, 1))


def tcn() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv1d(2, 6, 1)]
    for dilation in (1, 2, 4):
        body = nn.ConstantPad1d((2 * dilation, 0), 0.0), nn.Conv1d(6, 6, 3, dilation=dilation), nn.PReLU()
        layers.append(Sum(nn.Sequential(*body), nn.Identity()))
    return nn.Sequential(*layers, nn.Conv1d(6, 1, 1))


def video() -> nn.Module:
    features = nn.Conv3d(3, 4, 3, padding=1), nn.BatchNorm3d(4), nn.ReLU(), nn.MaxPool3d((1, 2, 2))
    return nn.Sequential(*features, nn.Conv3d(4, 6, (3, 1, 1)), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(6, 4))


def tagger(kind: type[nn.Module], **options: Any) -> nn.Module:
    width = 6 * (1 + options.get("bidirectional", False))
    layers = {"words": nn.Embedding(20, 5), "rnn": kind(5, 6, batch_first=True, **options), "out": nn.Linear(width, 4)}
    return Of(lambda m, ids: m.out(m.rnn(m.words(ids))[0]), **layers)


def cells() -> nn.Module:
    def forward(m: nn.Module, x: Tensor) -> Tensor:
        h = c = x.new_zeros(x.shape[0], 6)
        for step in x.unbind(1):
            h, c = m.cell(step, (h, c))
        return m.out(h)

    return Of(forward, cell=nn.LSTMCell(4, 6), out=nn.Linear(6, 2))


def translator() -> nn.Module:
    core = nn.Transformer(8, 2, 1, 1, 16, batch_first=True)
    return Of(
        lambda m, a, b: m.out(m.core(m.words(a), m.words(b))),
        words=nn.Embedding(11, 8),
        core=core,
        out=nn.Linear(8, 11),
    )


def vit() -> nn.Module:
    class Vit(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, 8, 4, 4)
            self.token, self.places = nn.Parameter(torch.zeros(1, 1, 8)), nn.Parameter(torch.zeros(1, 17, 8))
            layer = nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", batch_first=True, norm_first=True)
            self.layers = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8), enable_nested_tensor=False)
            self.head = nn.Linear(8, 5)

        def forward(self, x: Tensor) -> Tensor:
            y = self.patches(x).flatten(2).transpose(1, 2)
            y = torch.cat([self.token.expand(len(y), -1, -1), y], 1) + self.places
            return self.head(self.layers(y)[:, 0])

    return Vit()


def windows() -> nn.Module:
    def forward(m: nn.Module, x: Tensor) -> Tensor:
        n, h, w, c = x.shape
        y = torch.roll(m.norm(x), (-2, -2), (1, 2))
        y = y.view(n, h // 4, 4, w // 4, 4, c).transpose(2, 3).reshape(-1, 16, c)
        q, k, v = m.qkv(y).unflatten(-1, (3, 2, c // 2)).permute(2, 0, 3, 1, 4)
        y = m.out((F.softmax(q @ k.mT * c**-0.5, -1) @ v).transpose(1, 2).flatten(2))
        y = y.view(n, h // 4, w // 4, 4, 4, c).transpose(2, 3).reshape(n, h, w, c)
        return x + torch.roll(y, (2, 2), (1, 2))

    return Of(forward, norm=nn.LayerNorm(8), qkv=nn.Linear(8, 24), out=nn.Linear(8, 8))


def experts() -> nn.Module:
    def forward(m: nn.Module, x: Tensor) -> Tensor:
        weights, chosen = m.router(x).softmax(-1).topk(2)
        y = torch.zeros_like(x)
        for i, expert in enumerate(m.experts):
            rows, place = torch.where(chosen == i)
            y.index_add_(0, rows, expert(x[rows]) * weights[rows, place, None])
        return y

    return Of(forward, router=nn.Linear(8, 4), experts=nn.ModuleList(nn.Linear(8, 8) for _ in range(4)))


class RotaryBlock(nn.Module):
    """Attention with rotary positions, grouped keys and a gated perceptron, as in Llama."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.RMSNorm(16), nn.Linear(16, 32, bias=False), nn.Linear(16, 16, bias=False)
        self.gate, self.up, self.down = nn.Linear(16, 24), nn.Linear(16, 24), nn.Linear(24, 16)
        self.register_buffer("angles", torch.outer(torch.arange(12.0), torch.tensor([1.0, 0.1])))

    def rotated(self, x: Tensor) -> Tensor:
        a, b = x.chunk(2, -1)
        cos, sin = self.angles.cos(), self.angles.sin()
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (-1, 4)).transpose(1, 2) for t in self.qkv(self.norm(x)).split((16, 8, 8), -1))
        k, v = (t.repeat_interleave(2, 1) for t in (self.rotated(k), v))
        x = x + self.out(
            F.scaled_dot_product_attention(self.rotated(q), k, v, is_causal=True).transpose(1, 2).flatten(2)
        )
        return x + self.down(F.silu(self.gate(x)) * self.up(x))


def mixer() -> nn.Module:
    tokens = nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 6))
    channels = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
    return Of(lambda m, x: (y := x + m.tokens(x.mT).mT) + m.channels(y), tokens=tokens, channels=channels)


def vae() -> nn.Module:
    def forward(m: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, log = m.encoder(x).chunk(2, -1)
        z = mean + torch.randn_like(mean) * (log / 2).exp()
        return torch.sigmoid(m.decoder(z)), (1 + log - mean**2 - log.exp()).sum() / -2

    return Of(forward, encoder=nn.Linear(12, 8), decoder=nn.Sequential(nn.Linear(4, 12), nn.Tanh(), nn.Linear(12, 12)))


def generator() -> nn.Module:
    up = [nn.ConvTranspose2d(8, 4, 4, 2, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU(True)]
    return nn.Sequential(nn.Linear(5, 128), nn.Unflatten(1, (8, 4, 4)), *up, nn.Conv2d(4, 3, 3, padding=1), nn.Tanh())


def siamese() -> nn.Module:
    encoder = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))
    return Of(lambda m, a, b: F.cosine_similarity(m.encoder(a), m.encoder(b)), encoder=encoder)


def tied() -> nn.Module:
    head = nn.Linear(8, 11, bias=False)
    words = nn.Embedding(11, 8)
    head.weight = words.weight
    return Of(lambda m, ids: m.head(m.norm(m.words(ids))), words=words, norm=nn.LayerNorm(8), head=head)


def sampler() -> nn.Module:
    def forward(m: nn.Module, x: Tensor) -> Tensor:
        theta = m.place(x.flatten(1)).view(-1, 2, 3)
        return m.net(F.grid_sample(x, F.affine_grid(theta, list(x.shape), align_corners=False), align_corners=False))

    return Of(forward, place=nn.Linear(3 * 64, 6), net=conv(3, 4))


def graph() -> nn.Module:
    def forward(m: nn.Module, x: Tensor, edges: Tensor) -> Tensor:
        source, target = edges
        gathered = torch.zeros_like(x).index_add_(0, target, x[source])
        return m.second(F.relu(m.first(gathered + x))).scatter_reduce(
            0, target[:, None].expand(-1, 4), x[:, :4], "amax"
        )

    return Of(forward, first=nn.Linear(6, 8), second=nn.Linear(8, 4))


def diffusion() -> nn.Module:
    def forward(m: nn.Module, x: Tensor, t: Tensor) -> Tensor:
        angles = t[:, None] * torch.exp(torch.arange(4, device=x.device) * -1.0)
        shift = m.time(torch.cat([angles.sin(), angles.cos()], -1))[:, :, None, None]
        return x + m.second(F.silu(m.norm(m.first(x) + shift)))

    layers = {"time": nn.Linear(8, 4), "first": nn.Conv2d(4, 4, 3, padding=1), "norm": nn.GroupNorm(2, 4)}
    return Of(forward, **layers, second=nn.Conv2d(4, 4, 3, padding=1))


def state_space() -> nn.Module:
    def forward(m: nn.Module, x: Tensor) -> Tensor:
        u = F.silu(m.conv(x.mT)[..., : x.shape[1]].mT)
        dt, b, c = m.select(u).split((8, 2, 2), -1)
        h, steps = x.new_zeros(len(x), 8, 2), []
        for i in range(x.shape[1]):
            h = h * torch.exp(-F.softplus(dt[:, i, :, None])) + u[:, i, :, None] * b[:, i, None]
            steps.append((h * c[:, i, None]).sum(-1))
        return m.out(torch.stack(steps, 1))

    return Of(forward, conv=nn.Conv1d(8, 8, 3, padding=2, groups=8), select=nn.Linear(8, 12), out=nn.Linear(8, 8))


def points() -> nn.Module:
    return Of(lambda m, x: m.head(m.each(x).amax(2)), each=nn.Conv1d(3, 8, 1), head=nn.Linear(8, 4))


def images(n: int = 2, size: int = 8, channels: int = 3) -> Callable[[], tuple[Any, ...]]:
    return lambda: (torch.ones(n, channels, size, size),)


def floats(*shapes: tuple[int, ...]) -> Callable[[], tuple[Any, ...]]:
    return lambda: tuple(map(torch.ones, shapes))


def ids(*shapes: tuple[int, ...]) -> Callable[[], tuple[Any, ...]]:
    return lambda: tuple(torch.ones(shape, dtype=torch.int64) for shape in shapes)


def encoder() -> nn.Module:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)


def decoder() -> nn.Module:
    return nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), 2)


NETWORKS: dict[str, Network] = {
    "perceptron": Network(lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)), floats((4, 6))),
    "convolutions": Network(lambda: classified(8, conv(3, 4), nn.MaxPool2d(2), conv(4, 8)), images()),
    "residual": Network(lambda: classified(4, conv(3, 4), residual(4), residual(4)), images()),
    "inverted residual": Network(lambda: classified(4, conv(3, 4), inverted(4)), images()),
    "squeeze and excite": Network(lambda: classified(4, conv(3, 4), Gated(4, 2)), images()),
    "dense": Network(lambda: classified(7, Joined(nn.Identity(), conv(3, 4))), images()),
    "inception": Network(lambda: classified(8, Joined(conv(3, 4, 1), conv(3, 4, 3))), images()),
    "convnext": Network(lambda: classified(4, conv(3, 4), convnext(4)), images()),
    "unet": Network(unet, images()),
    "pyramid": Network(pyramid, images()),
    "segmentation": Network(segmentation, images()),
    "super resolution": Network(lambda: nn.Sequential(conv(3, 4), nn.Conv2d(4, 12, 3), nn.PixelShuffle(2)), images()),
    "instance norm": Network(lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.InstanceNorm2d(4), nn.Mish()), images()),
    "dilated sequence": Network(tcn, floats((2, 2, 10))),
    "video": Network(video, floats((1, 3, 4, 6, 6))),
    "lstm": Network(lambda: tagger(nn.LSTM, num_layers=2), ids((2, 5))),
    "two-way gru": Network(lambda: tagger(nn.GRU, bidirectional=True), ids((2, 5))),
    "elman": Network(lambda: tagger(nn.RNN), ids((2, 5))),
    "lstm cells": Network(cells, floats((2, 3, 4))),
    "bag of words": Network(lambda: nn.Sequential(nn.EmbeddingBag(9, 4), nn.Linear(4, 2)), ids((2, 5))),
    "encoder": Network(encoder, floats((2, 5, 8))),
    "decoder": Network(decoder, floats((2, 3, 8), (2, 5, 8))),
    "translator": Network(translator, ids((2, 3), (2, 4))),
    "vit": Network(vit, images(2, 16)),
    "windows": Network(windows, floats((2, 8, 8, 8))),
    "language model": Network(Decoder, ids((2, 16))),
    "adapters": Network(lambda: with_adapters(2), ids((2, 16))),
    "rotary block": Network(RotaryBlock, floats((2, 12, 16))),
    "experts": Network(experts, floats((6, 8))),
    "mixer": Network(mixer, floats((2, 6, 8))),
    "variational autoencoder": Network(vae, floats((2, 12))),
    "generator": Network(generator, floats((2, 5))),
    "siamese": Network(siamese, floats((3, 6), (3, 6))),
    "tied words": Network(tied, ids((2, 5))),
    "spatial transformer": Network(sampler, images()),
    "graph": Network(graph, lambda: (torch.ones(5, 6), torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]]))),
    "diffusion": Network(diffusion, lambda: (torch.ones(2, 4, 8, 8), torch.tensor([1.0, 2.0]))),
    "state space": Network(state_space, floats((2, 4, 8))),
    "points": Network(points, floats((2, 3, 7))),
    "random layers": Network(lambda: network(5)[0], lambda: (network(5)[1],)),
}
