"""Attention and rotary embeddings: one node each, by hand."""

from __future__ import annotations

from costcore.ir import Operations
from tests.frontends.onnx.rows.single_node import INT64, priced


def test_rotary_embedding_of_packed_heads():
    layer, cost = priced("RotaryEmbedding", (1, 3, 16), (9, 2), (9, 2), (INT64, (1, 3)), num_heads=4)
    assert layer["x"].shape == (1, 4, 3, 4)
    assert cost.flops == 48 * Operations(mul=2, add=1)
    assert cost.mread == 4 * (48 + 2 * 3 * 2) + 8 * 3
    turned = priced("RotaryEmbedding", (1, 4, 3, 8), (9, 2), (9, 2), (INT64, (1, 3)), rotary_embedding_dim=4)[1]
    assert turned.flops == 48 * Operations(mul=2, add=1)


def test_attention_with_a_past():
    layer, cost = priced(
        "Attention",
        *[(1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4), None, (1, 2, 5, 4), (1, 2, 5, 4)],
        outputs=3,
        opset=24,
    )
    assert [y.shape for y in layer.outputs] == [(1, 2, 3, 4), (1, 2, 8, 4), (1, 2, 8, 4)]
    assert cost.macs == 2 * (2 * 3 * 8 * 4)
    assert cost.mread == 4 * (24 + 2 * (24 + 40))
    assert cost.mwrite == 4 * (24 + 2 * 64)
