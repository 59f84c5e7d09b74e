"""Fifty-six odd programs, each with one thing that networks rarely do: name -> how to make it, and its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

from tests.whole_networks.matrix.networks import Network, Of, floats, ids, images


class Twice(torch.autograd.Function):
    """A function with a backward of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * gradients[0]


def of(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Network:
    """A program without a layer, of float inputs of these shapes."""
    return Network(lambda: Of(lambda _, *inputs: function(*inputs)), floats(*shapes))


def with_layer(forward: Callable[..., Any]) -> Network:
    """A program around a layer ``m.layer`` from 6 to 6 features, of an input of four rows."""
    return Network(lambda: Of(forward, layer=nn.Linear(6, 6)), floats((4, 6)))


def updated(x: Tensor) -> Tensor:
    y = x.clone()
    y[:, 1:3] += 1
    y.mul_(2).clamp_(min=0)
    y[0] = y[1]
    return y


def branch(m: nn.Module, x: Tensor) -> Tensor:
    return m.layer(x) if x.sum() > 0 else x


def hooked() -> nn.Module:
    layer = nn.Linear(6, 6)
    layer.register_forward_hook(lambda module, inputs, output: output * 2)
    return layer


def unused() -> nn.Module:
    return Of(lambda m, x: m.a(x), a=nn.Linear(6, 6), b=nn.Linear(6, 9))


def frozen() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 6).requires_grad_(False), nn.ReLU(), nn.Linear(6, 2))


def counted() -> nn.Module:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
            self.layer = nn.Linear(6, 6)

        def forward(self, x: Tensor) -> Tensor:
            self.steps += 1
            return self.layer(x) / self.steps

    return Counter()


def scaled() -> nn.Module:
    class Scale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(()))

        def forward(self, x: Tensor) -> Tensor:
            return x * self.scale

    return Scale()


def by_name(m: nn.Module, x: Tensor) -> dict[str, Any]:
    y = m.layer(x)
    return {"y": y, "pair": (y.relu(), None), "number": 3}


def packed(m: nn.Module, x: Tensor) -> Tensor:
    sequences = nn.utils.rnn.pack_padded_sequence(x, [3, 2], batch_first=True)
    return nn.utils.rnn.pad_packed_sequence(m.rnn(sequences)[0], batch_first=True)[0]


def pooled_and_back(x: Tensor) -> Tensor:
    y, places = F.max_pool2d(x, 2, return_indices=True)
    return F.max_unpool2d(y, places, 2)


def repeated(m: nn.Module, x: Tensor) -> Tensor:
    for _ in range(3):
        x = m.layer(x)
    return x


