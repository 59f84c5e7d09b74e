"""The four networks of the table "What the tools miss" in docs/comparison.md."""

from __future__ import annotations

from ..loops import attention, conv_transpose, linear, recurrent
from ..probe import Probe

__all__ = ["PROBES"]

PROBES = [
    Probe(
        "comparison.attention",
        "F.scaled_dot_product_attention: 2 heads, 64 queries, 64 keys, 16 per head",
        "macs",
        "2 heads * 64 queries * 64 keys * (16 scores + 16 values)",
        lambda: attention(1, 2, 64, 64, 16),
        torch=lambda b: (
            b.Fn(lambda self, q, k, v: b.F.scaled_dot_product_attention(q, k, v)),
            (b.x(1, 2, 64, 16), b.x(1, 2, 64, 16), b.x(1, 2, 64, 16)),
        ),
        tags=frozenset({"functional", "attention"}),
    ),
    Probe(
        "comparison.product",
        "a @ b of (64, 32) and (32, 32)",
        "macs",
        "64 rows * 32 columns * 32 summed",
        lambda: linear(64, 32, 32),
        torch=lambda b: (b.Fn(lambda self, p, q: p @ q), (b.x(64, 32), b.x(32, 32))),
        tags=frozenset({"functional"}),
    ),
    Probe(
        "comparison.conv_transpose",
        "nn.ConvTranspose2d(32, 16, 2, stride=2) without bias on 16 × 16",
        "macs",
        "32 inputs * 16 * 16 places * 16 channels * 2 * 2 taps",
        lambda: conv_transpose(1, 32, 16, (16, 16), (2, 2), stride=2),
        torch=lambda b: (b.nn.ConvTranspose2d(32, 16, 2, 2, bias=False), (b.x(1, 32, 16, 16),)),
    ),
    Probe(
        "comparison.lstm",
        "nn.LSTM(32, 64) with biases on 20 steps",
        "macs",
        "20 steps * 4 gates * 64 * (32 inputs + 64 state)",
        lambda: recurrent(20, 1, 4, 32, 64),
        torch=lambda b: (
            b.Fn(lambda self, x: self.layer(x)[0], layer=b.nn.LSTM(32, 64)),
            (b.x(20, 1, 32),),
        ),
        extras={"gate_adds": 1280 * 16, "lstm_units": 1280, "bias": 20 * 512},
        tags=frozenset({"recurrent"}),
    ),
]
