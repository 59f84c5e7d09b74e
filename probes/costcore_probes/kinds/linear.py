"""Linear layers."""

from __future__ import annotations

from ..loops import einsum, linear
from ..probe import Probe

__all__ = ["PROBES"]

PROBES = [
    Probe(
        "linear.rows",
        "nn.Linear(8, 4) without bias on 3 × 5 rows",
        "macs",
        "3 * 5 rows * 4 outputs * 8 inputs",
        lambda: linear(15, 8, 4),
        torch=lambda b: (b.nn.Linear(8, 4, bias=False), (b.x(3, 5, 8),)),
        onnx=lambda b: b.one("MatMul", {"x": (3, 5, 8)}, {"y": (3, 5, 4)}, {"w": b.zeros(8, 4)}),
        jax=lambda b: (lambda x, w: x @ w, (b.x(3, 5, 8), b.x(8, 4))),
        tensorflow=lambda b: (lambda x, w: b.tf.tensordot(x, w, 1), (b.x(3, 5, 8), b.x(8, 4))),
    ),
    Probe(
        "linear.bias",
        "nn.Linear(7, 5) with bias on 6 rows: the bias is where the sum starts",
        "macs",
        "6 rows * 5 outputs * 7 inputs",
        lambda: linear(6, 7, 5),
        torch=lambda b: (b.nn.Linear(7, 5), (b.x(6, 7),)),
        onnx=lambda b: b.one("Gemm", {"x": (6, 7)}, {"y": (6, 5)}, {"w": b.zeros(5, 7), "bias": b.zeros(5)}, transB=1),
        jax=lambda b: (lambda x, w, c: x @ w + c, (b.x(6, 7), b.x(7, 5), b.x(5))),
        tensorflow=lambda b: (lambda x, w, c: b.tf.nn.bias_add(x @ w, c), (b.x(6, 7), b.x(7, 5), b.x(5))),
        extras={"bias": 30, "broadcast_add": 30},
    ),
    Probe(
        "linear.vector",
        "nn.Linear(11, 3) without bias on one vector, an input of one dimension",
        "macs",
        "3 outputs * 11 inputs",
        lambda: linear(1, 11, 3),
        torch=lambda b: (b.nn.Linear(11, 3, bias=False), (b.x(11),)),
    ),
    Probe(
        "linear.one_output",
        "nn.Linear(13, 1) without bias on 4 rows",
        "macs",
        "4 rows * 1 output * 13 inputs",
        lambda: linear(4, 13, 1),
        torch=lambda b: (b.nn.Linear(13, 1, bias=False), (b.x(4, 13),)),
    ),
    Probe(
        "linear.function",
        "F.linear of 6 rows of 7 with a weight (5, 7) that is a parameter of the caller",
        "macs",
        "6 rows * 5 outputs * 7 inputs",
        lambda: linear(6, 7, 5),
        torch=lambda b: (b.Fn(lambda self, x: b.F.linear(x, self.w), w=b.x(5, 7)), (b.x(6, 7),)),
        tags=frozenset({"functional"}),
    ),
    Probe(
        "linear.transposed_input",
        "nn.Linear(7, 5) without bias on the transpose of a (7, 6) tensor, which is not contiguous",
        "macs",
        "6 rows * 5 outputs * 7 inputs",
        lambda: linear(6, 7, 5),
        torch=lambda b: (
            b.Fn(lambda self, x: self.fc(x.transpose(0, 1)), fc=b.nn.Linear(7, 5, bias=False)),
            (b.x(7, 6),),
        ),
    ),
    Probe(
        "linear.bilinear",
        "nn.Bilinear(3, 4, 5) without bias on 2 rows: x1 times w, then that times x2, for each output",
        "macs",
        "2 rows * 5 outputs * 3 first * 4 second + 2 rows * 5 outputs * 4 second",
        lambda: [
            *einsum("bi,oij->boj", {"b": 2, "o": 5, "i": 3, "j": 4}),
            *einsum("boj,bj->bo", {"b": 2, "o": 5, "j": 4}),
        ],
        torch=lambda b: (b.nn.Bilinear(3, 4, 5, bias=False), (b.x(2, 3), b.x(2, 4))),
    ),
    Probe(
        "linear.chain",
        "a perceptron: Linear(9, 8), ReLU, Linear(8, 6), ReLU, Linear(6, 2), without biases, on 3 rows",
        "macs",
        "3 rows * (9 * 8 + 8 * 6 + 6 * 2)",
        lambda: [*linear(3, 9, 8), *linear(3, 8, 6), *linear(3, 6, 2)],
        torch=lambda b: (
            b.nn.Sequential(
                b.nn.Linear(9, 8, bias=False),
                b.nn.ReLU(),
                b.nn.Linear(8, 6, bias=False),
                b.nn.ReLU(),
                b.nn.Linear(6, 2, bias=False),
            ),
            (b.x(3, 9),),
        ),
        jax=lambda b: (
            lambda x, u, v, w: b.jax.nn.relu(b.jax.nn.relu(x @ u) @ v) @ w,
            (b.x(3, 9), b.x(9, 8), b.x(8, 6), b.x(6, 2)),
        ),
        extras={"relu": 42},
    ),
    Probe(
        "linear.no_rows",
        "nn.Linear(8, 4) on no rows at all: an input of shape (0, 8)",
        "macs",
        "0 rows * 4 outputs * 8 inputs",
        lambda: linear(0, 8, 4),
        torch=lambda b: (b.nn.Linear(8, 4, bias=False), (b.x(0, 8),)),
    ),
    Probe(
        "linear.lazy",
        "nn.LazyLinear(4) without bias, whose inputs are decided by the first of 3 rows of 10",
        "macs",
        "3 rows * 4 outputs * 10 inputs",
        lambda: linear(3, 10, 4),
        torch=lambda b: (b.lazy(b.nn.LazyLinear(4, bias=False), 3, 10), (b.x(3, 10),)),
    ),
]
