from __future__ import annotations

import numpy as np

from costcore.ir import Operations, Tensor
from tests.calculators.counting import count, dot, sqrt
from tests.calculators.layers import cost, operations
from tests.calculators.test_attention import heads

Q, K, PAST = (1, 4, 2, 3), (1, 2, 2, 3), (1, 2, 5, 3)


def given(**more):
    return {"q": Q, "k": K, "v": K, "past_k": PAST, "past_v": PAST, **more}


def whole(q, k, v, past_k, past_v):
    heads(q, np.concatenate([past_k, k], axis=2), np.concatenate([past_v, v], axis=2))


def test_new_queries_meet_past_and_new_keys() -> None:
    result = cost("decoder_attention", given(), Q)
    assert result.flops == count(whole, Q, K, K, PAST, PAST)
    assert result.macs == 2 * (4 * 2 * 7 * 3)
    assert (result.mread, result.mwrite) == (4 * (24 + 12 + 12 + 30 + 30), 4 * 24)


def test_a_cache_with_room_is_read_as_far_as_it_is_used_and_written_where_it_is_new() -> None:
    result = cost("decoder_attention", given(), Q, PAST, PAST, keys=4, shared=True)
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
    more = cost("decoder_attention", turned, Q, rotary_dim=2).mread - cost("decoder_attention", given(), Q).mread
    assert more == 4 * 2 * 2, "two positions of two tables"

    def norm(x, w):
        for row in x:
            scale = 1 / sqrt(dot(row, row) / 3 + 1e-6)
            [value * scale * weight for value, weight in zip(row, w, strict=True)]

    normed = operations("decoder_attention", given(w0=(3,), w1=(3,)), Q)
    assert normed == plain + count(norm, (8, 3), (3,)) + count(norm, (4, 3), (3,))
    assert operations("decoder_attention", given(sink=(4,)), Q) == plain + Operations(add=8, special=8)


def test_a_quantised_cache() -> None:
    cache = Tensor(PAST, "int8")
    inputs = given(past_k=cache, past_v=cache, k_scale=None, v_scale=None)
    result = cost("decoder_attention", inputs, Q)
    plain = operations("decoder_attention", given(), Q)
    assert result.flops == plain + 2 * (Operations(mul=30) + 12 * Operations(div=1, cmp=3))
    assert result.mread == 4 * 48 + 60


def test_quantised_projections() -> None:
    inputs = {"q": Tensor((1, 3, 4), "uint8"), "w0": Tensor((12, 4), "int8"), "b0": (12,)}
    settings = {"heads": 2, "features": (4, 4, 4)}
    plain = operations("multi_head_attention", inputs, (1, 3, 4), **settings)
    shifted = {**inputs, "q_scale": None, "q_zero_point": None}
    assert operations("quantized_multi_head_attention", shifted, (1, 3, 4), **settings) == plain + Operations(
        mul=3 * 12, add=12
    )


def test_projections_with_a_past_and_turned_heads() -> None:
    inputs = {"q": (1, 2, 4), "w0": (12, 4)}
    settings = {"heads": 2, "features": (4, 4, 4)}
    past = cost("multi_head_attention", {**inputs, "past": (2, 1, 2, 3, 2)}, (1, 2, 4), **settings)
    assert past.macs == 2 * 4 * 12 + 2 * (2 * 2 * 5 * 2)
    some = cost("multi_head_attention", inputs, (1, 2, 4), keys=1, **settings)
    assert some.macs == 2 * 4 * 12 + 2 * (2 * 2 * 1 * 2)
    plain = operations("multi_head_attention", inputs, (1, 2, 4), **settings)
    turned = operations("multi_head_attention", inputs, (1, 2, 4), rotary_dim=2, **settings)
    assert turned == plain + (2 * 2 * 2 + 2 * 2 * 2) * Operations(mul=2, add=1)


def test_a_pair_turned_by_angles() -> None:
    x = (1, 2, 3, 4)
    inputs = {"x0": x, "x1": x, "x2": x, "x3": x, "angle": (1, 3, 4)}
    assert operations("rotated_pair", inputs, x, x) == Operations(special=24) + 48 * Operations(mul=2, add=1)
