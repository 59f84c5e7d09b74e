"""Layers in .tflite files have the cost that the conformance table of costcore derives by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import tflite
from build import G, Op, T, model

from costcore import Report, estimate

A, M, R = (2, 3, 4, 4), (3, 4), (2, 3, 4)


def built(name: str, *tensors: T, kind: str = "", **options: Any) -> Callable[[], Report]:
    """Return the builder of an operator whose last tensor is its result."""
    inputs, last = range(len(tensors) - 1), len(tensors) - 1
    entering = [i for i in inputs if not tensors[i].stored and tensors[i].data is None]
    operator = Op(name, [*inputs], [last], kind, options)
    return lambda: estimate(model(G(tensors, [operator], entering, [last])))


def alike(name: str, shape: Sequence[int], n_inputs: int = 1, kind: str = "", **options: Any) -> Callable[[], Report]:
    """Return the builder of an operator whose operands and result have one shape."""
    return built(name, *[T(shape)] * (n_inputs + 1), kind=kind, **options)


ELEMENTS = {
    "relu": alike("RELU", A),
    "relu6": alike("RELU6", A),
    "leaky_relu": alike("LEAKY_RELU", A, kind="LeakyReluOptions", Alpha=0.1),
    "sigmoid": alike("LOGISTIC", A),
    "tanh": alike("TANH", A),
    "elu": alike("ELU", A),
    "gelu": alike("GELU", A, kind="GeluOptions", Approximate=False),
    "gelu_tanh": alike("GELU", A, kind="GeluOptions", Approximate=True),
    "hard_swish": alike("HARD_SWISH", A),
    "sub": alike("SUB", M, 2),
    "div": alike("DIV", M, 2),
    "pow": alike("POW", M, 2),
    "maximum": alike("MAXIMUM", M, 2),
    "neg": alike("NEG", M),
    "abs": alike("ABS", M),
    "exp": alike("EXP", M),
    "log": alike("LOG", M),
    "sqrt": alike("SQRT", M),
    "add_broadcast": built("ADD", T((3, 1)), T((1, 4)), T(M)),
    "mul": built("MUL", T(M), T((4,)), T(M)),
    "less": built("LESS", T(M), T(M), T(M, "bool")),
    "where": built("SELECT_V2", T(M, "bool"), T(M), T(M), T(M)),
}

OTHERS = {
    "softmax": alike("SOFTMAX", (4, 6), kind="SoftmaxOptions", Beta=1.0),
    "log_softmax": alike("LOG_SOFTMAX", (4, 6)),
    "reduce_sum": built("SUM", T(R), T((2,), "int32", data=(1, 2)), T((2,))),
    "reduce_mean": built("MEAN", T(R), T((1,), "int32", data=(1,)), T((2, 4))),
    "reduce_max": built("REDUCE_MAX", T(R), T((1,), "int32", data=(2,)), T((2, 3))),
    "concat": built("CONCATENATION", T((2, 3)), T((2, 5)), T((2, 8)), kind="ConcatenationOptions", Axis=1),
    "transpose": built("TRANSPOSE", T(R), T((3,), "int32", data=(2, 0, 1)), T((4, 2, 3))),
    "matmul": built("BATCH_MATMUL", T(M), T((4, 5)), T((3, 5))),
    "matmul_batched": built("BATCH_MATMUL", T(R), T((2, 4, 5)), T((2, 3, 5))),
    "linear": built("FULLY_CONNECTED", T((4, 5)), T((3, 5), stored=True), T((3,), stored=True), T((4, 3))),
    "linear_no_bias": built("FULLY_CONNECTED", T((4, 5)), T((3, 5), stored=True), T((4, 3))),
    "conv2d_no_bias": built(
        "CONV_2D",
        *(T((1, 8, 8, 3)), T((5, 3, 3, 3), stored=True), T((1, 8, 8, 5))),
        kind="Conv2DOptions",
        StrideH=1,
        StrideW=1,
        Padding=tflite.Padding.SAME,
    ),
}

BUILDERS = {**ELEMENTS, **OTHERS}


@pytest.mark.parametrize("name", BUILDERS)
def test_the_cost_of_a_layer_is_the_one_by_hand(name, cost_conformance):
    cost_conformance(name, BUILDERS[name])
