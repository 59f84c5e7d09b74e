"""Recurrent layers and layers with a state that ONNX Runtime adds: shapes and costs, by hand."""

from __future__ import annotations

import pytest

from costcore.ir import Operations
from tests.frontends.onnx.contrib.lines import O
from tests.frontends.onnx.contrib.single_node import INT32, priced, shapes
from tests.frontends.onnx.contrib.test_selected_attention_and_streams import RECURRENCE


def test_states_along_a_sequence():
    inputs = [(1, 3, 8), (1, 3, 8), (1, 3, 4), None, (1, 3, 2), (1, 3, 2)]
    layer, cost, _ = priced("LinearAttention", *inputs, outputs=2, q_num_heads=2, kv_num_heads=2)
    assert shapes(layer) == [(1, 3, 4), (1, 2, 4, 2)]
    cells = 3 * 2 * 4 * 2
    assert cost.macs == 3 * cells  # k^T S, the outer product, q^T S
    layer, cost, _ = priced(
        "GatedDeltaNet", (3, 2, 4), (3, 2, 4), (3, 4, 2), None, (3, 4), (3, 4), (1, 4, 2, 4), outputs=2
    )
    assert shapes(layer) == [(3, 4, 2), (1, 4, 2, 4)]
    layer, cost, _ = priced("CausalConvWithState", (1, 6, 5), {(6, 1, 4)}, {(6,)}, outputs=2, activation="silu")
    assert shapes(layer) == [(1, 6, 5), (1, 6, 3)]
    assert cost.flops == Operations(fma=120) + 30 * Operations(mul=1, add=2, div=1, special=1)


@pytest.mark.parametrize(
    ("lead", "cuts", "state", "count"),
    [
        ((2, 3), None, None, 2),  # samples beside each other
        ((6,), None, None, 1),  # one sequence
        ((6,), (INT32, (4,)), None, 3),  # three joined ones, by where they begin and end
        ((6,), (INT32, (4,)), (5, 4, 2, 4), 5),  # as many as there are states
    ],
)
def test_a_state_for_every_sequence(lead, cuts, state, count):
    keys, values, gates = (*lead, 2, 4), (*lead, 4, 2), (*lead, 4)
    layer, _, _ = priced("GatedDeltaNet", keys, keys, values, cuts, gates, gates, state, outputs=2)
    assert shapes(layer) == [values, (count, 4, 2, 4)]


DELTA = [None, (3, 4), (3, 4), (1, 4, 2, 4)]  # no cuts, decay, beta, state; 3 tokens, 2 and 4 heads of 4 and 2 features


def test_gated_delta_net_of_raw_projections():
    raw = {"qk_l2_norm": 1, "gate_activation": "qwen", "beta_activation": "sigmoid"}
    _, cost, _ = priced("GatedDeltaNet", (3, 24), None, None, *DELTA, {(4,)}, {(4,)}, outputs=2, **raw)
    lengths = 12 * O(fma=3, mul=1, add=1, div=4, special=1)
    gates = 12 * O(mul=1, add=2, special=2) + 4 * O(add=1, special=1) + 12 * O(add=2, div=1, special=1)
    assert cost.flops == RECURRENCE + lengths + gates
    assert cost.mread == 4 * (72 + 12 + 12 + 32 + 4 + 4)
