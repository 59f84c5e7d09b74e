"""Layers that carry a state: one node each, by hand."""

from __future__ import annotations

from costcore.ir import Operations
from tests.frontends.onnx.rows.single_node import priced


def test_layers_with_a_state():
    layer, cost = priced(
        "LinearAttention",
        *[(2, 5, 8), (2, 5, 4), (2, 5, 6)],
        outputs=2,
        opset=27,
        q_num_heads=4,
        kv_num_heads=2,
        update_rule="linear",
    )
    assert [y.shape for y in layer.outputs] == [(2, 5, 12), (2, 2, 2, 3)]
    assert cost.macs == 2 * 5 * (2 + 4) * 2 * 3
    layer, cost = priced("CausalConvWithState", (2, 3, 7), (3, 1, 4), (3,), outputs=2, opset=27, activation="swish")
    assert [y.shape for y in layer.outputs] == [(2, 3, 7), (2, 3, 3)]
    assert cost.macs == 42 * 4
    assert cost.flops == Operations(fma=168) + 42 * Operations(mul=1, add=2, div=1, special=1)
