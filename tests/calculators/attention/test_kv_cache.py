from __future__ import annotations

import numpy as np
import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.counting_scalar import count, dot, sqrt
from tests.calculators.layer_costs import layer_cost, operations
from tests.calculators.reference import attend, attend_in_heads

Q, K, PAST = (1, 4, 2, 3), (1, 2, 2, 3), (1, 2, 5, 3)


def given(**more):
    return {"q": Q, "k": K, "v": K, "past_k": PAST, "past_v": PAST, **more}


def whole(q, k, v, past_k, past_v):
    attend_in_heads(q, np.concatenate([past_k, k], axis=2), np.concatenate([past_v, v], axis=2))


def test_new_queries_meet_past_and_new_keys() -> None:
    result = layer_cost("decoder_attention", given(), Q)
    assert result.flops == count(whole, Q, K, K, PAST, PAST)
    assert result.macs == 2 * (4 * 2 * 7 * 3)
    assert (result.mread, result.mwrite) == (4 * (24 + 12 + 12 + 30 + 30), 4 * 24)


def test_a_cache_with_room_is_read_as_far_as_it_is_used_and_written_where_it_is_new() -> None:
    result = layer_cost("decoder_attention", given(), Q, PAST, PAST, keys=4, shared=True)
    assert result.macs == 2 * (4 * 2 * 4 * 3)
    assert result.mread == 4 * (24 + 12 + 12 + 2 * (2 * 2 * 3))
    assert result.mwrite == 4 * (24 + 2 * (2 * 2 * 3))


def test_what_is_fused_before_the_scores() -> None:
    plain = operations("decoder_attention", given(), Q)
    assert operations("decoder_attention", given(b=(36,)), Q) == plain + Operations(add=24 + 12 + 12)

    def turn(x, cos, sin):
        for row in x:
            a, b = row[0], row[1]
            a * cos[0] - b * sin[0], a * sin[0] + b * cos[0]

    turned = given(cos=(9, 1), sin=(9, 1))
    expected = plain + count(turn, (8, 3), (1,), (1,)) + count(turn, (4, 3), (1,), (1,))
    assert operations("decoder_attention", turned, Q, rotary_dim=2) == expected
    more = (
        layer_cost("decoder_attention", turned, Q, rotary_dim=2).mread
        - layer_cost("decoder_attention", given(), Q).mread
    )
    assert more == 4 * 2 * 2, "two positions of two tables"

    def norm(x, w):
        for row in x:
            scale = 1 / sqrt(dot(row, row) / 3 + 1e-6)
            [value * scale * weight for value, weight in zip(row, w, strict=True)]

    normed = operations("decoder_attention", given(w0=(3,), w1=(3,)), Q)
    assert normed == plain + count(norm, (8, 3), (3,)) + count(norm, (4, 3), (3,))
    assert operations("decoder_attention", given(sink=(4,)), Q) == plain + Operations(add=8, special=8)


def test_a_quantized_cache() -> None:
    cache = Tensor(PAST, "int8")
    inputs = given(past_k=cache, past_v=cache, k_scale=None, v_scale=None)
    result = layer_cost("decoder_attention", inputs, Q)
    plain = operations("decoder_attention", given(), Q)
    assert result.flops == plain + 2 * (Operations(mul=30) + 12 * Operations(div=1, cmp=3))
    assert result.mread == 4 * 48 + 60


def test_a_decoder_projects_the_keys_it_makes() -> None:
    operands = {"q": (3, 1, 4), "k": (5, 1, 4), "w0": (4, 4), "w1": (4, 8), "b": (12,)}
    result = layer_cost("cached_attention", operands, (3, 1, 4), heads=2, keys=5, made=5)
    assert result.flops == count(layer_of_a_decoder, (3, 4), (5, 4), (4, 4), (4, 4), (4, 4), (12,))
    assert result.macs == 3 * 16 + 5 * 32 + 2 * (2 * 3 * 5 * 2)


@pytest.mark.parametrize("shared", [False, True])
def test_keys_in_pages(shared: bool) -> None:
    """2 sequences, one new token each, 4 heads on 2 key heads of 4 features; 3 pages of 8 places hold the past."""
    pages = (3, 8, 2, 4)
    operands = {"q": (1, 4, 2, 4), "k": (1, 2, 2, 4), "v": (1, 2, 2, 4), "past_k": pages, "past_v": pages}
    outputs = [(2, 16), pages, pages]
    result = layer_cost("paged_attention", operands, *outputs, keys=7, positions=12, shared=shared)
    assert result.flops == 8 * count(lambda q, k, v: attend(q, k, v), (1, 4), (7, 4), (7, 4))
    assert result.macs == 2 * (8 * 7 * 4)
    # of 12 positions 10 are of the past: 8 features each, for keys and for values
    assert result.mread == 4 * (32 + 16 + 16 + 2 * 10 * 8)
    new = 16 if shared else 3 * 8 * 8
    assert result.mwrite == 4 * (32 + 2 * new)
    scaled = layer_cost("paged_attention", {**operands, "k_scale": (1,)}, *outputs, keys=7, positions=12)
    assert isinstance(result.flops, Operations)
    assert scaled.flops == result.flops + Operations(mul=80) + 16 * Operations(div=1, cmp=3)
    full = layer_cost("paged_attention", operands, *outputs, keys=7, positions=99)
    assert full.mread == 4 * (32 + 16 + 16 + 2 * 3 * 8 * 8), "no more than the pages hold"
    without = {name: operands[name] for name in ("q", "k", "v")}
    assert layer_cost("paged_attention", without, (2, 16), keys=2, positions=2).mread == 4 * (32 + 16 + 16)


def layer_of_a_decoder(x, source, w, wk, wv, b):
    """Two heads of two features."""

    def projected(rows, weights, part):
        return np.array([[dot(row, weights[:, i], b[4 * part + i]) for i in range(4)] for row in rows])

    q, k, v = projected(x, w, 0), projected(source, wk, 1), projected(source, wv, 2)
    for head in (slice(0, 2), slice(2, 4)):
        attend(q[:, head], k[:, head], v[:, head])
