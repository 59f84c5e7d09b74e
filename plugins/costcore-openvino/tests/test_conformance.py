"""Layers in IR files have the cost that the conformance table of costcore derives by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from ir import L, ir

from costcore import Report, estimate

A, M, R = (2, 3, 4, 4), (3, 4), (2, 3, 4)
FOLDER = TemporaryDirectory()


def built(kind: str, *operands: L, shape: Sequence[int], dtype: str = "FP32", **data: str) -> Callable[[], Report]:
    """Return the builder of a layer."""

    def build() -> Report:
        n = len(operands)
        path = Path(FOLDER.name, "net.xml")
        layer = L(kind, tuple(range(n)), shape, dtype, data)
        path.write_text(ir(*operands, layer, L("Result", (n,))), encoding="utf-8")
        return estimate(path)

    return build


def given(*shape: int, dtype: str = "FP32") -> L:
    return L("Parameter", (), shape, dtype)


def stored(*shape: int) -> L:
    return L("Const", (), shape)


UNARY = {
    "relu": ("ReLU", A),
    "sigmoid": ("Sigmoid", A),
    "tanh": ("Tanh", A),
    "softplus": ("SoftPlus", A),
    "mish": ("Mish", A),
    "hard_swish": ("HSwish", A),
    "neg": ("Negative", M),
    "abs": ("Abs", M),
    "exp": ("Exp", M),
    "log": ("Log", M),
    "sqrt": ("Sqrt", M),
    "erf": ("Erf", M),
}
BINARY = {"sub": "Subtract", "div": "Divide", "pow": "Power", "maximum": "Maximum"}

BUILDERS = {
    **{name: built(kind, given(*shape), shape=shape) for name, (kind, shape) in UNARY.items()},
    **{name: built(kind, given(*M), given(*M), shape=M) for name, kind in BINARY.items()},
    "add_broadcast": built("Add", given(3, 1), given(1, 4), shape=M),
    "mul": built("Multiply", given(*M), given(4), shape=M),
    "less": built("Less", given(*M), given(*M), shape=M, dtype="BOOL"),
    "where": built("Select", given(*M, dtype="BOOL"), given(*M), given(*M), shape=M),
    "softmax": built("SoftMax", given(4, 6), shape=(4, 6), axis="1"),
    "concat": built("Concat", given(2, 3), given(2, 5), shape=(2, 8), axis="1"),
    "matmul": built("MatMul", given(*M), given(4, 5), shape=(3, 5)),
    "matmul_batched": built("MatMul", given(*R), given(2, 4, 5), shape=(2, 3, 5)),
    "linear_no_bias": built("MatMul", given(4, 5), stored(3, 5), shape=(4, 3), transpose_b="true"),
    "conv2d_no_bias": built(
        "Convolution",
        *(given(1, 3, 8, 8), stored(5, 3, 3, 3)),
        shape=(1, 5, 8, 8),
        strides="1, 1",
        dilations="1, 1",
        pads_begin="1, 1",
        pads_end="1, 1",
    ),
}


@pytest.mark.parametrize("name", BUILDERS)
def test_the_cost_of_a_layer_is_the_one_by_hand(name, cost_conformance):
    cost_conformance(name, BUILDERS[name])
