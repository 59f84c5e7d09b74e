"""Recurrent layers and layers with a state that ONNX Runtime adds: shapes and costs, by hand."""

from __future__ import annotations

import pytest

from costcore.ir import Operations
from tests.frontends.onnx.contrib.lines import O
from tests.frontends.onnx.contrib.single_node import INT32, INT64, priced, shapes
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


@pytest.mark.parametrize(("attrs", "room"), [({}, 0), ({"state_update_capacity": 4}, 4)])
def test_there_is_no_room_for_states_on_the_way_unless_it_is_asked_for(attrs, room):
    inputs = [(6, 3), {(3, 1, 4)}, (INT32, (3,)), {(3,)}, (2, 3, 3)]
    layer, _, _ = priced("VarlenCausalConvWithState", *inputs, outputs=3, **attrs)
    assert shapes(layer) == [(6, 3), (2, 3, 3), (2, room, 3)]
    ids, multipliers, sizes = (INT64, (2, 5)), (INT64, (3,)), (INT64, (4,))
    layer, _, _ = priced(
        "NGramHashMapping", ids, multipliers, sizes, outputs=4, max_ngram_size=3, n_head_per_ngram=2, **attrs
    )
    # n-grams of 2 and of 3 tokens by 2 heads; the last 2 tokens
    assert shapes(layer) == [(2, 5, 4), (2, 2), (2, 2), (2, room, 2)]
    layer, _, _ = priced("NGramHashMapping", ids, multipliers, sizes, max_ngram_size=2, n_head_per_ngram=2)
    assert shapes(layer) == [(2, 5, 2)]


DELTA = [None, (3, 4), (3, 4), (1, 4, 2, 4)]  # no cuts, decay, beta, state; 3 tokens, 2 and 4 heads of 4 and 2 features


@pytest.mark.parametrize("inputs", [[(3, 2, 4), (3, 2, 4), (3, 4, 2)], [(3, 24), None, None]], ids=["apart", "packed"])
def test_gated_delta_net_apart_and_packed(inputs):
    layer, cost, _ = priced("GatedDeltaNet", *inputs, *DELTA, outputs=2)
    assert (layer.op, shapes(layer)) == ("gated_delta_net", [(3, 4, 2), (1, 4, 2, 4)])
    assert (cost.flops, cost.macs) == (RECURRENCE, 3 * 96)
    assert (cost.mread, cost.mwrite) == (4 * (72 + 12 + 12 + 32), 4 * (24 + 32))


def test_gated_delta_net_of_raw_projections():
    raw = {"qk_l2_norm": 1, "gate_activation": "qwen", "beta_activation": "sigmoid"}
    _, cost, _ = priced("GatedDeltaNet", (3, 24), None, None, *DELTA, {(4,)}, {(4,)}, outputs=2, **raw)
    lengths = 12 * O(fma=3, mul=1, add=1, div=4, special=1)
    gates = 12 * O(mul=1, add=2, special=2) + 4 * O(add=1, special=1) + 12 * O(add=2, div=1, special=1)
    assert cost.flops == RECURRENCE + lengths + gates
    assert cost.mread == 4 * (72 + 12 + 12 + 32 + 4 + 4)
