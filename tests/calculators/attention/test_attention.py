"""Attention and multi-head attention against executed definitions and other counters."""

from __future__ import annotations

import numpy as np
import pytest

from costcore.ir import Layer, Operations, Tensor
from tests.calculators.counting_scalar import count, dot, select
from tests.calculators.layer_costs import layer_cost, operations, priced
from tests.calculators.reference import attend, attend_in_heads

SHAPES = [((2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 2)), ((1, 4, 2, 3), (1, 2, 3, 3), (1, 2, 3, 3))]


def operands(q, k, v, **more):
    return {"q": q, "k": k, "v": v, **more}


@pytest.mark.parametrize(("q", "k", "v"), SHAPES)
def test_attention_is_its_definition(q, k, v):
    y = (*q[:-1], v[-1])
    cost = layer_cost("attention", operands(q, k, v), y)
    assert cost.flops == count(attend_in_heads, q, k, v)
    assert cost.macs == q[0] * q[1] * q[2] * k[2] * (q[3] + v[3])
    assert cost.mread == 4 * (np.prod(q) + np.prod(k) + np.prod(v))
    assert cost.mwrite == 4 * np.prod(y)


def test_a_float_mask_is_added_and_a_bool_mask_chooses():
    q, k, v = SHAPES[0]
    y = (2, 2, 3, 2)
    added = layer_cost("attention", operands(q, k, v, mask=(3, 5)), y)
    assert added.flops == count(lambda q, k, v: attend_in_heads(q, k, v, mask=lambda score, i, j: score + 1.0), q, k, v)
    assert added.mread == layer_cost("attention", operands(q, k, v), y).mread + 4 * 15

    def chosen(q, k, v, mask):
        attend_in_heads(q, k, v, mask=lambda score, i, j: select(mask[i, j], score, -1e9))

    cost = layer_cost("attention", operands(q, k, v, mask=Tensor((3, 5), "bool")), y)
    assert cost.flops == count(chosen, q, k, v, (3, 5))
    assert cost.mread == added.mread - 3 * 15


def test_the_causal_flag_changes_nothing_but_what_is_shown():
    q, k, v = SHAPES[0]
    plain, causal = (layer_cost("attention", operands(q, k, v), (2, 2, 3, 2), causal=flag) for flag in (False, True))
    assert causal[:3] == plain[:3]
    assert causal.params == {"causal": True}


def test_softcap_and_dropout_are_counted_per_score():
    q, k, v = SHAPES[0]
    capped = layer_cost("attention", operands(q, k, v), (2, 2, 3, 2), softcap=30.0)
    assert capped.flops == count(lambda q, k, v: attend_in_heads(q, k, v, softcap=30.0), q, k, v)
    dropped = layer_cost("attention", operands(q, k, v), (2, 2, 3, 2), dropout=0.5)
    assert dropped.flops == count(lambda q, k, v, keep: attend_in_heads(q, k, v, keep=keep), q, k, v, (3, 5))


@pytest.mark.parametrize(
    ("q", "k", "v", "y"),
    [
        ((1, 4, 5, 7), (3, 4, 6, 7), (3, 4, 6, 2), (3, 4, 5, 2)),
        ((4, 5, 7), (3, 4, 6, 7), (3, 4, 6, 2), (3, 4, 5, 2)),
        ((3, 1, 5, 7), (1, 4, 6, 7), (3, 4, 6, 2), (3, 4, 5, 2)),
        ((3, 4, 5, 7), (1, 1, 6, 7), (6, 2), (3, 4, 5, 2)),
    ],
)
def test_pairs_are_those_of_the_output_whichever_operand_is_broadcast(q, k, v, y):
    """3 samples, 4 heads, 5 queries, 6 keys: 360 scores of 7 products, 360 weights of 2."""
    full = layer_cost("attention", operands((3, 4, 5, 7), (3, 4, 6, 7), (3, 4, 6, 2)), y)
    broadcast = layer_cost("attention", operands(q, k, v), y)
    assert broadcast.macs == full.macs == 360 * 7 + 360 * 2
    assert broadcast.flops == full.flops
    assert broadcast.mread == 4 * (np.prod(q) + np.prod(k) + np.prod(v))


def test_an_output_that_joins_its_heads_has_the_queries_of_q():
    q, k, v = SHAPES[0]
    joined = layer_cost("attention", operands(q, k, v), (2, 3, 2 * 2))
    assert joined == layer_cost("attention", operands(q, k, v), (2, 2, 3, 2))


