"""Transformer layers as one operator against the operators they are made of."""

from __future__ import annotations

import pytest

from costcore.ir import Operations
from tests.calculators.layer_costs import layer_cost

X, WIDTH, HIDDEN = (2, 3, 8), 8, 16
MATRICES = {"w0": (24, 8), "w1": (8, 8), "w2": (16, 8), "w3": (8, 16), "w4": (8,), "w5": (8,)}
WEIGHTS = MATRICES | {"b0": (24,), "b1": (8,), "b2": (16,), "b3": (8,), "b4": (8,), "b5": (8,)}


def linear(features, out):
    return layer_cost("linear", {"x": (2, 3, features), "w": (out, features), "b": (out,)}, (2, 3, out))


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_an_encoder_layer_is_its_parts(activation):
    heads = (2, 2, 3, 4)
    parts = [
        *(linear(8, 24), linear(8, 8), linear(8, 16), linear(16, 8)),
        layer_cost("attention", {"q": heads, "k": heads, "v": heads}, heads),
        layer_cost(activation, {"x": (2, 3, 16)}, (2, 3, 16)),
        *[layer_cost("layer_norm", {"x": X, "w": (8,), "b": (8,)}, X, axis=(2,))] * 2,
        *[layer_cost("add", {"x0": X, "x1": X}, X)] * 2,
    ]
    settings = {"heads": 2} | ({"activation": "gelu"} if activation == "gelu" else {})
    result = layer_cost("transformer_encoder_layer", {"x": X, **WEIGHTS}, X, **settings)
    assert result.flops == sum((part.flops for part in parts), Operations())
    assert result.macs == sum(part.macs for part in parts)
    # 48 activations and 24 * 8 + 24 + 64 + 8 + 2 * 128 + 24 + 32 weights
    assert (result.mread, result.mwrite) == (4 * (48 + 216 + 72 + 280 + 32), 4 * 48)


def test_heads_set_apart():
    result = layer_cost("scaled_split_heads", {"x": (2, 3, 24), "b": (24,)}, *[(2, 2, 3, 4)] * 3)
    assert result[:3] == (Operations(add=144, mul=48), 4 * 168, 4 * 144)
