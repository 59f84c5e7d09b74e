"""Modules that run several times, parameters that are shared or frozen, views and writes in place."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..loops import each, linear
from ..probe import Probe

__all__ = ["PROBES"]


def _linear(b: Any, inputs: int, outputs: int) -> Any:
    return b.nn.Linear(inputs, outputs, bias=False)


def _tied(b: Any) -> Any:
    """Return an embedding of 10 × 4 and a head that has the same weight."""
    net = b.Fn(lambda self, i: self.head(self.table(i)), table=b.nn.Embedding(10, 4), head=_linear(b, 4, 10))
    net.head.weight = net.table.weight
    return net, (b.ids(3, below=10),)


def _aliased(b: Any) -> Any:
    """Return a network that holds one linear layer under two parents, and runs it under both."""
    layer = _linear(b, 6, 6)
    return b.nn.Sequential(b.nn.Sequential(layer), b.nn.Sequential(layer)), (b.x(3, 6),)


def _twice(b: Any) -> Any:
    return b.Fn(lambda self, x: self.layer(self.layer(x)), layer=_linear(b, 6, 6)), (b.x(3, 6),)


def _frozen(b: Any) -> Any:
    return b.nn.Sequential(b.freeze(b.nn.Linear(6, 8)), b.nn.Linear(8, 3)), (b.x(2, 6),)


def _unused(b: Any) -> Any:
    return b.Fn(lambda self, x: self.used(x), used=_linear(b, 6, 5), unused=_linear(b, 6, 9)), (b.x(3, 6),)


def _in_place(b: Any) -> Any:
    return b.Fn(lambda self, x: self.layer(x).add_(1).relu_().mul_(2), layer=_linear(b, 6, 5)), (b.x(3, 6),)


def _views(b: Any) -> Any:
    return b.Fn(lambda self, x: self.layer(x.view(6, 4).t()[1:].reshape(-1, 6)), layer=_linear(b, 6, 5)), (b.x(24),)


def _siamese(b: Any) -> Any:
    return b.Fn(lambda self, x, z: self.layer(x) - self.layer(z), layer=_linear(b, 6, 5)), (b.x(3, 6), b.x(2, 1, 6))


def _encoder(b: Any) -> Any:
    layer = b.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return layer, (b.x(1, 3, 8),)


Net = Callable[[Any], Any]

NETS: dict[str, tuple[str, Net]] = {
    "twice": ("one nn.Linear(6, 6) without bias that runs twice on 3 rows", _twice),
    "aliased": (
        "one nn.Linear(6, 6) without bias in two containers, which run one after the other on 3 rows",
        _aliased,
    ),
    "tied": ("an nn.Embedding(10, 4) and a head with the same weight, on 3 tokens", _tied),
    "frozen": ("a frozen nn.Linear(6, 8) and a trainable nn.Linear(8, 3), with biases, on 2 rows", _frozen),
    "unused": ("nn.Linear(6, 5) on 3 rows, and an nn.Linear(6, 9) that never runs, without biases", _unused),
    "siamese": ("one nn.Linear(6, 5) without bias on 3 rows, and on 2 × 1 others", _siamese),
    "in_place": ("nn.Linear(6, 5) without bias on 3 rows, then add_, relu_ and mul_", _in_place),
    "views": ("nn.Linear(6, 5) without bias on 3 rows, after a view, a transpose and a slice", _views),
    "batch_norm": (
        "nn.BatchNorm2d(7), whose running statistics are buffers",
        lambda b: (b.nn.BatchNorm2d(7), (b.x(2, 7, 3, 3),)),
    ),
    "prelu": ("nn.PReLU(5), one slope for each channel", lambda b: (b.nn.PReLU(5), (b.x(2, 5),))),
    "conv": ("nn.Conv2d(4, 6, 3, groups=2) with bias", lambda b: (b.nn.Conv2d(4, 6, 3, groups=2), (b.x(1, 4, 5, 5),))),
    "lstm": ("nn.LSTM(4, 6) with both biases", lambda b: (b.nn.LSTM(4, 6), (b.x(2, 1, 4),))),
    "bare": (
        "a weight (5, 7) that belongs to the root module",
        lambda b: (b.Fn(lambda self, x: x @ self.w, w=b.x(5, 7)), (b.x(2, 5),)),
    ),
    "encoder": ("nn.TransformerEncoderLayer(8, 2, 16)", _encoder),
}

ASKED: list[tuple[str, str, str, Callable[[], Iterable[Any]]]] = [
    ("twice", "macs", "2 times * 3 rows * 6 * 6", lambda: [*linear(3, 6, 6)] * 2),
    ("twice", "params", "6 * 6", lambda: each(6, 6)),
    ("aliased", "macs", "2 times * 3 rows * 6 * 6", lambda: [*linear(3, 6, 6)] * 2),
    ("aliased", "params", "6 * 6", lambda: each(6, 6)),
    ("tied", "macs", "3 tokens * 10 * 4", lambda: linear(3, 4, 10)),
    ("tied", "params", "10 * 4", lambda: each(10, 4)),
    ("frozen", "params", "6 * 8 + 8 + 8 * 3 + 3", lambda: [*each(6, 8), *each(8), *each(8, 3), *each(3)]),
    ("frozen", "trainable_params", "8 * 3 + 3", lambda: [*each(8, 3), *each(3)]),
    ("unused", "macs", "3 rows * 6 * 5", lambda: linear(3, 6, 5)),
    ("unused", "params", "6 * 5 + 6 * 9", lambda: [*each(6, 5), *each(6, 9)]),
    ("siamese", "macs", "(3 + 2) rows * 6 * 5", lambda: linear(5, 6, 5)),
    ("in_place", "macs", "3 rows * 6 * 5", lambda: linear(3, 6, 5)),
    ("views", "macs", "3 rows * 6 * 5", lambda: linear(3, 6, 5)),
    ("batch_norm", "params", "7 scales + 7 shifts", lambda: [*each(7), *each(7)]),
    ("prelu", "params", "5 slopes", lambda: each(5)),
    ("conv", "params", "6 * (4 // 2) * 3 * 3 + 6", lambda: [*each(6, 2, 3, 3), *each(6)]),
    ("lstm", "params", "4 gates * 6 * (4 + 6 + 2 biases)", lambda: [*each(24, 4), *each(24, 6), *each(24), *each(24)]),
    ("bare", "params", "5 * 7", lambda: each(5, 7)),
    (
        "encoder",
        "params",
        "3 * 8 * 8 + 3 * 8 + 8 * 8 + 8 + 16 * 8 + 16 + 8 * 16 + 8 + 2 norms * 2 * 8",
        lambda: [
            *(i for shape in ((24, 8), (24,), (8, 8), (8,), (16, 8), (16,), (8, 16), (8,)) for i in each(*shape)),
            *each(2, 2, 8),
        ],
    ),
]

PROBES = [
    Probe(
        f"sharing.{name}_{quantity}",
        NETS[name][0],
        quantity,
        derivation,
        loops,
        torch=NETS[name][1],
        extras={"tied": {"table_per_item": 120}, "in_place": {"multiply": 3 * 5}}.get(name, {}),
    )
    for name, quantity, derivation, loops in ASKED
]
