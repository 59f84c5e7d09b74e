"""Attention with some of the keys, and what selects them, against their executed definitions."""

from __future__ import annotations

import numpy as np
import pytest

from costcore.ir import Operations
from tests.calculators.counting import count, dot, exp, maximum, sqrt, total
from tests.calculators.layers import cost
from tests.calculators.test_attention import attend

T, H, D, E, R = 3, 2, 4, 4, 2  # queries, heads, features, entries, keys an entry is made of


def normal(x, w):
    scale = 1 / sqrt(dot(x, x) / len(x) + 1e-6)
    return [a * scale * b for a, b in zip(x, w, strict=True)]


def turn(x, cos, sin):
    """The first features of x under a rotary embedding."""
    half = len(cos)
    for i in range(half):
        a, b = x[i], x[half + i]
        x[i], x[half + i] = a * cos[i] - b * sin[i], a * sin[i] + b * cos[i]
    return x


def pooled(keys, gates, bias):
    """One entry: the mean of its keys, or their sum weighted by a softmax of gates for every feature."""
    if gates is None:
        return [total(keys[:, i]) / len(keys) for i in range(D)]
    entry = []
    for i in range(D):
        weights = [exp(g) for g in gates[:, i]]
        whole = total(weights)
        entry.append(dot([w / whole for w in weights], keys[:, i]))
    return entry


def scores(q, k, factor, w0, w1, cos, sin):
    """Every query with every entry, of which all are prepared."""
    entries = [turn(normal(entry, w1), cos, sin) for entry in k]
    for t in range(T):
        heads = [turn(normal(q[t, h], w0), cos, sin) for h in range(H)]
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


SORT = Operations(cmp=T * E * 2)  # E entries a query: E * log2(E)


def test_entries_of_means_are_scored_by_all_heads() -> None:
    operands = {"q": (1, T, H * D), "k": (1, E * R, D), "w0": (D,), "w1": (D,), "cos": (9, 1), "sin": (9, 1)}
    result = cost(
        *("attention_indexer", operands, (1, T, 3), (1, 8, D)), heads=H, entries=E, made=E, ratio=R, rotary_dim=2
    )
    assert result.flops == count(indexed, (T, H, D), (E, R, D), (D,), (D,), (1,), (1,)) + SORT
    assert result.macs == T * H * E * D


def test_entries_of_gated_windows_are_scored_by_weighted_heads() -> None:
    operands = {"q": (1, T, H * D), "k": (1, T, 2 * D), "w0": (D,), "w1": (D,), "cos": (9, 1), "sin": (9, 1)}
    operands |= {"gate": (1, T, 2 * D), "bias": (R, 2 * D), "factor": (1, T, H)}
    result = cost(
        *("attention_indexer", operands, (1, T, 3), (1, 8, D)),
        heads=H,
        entries=E,
        made=E,
        ratio=R,
        rotary_dim=2,
        gated=True,
    )
    shapes = [(T, H, D), (E, 2 * R, D), (E, 2 * R, D), (T, 2 * D), (1, 2 * D), (T, H), (D,), (D,), (1,), (1,)]
    assert result.flops == count(gated, *shapes) + SORT


def test_selected_keys_alone_are_met() -> None:
    operands = {"q": (1, 2, 3, D), "k": (1, 1, 3, D), "v": (1, 1, 3, D), "past_k": (1, 1, 9, D), "past_v": (1, 1, 9, D)}
    result = cost("selected_attention", {**operands, "indices": (3, 2)}, (1, 3, 8), selected=2, local=1)
    assert result.flops == 6 * count(lambda q, k, v: attend(q, k, v), (1, D), (3, D), (3, D))
    assert result.macs == 2 * (6 * 3 * D)
    # 3 queries of 3 keys in the cache: all 9
    assert result.mread == 4 * (24 + 12 + 12 + 36 + 36 + 6)


def layer_of_a_decoder(x, source, w, wk, wv, b):
    """Two heads of two features."""

    def projected(rows, weights, part):
        return np.array([[dot(row, weights[:, i], b[4 * part + i]) for i in range(4)] for row in rows])

    q, k, v = projected(x, w, 0), projected(source, wk, 1), projected(source, wv, 2)
    for head in (slice(0, 2), slice(2, 4)):
        attend(q[:, head], k[:, head], v[:, head])


def test_a_decoder_projects_the_keys_it_makes() -> None:
    operands = {"q": (3, 1, 4), "k": (5, 1, 4), "w0": (4, 4), "w1": (4, 8), "b": (12,)}
    result = cost("cached_attention", operands, (3, 1, 4), heads=2, keys=5, made=5)
    assert result.flops == count(layer_of_a_decoder, (3, 4), (5, 4), (4, 4), (4, 4), (4, 4), (12,))
    assert result.macs == 3 * 16 + 5 * 32 + 2 * (2 * 3 * 5 * 2)


@pytest.mark.parametrize("everywhere", [0, 2])
def test_a_window_has_its_keys_and_some_tokens_all(everywhere: int) -> None:
    operands = {"x": (1, 8, 4), "w0": (4, 12), "b0": (12,), "w1": (4, 12), "b1": (12,), "mask": (1, 8)}
    result = cost("longformer_attention", operands, (1, 8, 4), heads=2, window=1, everywhere=everywhere)

    def masked(q, k, v, mask):
        attend(q, k, v, lambda score, i, j: score + mask[i, j])

    keys = 3 + everywhere
    expected = 16 * count(masked, (1, 2), (keys, 2), (keys, 2), (1, keys)) + Operations(fma=2 * 96 * 4)
    expected += 2 * everywhere * count(masked, (1, 2), (8, 2), (8, 2), (1, 8))
    assert result.flops == expected
