"""Sparse attention and the selection of its keys, against executed definitions."""

from __future__ import annotations

import pytest

from costcore.ir import Operations
from tests.calculators.counting_scalar import count, dot, exp, maximum, total
from tests.calculators.layer_costs import layer_cost
from tests.calculators.reference import attend, rms_normalized

T, H, D, E, R = 3, 2, 4, 4, 2  # queries, heads, features, entries, keys an entry is made of


def turn(x, cos, sin):
    """Rotate the first features of x by a rotary embedding."""
    half = len(cos)
    for i in range(half):
        a, b = x[i], x[half + i]
        x[i], x[half + i] = a * cos[i] - b * sin[i], a * sin[i] + b * cos[i]
    return x


def pooled(keys, gates, bias):
    """Return one entry: the mean of its keys, or their sum weighted by a softmax of gates per feature."""
    if gates is None:
        return [total(keys[:, i]) / len(keys) for i in range(D)]
    entry = []
    for i in range(D):
        weights = [exp(g) for g in gates[:, i]]
        whole = total(weights)
        entry.append(dot([w / whole for w in weights], keys[:, i]))
    return entry


def scores(q, k, factor, w0, w1, cos, sin):
    """Score every query against every entry; all of them are prepared."""
    entries = [turn(rms_normalized(entry, w1), cos, sin) for entry in k]
    for t in range(T):
        heads = [turn(rms_normalized(q[t, h], w0), cos, sin) for h in range(H)]
        weights = None if factor is None else [f * 0.5 for f in factor[t]]
        for entry in entries:
            each = [maximum(dot(head, entry), 0) * 0.25 for head in heads]
            total(each) if weights is None else dot(weights, each)


def indexed(q, k, w0, w1, cos, sin):
    scores(q, [pooled(keys, None, None) for keys in k], None, w0, w1, cos, sin)


def gated(q, k, gates, new_gates, bias, factor, w0, w1, cos, sin):
    new_gates + bias
    made = [pooled(keys, each, bias) for keys, each in zip(k, gates, strict=True)]
    scores(q, made, factor, w0, w1, cos, sin)


CHOICE = Operations(cmp=T * E * 2)  # 3 of E entries a query: E * log2(3 + 1)


def test_entries_of_means_are_scored_by_all_heads() -> None:
    operands = {"q": (1, T, H * D), "k": (1, E * R, D), "w0": (D,), "w1": (D,), "cos": (9, 1), "sin": (9, 1)}
    result = layer_cost(
        *("attention_indexer", operands, (1, T, 3), (1, 8, D)), heads=H, entries=E, made=E, ratio=R, rotary_dim=2
    )
    assert result.flops == count(indexed, (T, H, D), (E, R, D), (D,), (D,), (1,), (1,)) + CHOICE
    assert result.macs == T * H * E * D


def test_entries_of_gated_windows_are_scored_by_weighted_heads() -> None:
    operands = {"q": (1, T, H * D), "k": (1, T, 2 * D), "w0": (D,), "w1": (D,), "cos": (9, 1), "sin": (9, 1)}
    operands |= {"gate": (1, T, 2 * D), "bias": (R, 2 * D), "factor": (1, T, H)}
    result = layer_cost(
        *("attention_indexer", operands, (1, T, 3), (1, 8, D)),
        heads=H,
        entries=E,
        made=E,
        ratio=R,
        rotary_dim=2,
        gated=True,
    )
    shapes = [(T, H, D), (E, 2 * R, D), (E, 2 * R, D), (T, 2 * D), (1, 2 * D), (T, H), (D,), (D,), (1,), (1,)]
    assert result.flops == count(gated, *shapes) + CHOICE


