"""Bytes that operators read and write, the peak of memory, and receptive fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..loops import each
from ..probe import Probe

__all__ = ["PROBES"]


def field(*layers: tuple[int, ...]) -> Iterator[int]:
    """Yield the input rows that one output row depends on. Each layer is (kernel, stride, dilation)."""
    rows = {0}
    for kernel, stride, dilation in reversed(layers):
        rows = {row * stride + tap * dilation for row in rows for tap in range(kernel)}
    return iter(range(min(rows), max(rows) + 1))


def _float32(*sizes: int) -> list[Any]:
    """Return one item per byte of this many float32 numbers."""
    return [*each(4, sum(sizes))]


def _bytes(name: str, network: str, read: str, written: str, reads: int, writes: int, layer: Any) -> list[Probe]:
    """Return two probes of a layer, of the bytes read and written. ``reads`` and ``writes`` count float32 numbers."""
    return [
        Probe(f"traffic.{name}_read", network, "bytes_read", read, lambda: _float32(reads), torch=layer),
        Probe(f"traffic.{name}_written", network, "bytes_written", written, lambda: _float32(writes), torch=layer),
    ]


def _convs(b: Any, *layers: tuple[int, int, int]) -> Any:
    """Return convolutions of one channel on 64 × 64. Each layer is (kernel, stride, dilation)."""
    return b.nn.Sequential(*(b.nn.Conv2d(1, 1, k, s, 0, d, bias=False) for k, s, d in layers)), (b.x(1, 1, 64, 64),)


def _field(name: str, network: str, derivation: str, *layers: tuple[int, int, int]) -> Probe:
    """Return a probe of the receptive field of convolutions."""
    return Probe(
        f"receptive_field.{name}",
        network,
        "receptive_field",
        derivation,
        lambda: field(*layers),
        torch=lambda b: _convs(b, *layers),
    )


PROBES = [
    *_bytes(
        "linear",
        "nn.Linear(7, 5) with bias on 6 rows, float32",
        "4 bytes * (6 * 7 rows + 5 * 7 weight + 5 bias)",
        "4 bytes * 6 * 5",
        82,
        30,
        lambda b: (b.nn.Linear(7, 5), (b.x(6, 7),)),
    ),
    *_bytes(
        "conv",
        "nn.Conv2d(3, 4, 3, padding=1) with bias on 6 × 6, float32: overlapping windows read a pixel once",
        "4 bytes * (3 * 6 * 6 image + 4 * 3 * 3 * 3 weight + 4 bias)",
        "4 bytes * 4 * 6 * 6",
        220,
        144,
        lambda b: (b.nn.Conv2d(3, 4, 3, padding=1), (b.x(1, 3, 6, 6),)),
    ),
    *_bytes(
        "relu",
        "nn.ReLU on (4, 9), float32",
        "4 bytes * 4 * 9",
        "4 bytes * 4 * 9",
        36,
        36,
        lambda b: (b.nn.ReLU(), (b.x(4, 9),)),
    ),
    *_bytes(
        "add_broadcast",
        "(4, 9) + (9), float32: the vector is read once",
        "4 bytes * (4 * 9 + 9)",
        "4 bytes * 4 * 9",
        45,
        36,
        lambda b: (b.Fn(lambda self, p, q: p + q), (b.x(4, 9), b.x(9))),
    ),
    *_bytes(
        "view",
        "a view of (4, 9) as (6, 6): nothing moves",
        "4 bytes * 0",
        "4 bytes * 0",
        0,
        0,
        lambda b: (b.Fn(lambda self, x: x.view(6, 6)), (b.x(4, 9),)),
    ),
    *_bytes(
        "concat",
        "torch.cat of (4, 9) and (2, 9), float32",
        "4 bytes * (4 * 9 + 2 * 9)",
        "4 bytes * 6 * 9",
        54,
        54,
        lambda b: (b.Fn(lambda self, p, q: b.torch.cat([p, q])), (b.x(4, 9), b.x(2, 9))),
    ),
    *_bytes(
        "chain",
        "Linear(8, 4), ReLU without bias on 3 rows, float32: the value between is written and read",
        "4 bytes * (3 * 8 + 4 * 8 + 3 * 4)",
        "4 bytes * 2 * 3 * 4",
        68,
        24,
        lambda b: (b.nn.Sequential(b.nn.Linear(8, 4, bias=False), b.nn.ReLU()), (b.x(3, 8),)),
    ),
    *_bytes(
        "embedding",
        "nn.Embedding(50, 8) on 5 tokens of int64: only their rows are read",
        "5 tokens * 8 bytes + 4 bytes * 5 * 8",
        "4 bytes * 5 * 8",
        50,
        40,
        lambda b: (b.nn.Embedding(50, 8), (b.ids(5, below=50),)),
    ),
    _field("one", "nn.Conv2d(1, 1, 5)", "5", (5, 1, 1)),
    _field(
        "two",
        "two nn.Conv2d(1, 1, 3): a row of the second reads three rows of the first",
        "1 + 2 + 2",
        (3, 1, 1),
        (3, 1, 1),
    ),
    _field(
        "stride",
        "nn.Conv2d(1, 1, 3, 2), then nn.Conv2d(1, 1, 5): steps of the second are two rows",
        "1 + 2 + 2 * (5 - 1)",
        (3, 2, 1),
        (5, 1, 1),
    ),
    _field("dilation", "nn.Conv2d(1, 1, 3, dilation=4)", "1 + 4 * (3 - 1)", (3, 1, 4)),
    _field(
        "resnet_stem",
        "a 7 × 7 of stride 2, a 3 × 3 of stride 2, and a 3 × 3",
        "1 + 6 + 2 * 2 + 4 * 2",
        (7, 2, 1),
        (3, 2, 1),
        (3, 1, 1),
    ),
    Probe(
        "peak.linear",
        "nn.Linear(8, 4) without bias on 3 rows, float32: weight, input and output",
        "peak_bytes",
        "4 bytes * (4 * 8 + 3 * 8 + 3 * 4)",
        lambda: _float32(68),
        torch=lambda b: (b.nn.Linear(8, 4, bias=False), (b.x(3, 8),)),
    ),
    Probe(
        "peak.relu_chain",
        "three nn.ReLU on (4, 9), float32: the input stays, and each value lives until the next is there",
        "peak_bytes",
        "4 bytes * 3 values * 4 * 9",
        lambda: _float32(108),
        torch=lambda b: (b.nn.Sequential(b.nn.ReLU(), b.nn.ReLU(), b.nn.ReLU()), (b.x(4, 9),)),
    ),
    Probe(
        "peak.in_place",
        "three nn.ReLU(inplace=True) behind one nn.ReLU on (4, 9), float32: one value more than the input",
        "peak_bytes",
        "4 bytes * 2 values * 4 * 9",
        lambda: _float32(72),
        torch=lambda b: (b.nn.Sequential(b.nn.ReLU(), *(b.nn.ReLU(inplace=True) for _ in range(3))), (b.x(4, 9),)),
    ),
]
