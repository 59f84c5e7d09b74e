"""Attention of samples that differ in length."""

from __future__ import annotations

from tests.calculators.layer_costs import layer_cost, operations


def test_every_sample_attends_to_itself() -> None:
    heads, width, depth = 2, 4, 3
    lengths, key_lengths = (6, 1), (5, 2)
    samples = [
        {"q": (1, heads, t, width), "k": (1, heads, s, width), "v": (1, heads, s, depth)}
        for t, s in zip(lengths, key_lengths, strict=True)
    ]
    packed = {"q": (1, heads, 7, width), "k": (1, heads, 7, width), "v": (1, heads, 7, depth)}
    cost = layer_cost("ragged_attention", packed, (1, heads, 7, depth), lengths=lengths, key_lengths=key_lengths)
    expected = [operations("attention", sample, (*sample["q"][:3], depth)) for sample in samples]
    assert cost.flops == expected[0] + expected[1]
    # pairs 6 x 5 + 1 x 2 = 32, each 4 + 3 products in each of 2 heads
    assert cost.macs == 2 * 32 * (4 + 3)
    assert (cost.mread, cost.mwrite) == (4 * 2 * 7 * (4 + 4 + 3), 4 * 2 * 7 * 3)
