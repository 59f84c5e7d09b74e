"""Layers in Core ML programs have the cost that the conformance table of costcore derives by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from program import Op, V, model

from costcore import Report, estimate

A, M, R = (2, 3, 4, 4), (3, 4), (2, 3, 4)


def built(kind: str, *operands: V, shape: Sequence[int], names: str = "xy", dtype: str = "float32", **settings: Any):
    """Return the builder of a layer; operands are named by the letters of ``names``, or ``weight`` for w."""

    def build() -> Report:
        labels = ["weight" if name == "w" else name for name in names]
        pairs = list(zip(labels, operands, strict=False))
        given = {f"in_{name}": value for name, value in pairs if not value.stored}
        inputs = {name: value if value.stored else f"%in_{name}" for name, value in pairs}
        if kind == "concat":
            inputs = {"values": list(inputs.values())}
        if kind == "select":
            inputs = {"cond": "%in_c", "a": "%in_a", "b": "%in_b"}
        return estimate(model(given, Op(kind, {**inputs, **settings}, {"y": V(shape, dtype)})))

    return build


UNARY: dict[str, tuple[str, Sequence[int]]] = {
    **{name: (name, A) for name in ("relu", "sigmoid", "tanh", "softplus", "silu")},
    **{name: (name, M) for name in ("abs", "exp", "log", "sqrt", "erf")},
}
BINARY = {"sub": "sub", "div": "real_div", "pow": "pow", "maximum": "maximum"}

BUILDERS: dict[str, Callable[[], Report]] = {
    **{name: built(kind, V(shape), shape=shape) for name, (kind, shape) in UNARY.items()},
    **{name: built(kind, V(M), V(M), shape=M) for name, kind in BINARY.items()},
    "add_broadcast": built("add", V((3, 1)), V((1, 4)), shape=M),
    "mul": built("mul", V(M), V((4,)), shape=M),
    "less": built("less", V(M), V(M), shape=M, dtype="bool"),
    "where": built("select", V(M, "bool"), V(M), V(M), shape=M, names="cab"),
    "softmax": built("softmax", V((4, 6)), shape=(4, 6), axis=-1),
    "concat": built("concat", V((2, 3)), V((2, 5)), shape=(2, 8), axis=1),
    "matmul": built("matmul", V(M), V((4, 5)), shape=(3, 5)),
    "matmul_batched": built("matmul", V(R), V((2, 4, 5)), shape=(2, 3, 5)),
    "linear_no_bias": built("linear", V((4, 5)), V((3, 5), stored=True), shape=(4, 3), names="xw"),
    "conv2d_no_bias": built(
        "conv",
        *(V((1, 3, 8, 8)), V((5, 3, 3, 3), stored=True)),
        shape=(1, 5, 8, 8),
        names="xw",
        strides=(1, 1),
        pad_type="custom",
        pad=(1, 1, 1, 1),
        dilations=(1, 1),
        groups=1,
    ),
}


@pytest.mark.parametrize("name", BUILDERS)
def test_the_cost_of_a_layer_is_the_one_by_hand(name, cost_conformance):
    cost_conformance(name, BUILDERS[name])
