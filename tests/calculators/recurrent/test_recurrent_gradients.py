"""Gradients of whole recurrent layers."""

from __future__ import annotations

import pytest

from costcore.ir import Operations
from tests.calculators.layer_costs import declared, layer_cost

RECURRENT_GRADIENTS = declared("recurrent", "RECURRENT_GRADIENTS")

ONE_WAY, BOTH_WAYS = (4 + 3) + (3 + 3), (4 + 3) + (6 + 3)


@pytest.mark.parametrize(("bidirectional", "lengths"), [(False, ONE_WAY), (True, BOTH_WAYS)])
@pytest.mark.parametrize(("op", "gates"), [("lstm", 4), ("gru", 3), ("rnn", 1)])
def test_gradients_of_whole_layers(op, gates, bidirectional, lengths):
    directions = 2 if bidirectional else 1
    shapes = {"dy": (5, 2, 3 * directions), "x": (5, 2, 4), "h0": (2 * directions, 2, 3), "w0": (1,), "b0": (1,)}
    settings = {"hidden": 3, "layers": 2, "bidirectional": bidirectional}
    result = layer_cost(f"{op}_backward", shapes, (5, 2, 4), **settings)
    units = 5 * 2 * 3 * 2 * directions
    macs = 2 * gates * 5 * 2 * 3 * directions * lengths
    assert result.macs == macs
    assert result.flops == units * (
        RECURRENT_GRADIENTS[f"{op}_backward"].operations + Operations(add=gates)
    ) + Operations(fma=macs)


def test_gradients_of_a_rectified_layer_and_of_a_projection():
    settings = {"hidden": 3, "layers": 1}
    shapes = {"dy": (5, 3), "x": (5, 4), "h0": (1, 1, 3), "w0": (3, 7)}
    relu = layer_cost("rnn_backward", shapes, (5, 4), **settings, activation="relu")
    assert relu.flops == Operations(add=15, cmp=15, fma=2 * 15 * 7)
    # 4 gates of 4 + 2 products, then 2 outputs of 3
    projected = layer_cost("lstm_backward", shapes, (5, 4), **settings, projection=2)
    assert projected.macs == 2 * (4 * 15 * 6 + 5 * 2 * 3)


# 2 layers of 3 units over 4 features, 5 steps of 2 sequences: for each layer its inputs and its state


# 1 layer of 3 units over 4 features, 5 steps of 2 sequences, one gate: dx and dw0 have 5·2·3·4 = 120 products each,
# dw1 has 5·2·3·3 = 90, the state of every step but the first 4·2·3·3 = 72, and dh0, of the first step, 2·3·3 = 18
@pytest.mark.parametrize(
    ("needs", "products"),
    [
        (("x", "h0", "c0", "w0", "w1"), 120 + 90 + 72 + 18 + 120),
        (("w0", "w1"), 120 + 90 + 72),
        (("x", "w0", "w1"), 120 + 120 + 90 + 72),
        (("x",), 120 + 72),
        (("x", "h0", "w"), 120 + 120 + 90 + 72 + 18),
    ],
)
def test_gradients_that_nothing_needs(needs, products):
    shapes = {"dy": (5, 2, 3), "x": (5, 2, 4), "h0": (1, 2, 3), "c0": (1, 2, 3), "w0": (12, 4), "w1": (12, 3)}
    result = layer_cost("lstm_backward", shapes, (5, 2, 4), hidden=3, layers=1, needs=needs)
    assert result.macs == 4 * products
    muls = 16 * 30 - (0 if "c0" in needs else 6)
    assert result.flops == Operations(fma=4 * products, mul=muls, add=7 * 30)
