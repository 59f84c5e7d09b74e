"""Operations by kind: what activations, pools, norms and losses compute per element, by their definitions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..loops import each
from ..probe import Probe

__all__ = ["PROBES"]


def _probe(name: str, network: str, quantity: str, derivation: str, things: Iterable[Any], layer: Any) -> Probe:
    """Return a probe of one layer on an input: ``layer`` returns both."""
    return Probe(f"elementwise.{name}", network, quantity, derivation, lambda: things, torch=layer)


def _on(make: Any, *shape: int) -> Any:
    return lambda b: (make(b), (b.x(*shape),))


PROBES = [
    _probe(
        "relu",
        "nn.ReLU on (4, 9): one maximum each",
        "comparisons",
        "4 * 9",
        [*each(4, 9)],
        _on(lambda b: b.nn.ReLU(), 4, 9),
    ),
    _probe(
        "relu6",
        "nn.ReLU6 on (4, 9): a maximum and a minimum each",
        "comparisons",
        "2 * 4 * 9",
        [*each(2, 4, 9)],
        _on(lambda b: b.nn.ReLU6(), 4, 9),
    ),
    _probe(
        "leaky_relu",
        "nn.LeakyReLU on (4, 9): the slope times x",
        "multiplications",
        "4 * 9",
        [*each(4, 9)],
        _on(lambda b: b.nn.LeakyReLU(), 4, 9),
    ),
    _probe(
        "sigmoid_exp",
        "nn.Sigmoid on (4, 9), 1 / (1 + exp(-x)): one exp each",
        "special_functions",
        "4 * 9",
        [*each(4, 9)],
        _on(lambda b: b.nn.Sigmoid(), 4, 9),
    ),
    _probe(
        "sigmoid_add",
        "nn.Sigmoid on (4, 9), 1 / (1 + exp(-x)): a negation and a sum each",
        "additions",
        "2 * 4 * 9",
        [*each(2, 4, 9)],
        _on(lambda b: b.nn.Sigmoid(), 4, 9),
    ),
    _probe(
        "sigmoid_div",
        "nn.Sigmoid on (4, 9), 1 / (1 + exp(-x)): one division each",
        "divisions",
        "4 * 9",
        [*each(4, 9)],
        _on(lambda b: b.nn.Sigmoid(), 4, 9),
    ),
    _probe("tanh", "nn.Tanh on (4, 9)", "special_functions", "4 * 9", [*each(4, 9)], _on(lambda b: b.nn.Tanh(), 4, 9)),
    _probe(
        "gelu",
        "nn.GELU on (4, 9), x / 2 · (1 + erf(x / √2)): one erf each",
        "special_functions",
        "4 * 9",
        [*each(4, 9)],
        _on(lambda b: b.nn.GELU(), 4, 9),
    ),
    _probe(
        "gelu_mul",
        "nn.GELU on (4, 9), x · ½ · (1 + erf(x · √½)): three products each",
        "multiplications",
        "3 * 4 * 9",
        [*each(3, 4, 9)],
        _on(lambda b: b.nn.GELU(), 4, 9),
    ),
    _probe(
        "softmax_exp",
        "nn.Softmax on 4 rows of 9, exp(x) / Σ exp(x): one exp each",
        "special_functions",
        "4 * 9",
        [*each(4, 9)],
        _on(lambda b: b.nn.Softmax(-1), 4, 9),
    ),
    _probe(
        "softmax_add",
        "nn.Softmax on 4 rows of 9: nine exps are added",
        "additions",
        "4 rows * (9 - 1)",
        [*each(4, 8)],
        _on(lambda b: b.nn.Softmax(-1), 4, 9),
    ),
    _probe(
        "softmax_div",
        "nn.Softmax on 4 rows of 9: each is divided",
        "divisions",
        "4 * 9",
        [*each(4, 9)],
        _on(lambda b: b.nn.Softmax(-1), 4, 9),
    ),
    _probe(
        "max_pool",
        "nn.MaxPool2d(3) on (2, 6, 9): the largest of nine takes eight comparisons",
        "comparisons",
        "2 * 2 * 3 places * (3 * 3 - 1)",
        [*each(2, 2, 3, 8)],
        _on(lambda b: b.nn.MaxPool2d(3), 1, 2, 6, 9),
    ),
    _probe(
        "max_pool_overlap",
        "nn.MaxPool1d(4, stride=1) on (3, 9): windows overlap, and share nothing",
        "comparisons",
        "3 * 6 places * (4 - 1)",
        [*each(3, 6, 3)],
        _on(lambda b: b.nn.MaxPool1d(4, stride=1), 1, 3, 9),
    ),
    _probe(
        "avg_pool_add",
        "nn.AvgPool2d(2) on (3, 4, 6): four are added by three sums",
        "additions",
        "3 * 2 * 3 places * (2 * 2 - 1)",
        [*each(3, 2, 3, 3)],
        _on(lambda b: b.nn.AvgPool2d(2), 1, 3, 4, 6),
    ),
    _probe(
        "avg_pool_div",
        "nn.AvgPool2d(2) on (3, 4, 6): one division for each place",
        "divisions",
        "3 * 2 * 3 places",
        [*each(3, 2, 3)],
        _on(lambda b: b.nn.AvgPool2d(2), 1, 3, 4, 6),
    ),
    _probe(
        "global_pool",
        "nn.AdaptiveAvgPool2d(1) on (5, 4, 3): all twelve of each channel are added",
        "additions",
        "5 * (4 * 3 - 1)",
        [*each(5, 11)],
        _on(lambda b: b.nn.AdaptiveAvgPool2d(1), 1, 5, 4, 3),
    ),
    _probe(
        "sum",
        "a sum of 4 rows of 9",
        "additions",
        "4 rows * (9 - 1)",
        [*each(4, 8)],
        _on(lambda b: b.Fn(lambda self, x: x.sum(-1)), 4, 9),
    ),
    _probe(
        "max",
        "the largest of each of 4 rows of 9",
        "comparisons",
        "4 rows * (9 - 1)",
        [*each(4, 8)],
        _on(lambda b: b.Fn(lambda self, x: x.amax(-1)), 4, 9),
    ),
    _probe(
        "broadcast_add",
        "(4, 1, 3) + (5, 3): one sum for each element of the result",
        "additions",
        "4 * 5 * 3",
        [*each(4, 5, 3)],
        lambda b: (b.Fn(lambda self, p, q: p + q), (b.x(4, 1, 3), b.x(5, 3))),
    ),
    _probe(
        "divide",
        "a / b of two (4, 9)",
        "divisions",
        "4 * 9",
        [*each(4, 9)],
        lambda b: (b.Fn(lambda self, p, q: p / q), (b.x(4, 9), b.x(4, 9))),
    ),
    _probe(
        "complex_product",
        "a * b of two complex (4, 9): (a + bi)(c + di) has four products",
        "multiplications",
        "4 products * 4 * 9",
        [*each(4, 4, 9)],
        lambda b: (b.Fn(lambda self, p, q: p * q), tuple(b.x(4, 9, dtype=b.torch.complex64) for _ in "pq")),
    ),
    _probe(
        "complex_sum",
        "a + b of two complex (4, 9): two sums each",
        "additions",
        "2 sums * 4 * 9",
        [*each(2, 4, 9)],
        lambda b: (b.Fn(lambda self, p, q: p + q), tuple(b.x(4, 9, dtype=b.torch.complex64) for _ in "pq")),
    ),
    _probe(
        "dropout",
        "nn.Dropout in evaluation mode on (4, 9): nothing happens",
        "multiplications",
        "0",
        [],
        _on(lambda b: b.nn.Dropout().eval(), 4, 9),
    ),
    _probe(
        "layer_norm_root",
        "nn.LayerNorm(9) on 4 rows: one square root for each row",
        "special_functions",
        "4 rows",
        [*each(4)],
        _on(lambda b: b.nn.LayerNorm(9), 4, 9),
    ),
]
