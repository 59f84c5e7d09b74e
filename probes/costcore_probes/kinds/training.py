"""Backward passes and optimizer steps. Only products whose gradients are needed run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..loops import Triple, attention, conv, conv_transpose, each, einsum, linear
from ..probe import Probe

__all__ = ["PROBES"]


def _x(b: Any, *shape: int) -> Any:
    """Return an input that requires a gradient."""
    return b.x(*shape).requires_grad_()


def _layer(b: Any, name: str, *arguments: int, **options: Any) -> Any:
    return getattr(b.nn, name)(*arguments, bias=False, **options)


def _lora(b: Any) -> Any:
    """Return a frozen linear layer with an adapter of rank 2."""
    return b.Fn(
        lambda self, x: self.frozen(x) + self.up(self.down(x)),
        frozen=b.freeze(_layer(b, "Linear", 8, 8)),
        down=_layer(b, "Linear", 8, 2),
        up=_layer(b, "Linear", 2, 8),
    )


def _chain(b: Any) -> Any:
    return b.nn.Sequential(_layer(b, "Linear", 9, 8), b.nn.ReLU(), _layer(b, "Linear", 8, 6))


def _step(b: Any, make: Any, network: Any) -> Any:
    """Return a function that makes one optimizer step. The gradients are already set."""
    for parameter in network.parameters():
        parameter.grad = b.torch.ones_like(parameter)
    optimizer = make(network.parameters())
    return lambda: optimizer.step(), ()


def _written(b: Any) -> Any:
    """Return attention written with matrix products and softmax."""
    return b.Fn(lambda self, q, k, v: b.F.softmax(q @ k.transpose(-2, -1), -1) @ v)


def _twice(triples: Iterator[Triple]) -> list[Triple]:
    """Return the products of the two gradients of a layer; each has as many as the forward pass."""
    return [*triples] * 2


PROBES = [
    Probe(
        "training.linear",
        "nn.Linear(7, 5) without bias on 6 rows; only the weight needs a gradient",
        "macs_backward",
        "6 rows * 5 * 7 weight",
        lambda: linear(6, 7, 5),
        torch=lambda b: (_layer(b, "Linear", 7, 5), (b.x(6, 7),)),
    ),
    Probe(
        "training.linear_input",
        "nn.Linear(7, 5) without bias on 6 rows that need a gradient",
        "macs_backward",
        "6 rows * 5 * 7 weight + 6 rows * 5 * 7 input",
        lambda: _twice(linear(6, 7, 5)),
        torch=lambda b: (_layer(b, "Linear", 7, 5), (_x(b, 6, 7),)),
    ),
    Probe(
        "training.linear_frozen",
        "a frozen nn.Linear(7, 5) without bias on 6 rows that need a gradient",
        "macs_backward",
        "6 rows * 5 * 7 input",
        lambda: linear(6, 7, 5),
        torch=lambda b: (b.freeze(_layer(b, "Linear", 7, 5)), (_x(b, 6, 7),)),
    ),
    Probe(
        "training.chain",
        "Linear(9, 8), ReLU, Linear(8, 6) without biases on 3 rows: the first needs no gradient of its input",
        "macs_backward",
        "3 rows * 9 * 8 first + 2 * 3 rows * 8 * 6 second",
        lambda: [*linear(3, 9, 8), *_twice(linear(3, 8, 6))],
        torch=lambda b: (_chain(b), (b.x(3, 9),)),
    ),
    Probe(
        "training.frozen_first",
        "Linear(9, 8) frozen, ReLU, Linear(8, 6): nothing flows back behind the second",
        "macs_backward",
        "3 rows * 8 * 6 weight",
        lambda: linear(3, 8, 6),
        torch=lambda b: (b.frozen_first(_chain(b)), (b.x(3, 9),)),
    ),
    Probe(
        "training.lora",
        "a frozen Linear(8, 8) and an adapter, 8 to 2 to 8, on 5 rows",
        "macs_backward",
        "5 rows * (8 * 2 up_weight + 8 * 2 up_input + 8 * 2 down_weight)",
        lambda: [*_twice(linear(5, 2, 8)), *linear(5, 8, 2)],
        torch=lambda b: (_lora(b), (b.x(5, 8),)),
    ),
    Probe(
        "training.matmul",
        "a @ b of (4, 6) and (6, 5), both of which need a gradient",
        "macs_backward",
        "2 * 4 * 5 * 6",
        lambda: _twice(einsum("ik,kj->ij", {"i": 4, "k": 6, "j": 5})),
        torch=lambda b: (b.Fn(lambda self, p, q: p @ q), (_x(b, 4, 6), _x(b, 6, 5))),
    ),
    Probe(
        "training.bmm",
        "torch.bmm of (3, 4, 5) and (3, 5, 6), of which the second needs a gradient",
        "macs_backward",
        "3 * 4 * 6 * 5",
        lambda: einsum("bik,bkj->bij", {"b": 3, "i": 4, "k": 5, "j": 6}),
        torch=lambda b: (b.Fn(lambda self, p, q: b.torch.bmm(p, q)), (b.x(3, 4, 5), _x(b, 3, 5, 6))),
    ),
    Probe(
        "training.attention",
        "attention written with @, of batch 2, 3 heads, 4 queries, 5 keys, 6 per head",
        "macs_backward",
        "4 products * 2 * 3 * 4 * 5 * 6",
        lambda: _twice(attention(2, 3, 4, 5, 6)),
        torch=lambda b: (_written(b), (_x(b, 2, 3, 4, 6), _x(b, 2, 3, 5, 6), _x(b, 2, 3, 5, 6))),
    ),
    Probe(
        "training.conv",
        "nn.Conv2d(3, 4, 3) without bias on 6 × 6; only the weight needs a gradient",
        "macs_backward",
        "4 * 4 * 4 places * 3 * 3 * 3",
        lambda: conv(1, 3, 4, (6, 6), (3, 3)),
        torch=lambda b: (_layer(b, "Conv2d", 3, 4, 3), (b.x(1, 3, 6, 6),)),
    ),
    Probe(
        "training.conv_input",
        "nn.Conv2d(3, 4, 3) without bias on 6 × 6 that need a gradient",
        "macs_backward",
        "2 * 4 * 4 * 4 places * 3 * 3 * 3",
        lambda: _twice(conv(1, 3, 4, (6, 6), (3, 3))),
        torch=lambda b: (_layer(b, "Conv2d", 3, 4, 3), (_x(b, 1, 3, 6, 6),)),
    ),
    Probe(
        "training.conv_grouped",
        "nn.Conv2d(4, 6, 3, groups=2) without bias on 6 × 6 that need a gradient",
        "macs_backward",
        "2 * 6 * 4 * 4 places * (4 // 2) * 3 * 3",
        lambda: _twice(conv(1, 4, 6, (6, 6), (3, 3), groups=2)),
        torch=lambda b: (_layer(b, "Conv2d", 4, 6, 3, groups=2), (_x(b, 1, 4, 6, 6),)),
    ),
    Probe(
        "training.conv_transpose",
        "nn.ConvTranspose2d(4, 2, 2, stride=2) without bias on 3 × 3 that need a gradient",
        "macs_backward",
        "2 * 4 * 3 * 3 places * 2 * 2 * 2",
        lambda: _twice(conv_transpose(1, 4, 2, (3, 3), (2, 2), stride=2)),
        torch=lambda b: (_layer(b, "ConvTranspose2d", 4, 2, 2, stride=2), (_x(b, 1, 4, 3, 3),)),
    ),
    Probe(
        "training.shared",
        "one nn.Linear(6, 6) without bias that runs twice on 3 rows",
        "macs_backward",
        "2 * 3 * 6 * 6 second + 3 * 6 * 6 first",
        lambda: [*linear(3, 6, 6)] * 3,
        torch=lambda b: (b.repeated(_layer(b, "Linear", 6, 6), 2), (b.x(3, 6),)),
    ),
    Probe(
        "training.embedding",
        "nn.Embedding(10, 4) and Linear(4, 6) without bias on 3 tokens: rows are added, not multiplied",
        "macs_backward",
        "2 * 3 * 4 * 6",
        lambda: _twice(linear(3, 4, 6)),
        torch=lambda b: (b.nn.Sequential(b.nn.Embedding(10, 4), _layer(b, "Linear", 4, 6)), (b.ids(3, below=10),)),
    ),
    Probe(
        "training.rnn_cells",
        "nn.GRUCell(4, 5, bias=False) in a loop over 3 steps of 2 rows; the first state and the "
        "inputs need no gradient",
        "macs_backward",
        "3 steps * 2 * 15 * 4 + (2 * 3 - 1) * 2 * 15 * 5",
        lambda: [*linear(6, 4, 15), *[*linear(2, 5, 15)] * 5],
        torch=lambda b: (b.unrolled(b.nn.GRUCell(4, 5, bias=False)), (b.x(3, 2, 4), b.x(2, 5))),
    ),
    Probe(
        "training.sgd",
        "one step of torch.optim.SGD without momentum, on a weight (5, 7) and its bias",
        "optimizer_fma",
        "5 * 7 + 5",
        lambda: [*each(5, 7), *each(5)],
        torch=lambda b: _step(b, lambda p: b.torch.optim.SGD(p, lr=0.1), b.nn.Linear(7, 5)),
    ),
    Probe(
        "training.sgd_frozen",
        "one step of torch.optim.SGD on the only trainable of two layers, (3, 8) and its bias",
        "optimizer_fma",
        "3 * 8 + 3",
        lambda: [*each(3, 8), *each(3)],
        torch=lambda b: _step(b, lambda p: b.torch.optim.SGD(p, lr=0.1), b.nn.Linear(8, 3)),
    ),
]
