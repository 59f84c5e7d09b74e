"""Small networks that use weights in every way that matters to autocast, each as a function that makes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

NETWORKS: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {}
"""The networks by name; each function returns one, and its input."""


def network(make: Callable[[], tuple[nn.Module, Tensor]]) -> Callable[[], tuple[nn.Module, Tensor]]:
    NETWORKS[make.__name__] = make
    return make


class Calls(nn.Module):
    """A network that is written as a function of its parts."""

    def __init__(self, forward: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self.calls = forward
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x: Tensor) -> Any:
        return self.calls(self, x)


@network
def mlp():
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 10)), torch.ones(
        4, 32
    )


@network
def sixteen_linears():
    return nn.Sequential(*(nn.Linear(64, 64, bias=False) for _ in range(16))), torch.ones(2, 64)


class Attention(nn.Module):
    def __init__(self, width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.qkv, self.out, self.dropout = nn.Linear(width, 3 * width), nn.Linear(width, width), dropout

    def forward(self, x: Tensor, is_causal: bool = False) -> Tensor:
        q, k, v = (part.unflatten(-1, (4, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        dropout = self.dropout if self.training else 0.0
        y = functional.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=is_causal)
        return self.out(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm1, self.attention, self.norm2 = nn.LayerNorm(width), Attention(width, dropout), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


@network
def one_layer_four_times():
    """As ALBERT."""

    def forward(net, x):
        y = net.to_width(net.embedding(x))
        for _ in range(4):
            y = net.block(y)
        return net.out(y)

    parts = {"embedding": nn.Embedding(50, 16), "to_width": nn.Linear(16, 32), "block": Block(32)}
    return Calls(forward, **parts, out=nn.Linear(32, 50)), torch.ones(2, 8, dtype=torch.int64)


@network
def a_tied_language_model():
    """As GPT-2."""

    def forward(net, x):
        y = net.tokens(x) + net.positions.weight[: x.shape[1]]
        for block in net.blocks:
            y = block(y)
        return functional.linear(net.norm(y), net.tokens.weight)

    parts = {"tokens": nn.Embedding(50, 32), "positions": nn.Embedding(16, 32), "norm": nn.LayerNorm(32)}
    net = Calls(forward, **parts, blocks=nn.ModuleList(Block(32, dropout=0.1) for _ in range(2)))
    return net, torch.ones(2, 9, dtype=torch.int64)


@network
def convolutions_of_all_kinds():
    def forward(net, x):
        for _ in range(2):
            x = net.prelu(net.back(net.conv(x)))
        image = net.same(net.up(x[..., None].expand(-1, -1, -1, 4)))
        return x.sum() + net.conv3d(image.unsqueeze(1)[..., :5, :5]).sum()

    parts = {"conv": nn.Conv1d(4, 8, 3), "back": nn.ConvTranspose1d(8, 4, 3), "prelu": nn.PReLU(4)}
    parts |= {
        "up": nn.ConvTranspose2d(4, 4, 2, 2),
        "same": nn.Conv2d(4, 4, 3, padding="same"),
        "conv3d": nn.Conv3d(1, 2, 3),
    }
    return Calls(forward, **parts), torch.ones(2, 4, 12)


@network
def weights_as_operands():
    """As they are, through views, and in products of every kind: only what is no view is kept."""

    def forward(net, x):
        w, v, b = net.w, net.v, net.b
        y = x @ w + x @ w.t()
        y = functional.linear(functional.linear(y, w[:], b), w[:16])
        y = torch.cat([y, y], -1)
        z = torch.einsum("bd,hde->bhe", y, v) + torch.einsum("bd,hde->bhe", y, v)
        many = y[None].expand(4, -1, -1)
        products = torch.addmm(b, y, w), z, torch.bmm(many, v), torch.baddbmm(v[:, :1], many, v)
        return sum(product.sum() for product in products)

    shapes = {"w": (32, 32), "v": (4, 32, 8), "b": (32,)}
    return Calls(forward, **{name: nn.Parameter(torch.ones(shape)) for name, shape in shapes.items()}), torch.ones(
        4, 32
    )


@network
def recurrent_cells():
    def forward(net, x):
        state = memory = x
        for _ in range(3):
            state, memory = net.lstm(x, (net.gru(x, state), memory))
        return state

    return Calls(forward, gru=nn.GRUCell(8, 8), lstm=nn.LSTMCell(8, 8)), torch.ones(2, 8)


@network
def weights_that_are_computed():
    norm = nn.utils.parametrizations.weight_norm
    return Calls(lambda net, x: net.layer(net.layer(x)), layer=norm(nn.Linear(16, 16))), torch.ones(3, 16)


@network
def frozen_and_half():
    """A weight without gradient is cast at every use, one in lower precision only if it is another."""
    layers = nn.Linear(16, 16).requires_grad_(False), nn.Linear(16, 16), nn.Linear(16, 16).bfloat16()
    once = nn.Sequential(*layers, nn.Linear(16, 16).half())
    return Calls(lambda net, x: net.once(net.once(x)), once=once), torch.ones(3, 16)


@network
def nested_blocks():
    """The copies live until the outermost block ends, or the program frees them; a block may keep none."""

    def forward(net, x):
        lower = torch.bfloat16
        with torch.autocast("cpu", lower):
            x = net.a(x)
            with torch.autocast("cpu", enabled=False):
                x = net.a(x.float())
            with torch.autocast("cpu", lower):
                x = net.a(net.a(x.float()))
            with torch.autocast("cpu", lower, cache_enabled=False):
                x = net.a(net.a(x.float()))
            torch.clear_autocast_cache()
            x = net.a(x)
        with torch.autocast("cpu", lower):
            return net.a(net.a(x))

    return Calls(forward, a=nn.Linear(16, 16)), torch.ones(3, 16)


@network
def with_and_without_gradients():
    def forward(net, x):
        with torch.no_grad():
            y = net.a(x)
        with torch.inference_mode():
            z = net.a(x)
        return net.a(x) + y + z.clone() + net.b(x)

    return Calls(forward, a=nn.Linear(16, 16), b=nn.Linear(16, 16)), torch.ones(3, 16)


@network
def checkpointed():
    def forward(net, x):
        return net.a(checkpoint(net.a, net.a(x), use_reentrant=False))

    return Calls(forward, a=nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16))), torch.ones(3, 16)


class Product(torch.autograd.Function):
    """A product that is computed in float32 under autocast, too."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        x, w = ctx.saved_tensors
        return gradients[0] @ w.t(), x.t() @ gradients[0]


@network
def a_function_of_the_user():
    def forward(net, x):
        return Product.apply(net.layer(x), net.weight) @ net.weight

    return Calls(forward, weight=nn.Parameter(torch.ones(16, 16)), layer=nn.Linear(16, 16)), torch.ones(3, 16)
