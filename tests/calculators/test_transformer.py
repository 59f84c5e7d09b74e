"""Transformer layers as one operator against the operators they are made of."""

from __future__ import annotations

import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.layers import cost

X, WIDTH, HIDDEN = (2, 3, 8), 8, 16
MATRICES = {"w0": (24, 8), "w1": (8, 8), "w2": (16, 8), "w3": (8, 16), "w4": (8,), "w5": (8,)}
WEIGHTS = MATRICES | {"b0": (24,), "b1": (8,), "b2": (16,), "b3": (8,), "b4": (8,), "b5": (8,)}


def linear(features, out):
    return cost("linear", {"x": (2, 3, features), "w": (out, features), "b": (out,)}, (2, 3, out))


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_an_encoder_layer_is_its_parts(activation):
    heads = (2, 2, 3, 4)
    parts = [
        *(linear(8, 24), linear(8, 8), linear(8, 16), linear(16, 8)),
        cost("attention", {"q": heads, "k": heads, "v": heads}, heads),
        cost(activation, {"x": (2, 3, 16)}, (2, 3, 16)),
        *[cost("layer_norm", {"x": X, "w": (8,), "b": (8,)}, X, axis=(2,))] * 2,
        *[cost("add", {"x0": X, "x1": X}, X)] * 2,
    ]
    settings = {"heads": 2} | ({"activation": "gelu"} if activation == "gelu" else {})
    result = cost("transformer_encoder_layer", {"x": X, **WEIGHTS}, X, **settings)
    assert result.flops == sum((part.flops for part in parts), Operations())
    assert result.macs == sum(part.macs for part in parts)
    # 48 activations and 24 * 8 + 24 + 64 + 8 + 2 * 128 + 24 + 32 weights
    assert (result.mread, result.mwrite) == (4 * (48 + 216 + 72 + 280 + 32), 4 * 48)


def test_heads_set_apart():
    result = cost("scaled_split_heads", {"x": (2, 3, 24), "b": (24,)}, *[(2, 2, 3, 4)] * 3)
    assert result[:3] == (Operations(add=144, mul=48), 4 * 168, 4 * 144)


LABELS = Tensor((6,), "int64")


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("biased", [False, True])
def test_a_linear_cross_entropy_is_its_parts(reduction, biased):
    bias = {"b": (5,)} if biased else {}
    y = (6,) if reduction == "none" else ()
    scores = cost("linear", {"x": (6, 4), "w": (5, 4), **bias}, (6, 5))
    loss = cost("cross_entropy", {"x": (6, 5), "target": LABELS}, y, reduction=reduction)
    given = {"x": (6, 4), "w": (5, 4), **bias, "target": LABELS}
    result = cost("linear_cross_entropy", given, y, reduction=reduction)
    assert result.flops == scores.flops + loss.flops
    assert result.macs == 6 * 5 * 4


def test_its_gradients():
    """6 rows, 5 classes, 4 features: 30 slopes; dx and dw are 24 and 20 dot products, db sums 6 rows."""
    given = {"x": (6, 4), "w": (5, 4), "b": (5,), "target": LABELS}
    plain = cost("linear_cross_entropy", given, (), reduction="mean")
    result = cost("linear_cross_entropy", given, (), (6, 4), (5, 4), (5,), reduction="mean", needs=("x", "w", "b"))
    slopes = Operations(div=6, mul=30, add=6)
    products = Operations(mul=24, fma=120 - 24) + Operations(mul=20, fma=120 - 20) + Operations(add=25)
    assert result.flops == plain.flops + slopes + products
    assert result.macs == 3 * 120
    weighted = cost("linear_cross_entropy", given | {"class_weights": (5,)}, (), reduction="mean")
    assert weighted.flops == plain.flops + Operations(mul=6, add=5)