def test_heads_of_width_0_average_the_values():
    """2 heads, 5 queries, 7 keys: 70 scores without products, and 70 weights times 3 values each."""
    q, k, v, y = (1, 2, 5, 0), (1, 2, 7, 0), (1, 2, 7, 3), (1, 2, 5, 3)
    layer = Layer("attention", {name: Tensor(x) for name, x in operands(q, k, v).items()}, [Tensor(y)])
    cost = priced(layer)
    assert cost.macs == 70 * 3
    # softmax: 70 exp, 70 - 10 add, 70 div; the scale: 70 mul; values: 30 dot products of length 7
    assert cost.flops == Operations(special=70, add=60, div=70, mul=70 + 30, fma=30 * 6)
    assert (cost.mread, cost.mwrite) == (4 * 42, 4 * 30)


def test_attention_to_no_keys_costs_no_operations():
    q, k, v, y = (1, 2, 5, 3), (1, 2, 0, 3), (1, 2, 0, 3), (1, 2, 5, 3)
    layer = Layer("attention", {name: Tensor(x) for name, x in operands(q, k, v).items()}, [Tensor(y)])
    cost = priced(layer)
    assert (cost.flops, cost.macs) == (Operations(), 0)


@pytest.mark.parametrize(
    ("q", "macs"),
    [
        ((2, 4, 16, 8), 32_768),  # deepspeedai/DeepSpeed@0fe7b1b tests/unit/profiling/flops_profiler
        ((4, 8, 128, 64), 134_217_728 // 2),  # pytorch/pytorch@067f1d9 test/test_flop_counter.py, 2 a product
    ],
)
def test_macs_of_other_counters(q, macs):
    assert layer_cost("attention", operands(q, q, q), q, causal=True).macs == macs


def test_multi_head_attention_is_projections_and_attention():
    n, t, e, h = 2, 3, 4, 2

    def definition(x, w0, b0, w1, b1):
        for sample in x:
            packed = np.array([[dot(row, w, b) for w, b in zip(w0, b0, strict=True)] for row in sample], dtype=object)
            q, k, v = packed.reshape(t, 3, h, e // h).transpose(1, 2, 0, 3)
            joined = np.concatenate([np.array(attend(q[i], k[i], v[i]), dtype=object) for i in range(h)], axis=1)
            for row in joined:
                for w, b in zip(w1, b1, strict=True):
                    dot(row, w, b)

    given = {"q": (n, t, e), "w0": (3 * e, e), "b0": (3 * e,), "w1": (e, e), "b1": (e,)}
    cost = layer_cost("multi_head_attention", given, (n, t, e), heads=h)
    assert cost.flops == count(definition, *given.values())
    assert cost.macs == 6 * 4 * 12 + 2 * (3 * 3 * 4) * 2 + 6 * 4 * 4


def test_multi_head_attention_with_its_own_keys_and_no_output_projection():
    """q[1, 2, 4] and k = v[1, 3, 4] projected to 6, 6 and 2 features, 2 heads of widths 3 and 1."""
    given = {"q": (1, 2, 4), "k": (1, 3, 4), "w0": (4, 14)}
    cost = layer_cost("multi_head_attention", given, (1, 2, 2), heads=2, features=(6, 6, 2))
    assert cost.macs == (2 * 4 * 6 + 3 * 4 * 6 + 3 * 4 * 2) + 2 * (2 * 3 * 3) + 2 * (2 * 3 * 1)


def test_quantized_projections() -> None:
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
    past = layer_cost("multi_head_attention", {**inputs, "past": (2, 1, 2, 3, 2)}, (1, 2, 4), **settings)
    assert past.macs == 2 * 4 * 12 + 2 * (2 * 2 * 5 * 2)
    some = layer_cost("multi_head_attention", inputs, (1, 2, 4), keys=1, **settings)
    assert some.macs == 2 * 4 * 12 + 2 * (2 * 2 * 1 * 2)
    plain = operations("multi_head_attention", inputs, (1, 2, 4), **settings)
    turned = operations("multi_head_attention", inputs, (1, 2, 4), rotary_dim=2, **settings)
    assert turned == plain + (2 * 2 * 2 + 2 * 2 * 2) * Operations(mul=2, add=1)