def test_selected_keys_alone_are_met() -> None:
    operands = {"q": (1, 2, 3, D), "k": (1, 1, 3, D), "v": (1, 1, 3, D), "past_k": (1, 1, 9, D), "past_v": (1, 1, 9, D)}
    result = layer_cost("selected_attention", {**operands, "indices": (3, 2)}, (1, 3, 8), selected=2, local=1)
    assert result.flops == 6 * count(lambda q, k, v: attend(q, k, v), (1, D), (3, D), (3, D))
    assert result.macs == 2 * (6 * 3 * D)
    # 3 queries of 3 keys in the cache: all 9
    assert result.mread == 4 * (24 + 12 + 12 + 36 + 36 + 6)


def test_selected_keys_may_lie_beside_the_cache() -> None:
    """3 queries of 2 heads, 1 key head of 4 features; 2 selected keys and 1 of the cache per query."""
    operands = {"q": (1, 2, 3, D), "k": (1, 1, 3, D), "v": (1, 1, 3, D), "past_k": (1, 1, 9, D), "past_v": (1, 1, 9, D)}
    operands |= {"more_k": (1, 1, 20, D), "more_v": (1, 1, 4, D), "indices": (3, 2)}
    outputs = [(1, 3, 8), (1, 1, 9, D), (1, 1, 9, D)]
    result = layer_cost("selected_attention", operands, *outputs, selected=2, local=1)
    assert result.flops == 6 * count(lambda q, k, v: attend(q, k, v), (1, D), (3, D), (3, D))
    # 3 * 2 rows of 20 keys and all 4 of the values; 3 * 1 rows of each cache
    assert result.mread == 4 * (24 + 12 + 12 + 6 * D + 4 * D + 2 * 3 * D + 6)
    assert result.mwrite == 4 * (24 + 2 * 36)
    scales = {"k_scale": (1,), "v_scale": (1,)}
    scaled = layer_cost("selected_attention", operands | scales, *outputs, selected=2, local=1, shared=True)
    # 12 elements read of each cache are made real, 12 new ones go into it quantized
    assert isinstance(result.flops, Operations)
    assert scaled.flops == result.flops + 2 * 12 * Operations(mul=1, div=1, cmp=3)
    assert (scaled.mread, scaled.mwrite) == (result.mread + 4 * 2, 4 * (24 + 2 * 12))


@pytest.mark.parametrize("everywhere", [0, 2])
def test_a_window_has_its_keys_and_some_tokens_all(everywhere: int) -> None:
    operands = {"x": (1, 8, 4), "w0": (4, 12), "b0": (12,), "w1": (4, 12), "b1": (12,), "mask": (1, 8)}
    result = layer_cost("longformer_attention", operands, (1, 8, 4), heads=2, window=1, everywhere=everywhere)

    def masked(q, k, v, mask):
        attend(q, k, v, lambda score, i, j: score + mask[i, j])

    keys = 3 + everywhere
    expected = 16 * count(masked, (1, 2), (keys, 2), (keys, 2), (1, keys)) + Operations(fma=2 * 96 * 4)
    expected += 2 * everywhere * count(masked, (1, 2), (8, 2), (8, 2), (1, 8))
    assert result.flops == expected


def test_quantized_projections_before_a_window() -> None:
    operands = {"x": (1, 8, 4), "w0": (4, 12), "b0": (12,), "w1": (4, 12), "b1": (12,)}
    plain = layer_cost("longformer_attention", operands, (1, 8, 4), heads=2, window=1)
    result = layer_cost("quantized_longformer_attention", operands, (1, 8, 4), heads=2, window=1)
    # 2 * 3 projections of 32 elements are made real; 32 outputs are scaled, rounded and limited twice
    assert isinstance(plain.flops, Operations)
    assert result.flops == plain.flops + Operations(mul=2 * 3 * 32, div=32, cmp=3 * 32)
    # 2 * 96 projected elements of 4 products; 16 queries of 3 keys of 2 features, twice
    assert result.macs == plain.macs == 2 * 96 * 4 + 2 * (16 * 3 * 2)