PROGRAMS: dict[str, Network] = {
    "nothing": of(lambda x: x, (2, 3)),
    "views only": of(lambda x: x.view(3, 2).t()[None], (2, 3)),
    "no input": Network(lambda: Of(lambda m: m.layer.weight.sum(), layer=nn.Linear(3, 2)), tuple),
    "a number": of(lambda x: x.sum(), (3,)),
    "a scalar": of(lambda x: x * 2 + 1, ()),
    "an empty batch": Network(lambda: nn.Linear(6, 3), floats((0, 6))),
    "a comparison of tensors": of(lambda x: (torch.equal(x, x), x + 1), (2, 3)),
    "close tensors": of(lambda x: x.relu() if torch.allclose(x, x) else x, (2, 3)),
    "a branch over data": with_layer(branch),
    "changes in place": of(updated, (4, 5)),
    "a strided view": of(lambda x: torch.as_strided(x, (2, 2), (3, 1)).exp(), (4, 5)),
    "an expanded row": of(lambda x, y: x.expand(5, 4).add(y), (1, 4), (5, 4)),
    "indices of nonzeros": of(lambda x: x[x > 0].sum() + torch.nonzero(x).sum(), (3, 4)),
    "distinct values": of(lambda x: torch.unique(x, return_inverse=True), (3, 4)),
    "a sort": of(lambda x: x.sort(-1)[0] + x.topk(4)[0], (3, 4)),
    "a choice": of(lambda x: torch.where(x > 0, x, -x).gather(1, x.argmax(1, keepdim=True)), (3, 4)),
    "scattered values": of(
        lambda x: torch.zeros(5, 4, device=x.device).index_put((torch.tensor([0, 2, 4]),), x), (3, 4)
    ),
    "cumulative sums": of(lambda x: x.cumsum(1).logcumsumexp(0), (3, 4)),
    "a spectrum": of(lambda x: torch.fft.irfft(torch.fft.rfft(x) * 2), (3, 8)),
    "complex numbers": of(lambda x: torch.complex(x, x) @ torch.complex(x, -x).mT, (3, 4)),
    "einsum": of(lambda x, y: torch.einsum("bij,bkj->bik", x, y), (2, 3, 4), (2, 5, 4)),
    "an outer product": of(lambda x, y: torch.einsum("i,j->ij", x, y), (3,), (4,)),
    "distances": of(torch.cdist, (3, 4), (5, 4)),
    "linear algebra": of(lambda x: torch.linalg.solve(x @ x.mT + 9 * torch.eye(4, device=x.device), x), (4, 4)),
    "bilinear form": Network(lambda: nn.Bilinear(3, 4, 2), floats((5, 3), (5, 4))),
    "pooled and back": of(pooled_and_back, (1, 2, 4, 4)),
    "patches": of(lambda x: F.fold(F.unfold(x, 2), (5, 5), 2), (1, 2, 5, 5)),
    "paddings": of(lambda x: F.pad(F.pad(x, (1, 1), "reflect"), (2, 0), "circular"), (1, 2, 5)),
    "resized": of(lambda x: F.interpolate(x, scale_factor=1.5, mode="bicubic"), (1, 2, 4, 4)),
    "a mask": with_layer(lambda m, x: m.layer(x).masked_fill(torch.eye(4, 6, dtype=torch.bool, device=x.device), 0.0)),
    "losses": of(
        lambda x, y: F.mse_loss(x, y) + F.kl_div(x.log_softmax(1), y.softmax(1), reduction="sum"), (3, 4), (3, 4)
    ),
    "integers": Network(lambda: Of(lambda _, x: (x * 2 + 1) // 3 % 2), ids((3, 4))),
    "double precision": Network(lambda: nn.Linear(6, 3).double(), lambda: (torch.ones(2, 6, dtype=torch.float64),)),
    "bfloat16": Network(lambda: nn.Linear(6, 3).bfloat16(), lambda: (torch.ones(2, 6, dtype=torch.bfloat16),)),
    "channels last": Network(
        lambda: nn.Conv2d(3, 4, 3), lambda: (torch.ones(1, 3, 6, 6).to(memory_format=torch.channels_last),)
    ),
    "wide groups": Network(lambda: nn.Conv2d(4, 8, 3, 2, 2, 2, 4), images(1, 9, 4)),
    "a wide transposed convolution": Network(
        lambda: nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, 2, dilation=2), images(1, 5, 4)
    ),
    "one layer thrice": with_layer(repeated),
    "a layer that is never called": Network(unused, floats((4, 6))),
    "a frozen layer": Network(frozen, floats((4, 6))),
    "a detached input": with_layer(lambda m, x: m.layer(x.relu().detach())),
    "recomputation": with_layer(lambda m, x: checkpoint(lambda y: F.gelu(m.layer(y)), x, use_reentrant=False)),
    "a gradient of one's own": with_layer(lambda m, x: Twice.apply(m.layer(x))),
    "a hook that changes the output": Network(hooked, floats((4, 6))),
    "a buffer that counts": Network(counted, floats((4, 6))),
    "a scalar parameter": Network(scaled, floats((4, 6))),
    "a normalized weight": Network(lambda: parametrizations.weight_norm(nn.Linear(6, 3)), floats((4, 6))),
    "outputs by name": with_layer(by_name),
    "other weights": with_layer(
        lambda m, x: functional_call(m.layer, {"weight": torch.ones(6, 6, device=x.device)}, (x,))
    ),
    "a mapped function": with_layer(lambda m, x: vmap(lambda row: row.exp() @ m.layer.weight)(x)),
    "mixed precision": with_layer(lambda m, x: torch.autocast(x.device.type, torch.bfloat16)(m.layer)(x)),
    "packed sequences": Network(lambda: Of(packed, rnn=nn.LSTM(4, 5, batch_first=True)), floats((2, 3, 4))),
    "a given state": Network(lambda: nn.GRU(4, 5), floats((3, 2, 4), (1, 2, 5))),
    "a running median": of(lambda x: x.median(1)[0] + x.quantile(0.5, 1), (3, 4)),
    "dropout": Network(lambda: nn.Sequential(nn.Dropout(), nn.Linear(6, 6), nn.AlphaDropout()), floats((4, 6))),
    "attention with a mask": of(
        lambda x: F.scaled_dot_product_attention(x, x, x, torch.ones(5, 5, dtype=torch.bool, device=x.device)),
        (2, 2, 5, 4),
    ),
}
