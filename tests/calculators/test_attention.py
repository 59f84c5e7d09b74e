"""Attention and rotary embedding against their executed definitions and other counters."""

from __future__ import annotations

import numpy as np
import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.counting import count, dot, exp, select, tanh, total
from tests.calculators.layers import cost as priced


def attend(q, k, v, mask=None, softcap=None, keep=None):
    """One head: q[Tq, D], k[Tk, D], v[Tk, Dv]; ``mask`` adds or selects, ``keep`` drops weights."""
    result = []
    for i, query in enumerate(q):
        scores = [dot(query, key) * 0.5 for key in k]
        if softcap:
            scores = [tanh(score / softcap) * softcap for score in scores]
        if mask is not None:
            scores = [mask(score, i, j) for j, score in enumerate(scores)]
        powers = [exp(score) for score in scores]
        summed = total(powers)
        weights = [value / summed for value in powers]
        if keep is not None:
            weights = [select(keep[i, j], weight * 2.0, 0.0) for j, weight in enumerate(weights)]
        result.append([dot(weights, column) for column in v.T])
    return result


def heads(q, k, v, **how):
    """q[N, H, Tq, D], k and v[N, Hkv, Tk, D]: query heads share the keys of their group."""
    for n, h in np.ndindex(q.shape[:2]):
        group = h // (q.shape[1] // k.shape[1])
        attend(q[n, h], k[n, group], v[n, group], **how)


SHAPES = [((2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 2)), ((1, 4, 2, 3), (1, 2, 3, 3), (1, 2, 3, 3))]


def operands(q, k, v, **more):
    return {"q": q, "k": k, "v": v, **more}


@pytest.mark.parametrize(("q", "k", "v"), SHAPES)
def test_attention_is_its_definition(q, k, v):
    y = (*q[:-1], v[-1])
    cost = priced("attention", operands(q, k, v), y)
    assert cost.flops == count(heads, q, k, v)
    assert cost.macs == q[0] * q[1] * q[2] * k[2] * (q[3] + v[3])
    assert cost.mread == 4 * (np.prod(q) + np.prod(k) + np.prod(v))
    assert cost.mwrite == 4 * np.prod(y)


def test_a_float_mask_is_added_and_a_bool_mask_chooses():
    q, k, v = SHAPES[0]
    y = (2, 2, 3, 2)
    added = priced("attention", operands(q, k, v, mask=(3, 5)), y)
    assert added.flops == count(lambda q, k, v: heads(q, k, v, mask=lambda score, i, j: score + 1.0), q, k, v)
    assert added.mread == priced("attention", operands(q, k, v), y).mread + 4 * 15

    def chosen(q, k, v, mask):
        heads(q, k, v, mask=lambda score, i, j: select(mask[i, j], score, -1e9))

    cost = priced("attention", operands(q, k, v, mask=Tensor((3, 5), "bool")), y)
    assert cost.flops == count(chosen, q, k, v, (3, 5))
    assert cost.mread == added.mread - 3 * 15


def test_the_causal_flag_changes_nothing_but_what_is_shown():
    q, k, v = SHAPES[0]
    plain, causal = (priced("attention", operands(q, k, v), (2, 2, 3, 2), causal=flag) for flag in (False, True))
    assert causal[:3] == plain[:3]
    assert causal.params == {"causal": True}


def test_softcap_and_dropout_are_counted_per_score():
    q, k, v = SHAPES[0]
    capped = priced("attention", operands(q, k, v), (2, 2, 3, 2), softcap=30.0)
    assert capped.flops == count(lambda q, k, v: heads(q, k, v, softcap=30.0), q, k, v)
    dropped = priced("attention", operands(q, k, v), (2, 2, 3, 2), dropout=0.5)
    assert dropped.flops == count(lambda q, k, v, keep: heads(q, k, v, keep=keep), q, k, v, (3, 5))


@pytest.mark.parametrize(
    ("q", "macs"),
    [
        ((2, 4, 16, 8), 32_768),  # deepspeedai/DeepSpeed@0fe7b1b tests/unit/profiling/flops_profiler
        ((4, 8, 128, 64), 134_217_728 // 2),  # pytorch/pytorch@067f1d9 test/test_flop_counter.py, 2 a product
    ],
)
def test_macs_of_other_counters(q, macs):
    assert priced("attention", operands(q, q, q), q, causal=True).macs == macs


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
    cost = priced("multi_head_attention", given, (n, t, e), heads=h)
    assert cost.flops == count(definition, *given.values())
    assert cost.macs == 6 * 4 * 12 + 2 * (3 * 3 * 4) * 2 + 6 * 4 * 4


def test_multi_head_attention_with_its_own_keys_and_no_output_projection():
    """q[1, 2, 4] and k = v[1, 3, 4] projected to 6, 6 and 2 features, 2 heads of widths 3 and 1."""
    given = {"q": (1, 2, 4), "k": (1, 3, 4), "w0": (4, 14)}
    cost = priced("multi_head_attention", given, (1, 2, 2), heads=2, features=(6, 6, 2))
    assert cost.macs == (2 * 4 * 6 + 3 * 4 * 6 + 3 * 4 * 2) + 2 * (2 * 3 * 3) + 2 * (2 * 3 * 1)


@pytest.mark.parametrize("turned", [4, 2])
def test_rotary_embedding_is_its_definition(turned):
    def rotary(x, cos, sin):
        for row, c, s in zip(x, cos, sin, strict=True):
            for i in range(turned // 2):
                a, b = row[2 * i], row[2 * i + 1]
                a * c[i] - b * s[i], a * s[i] + b * c[i]

    given = {"x": (3, 4), "cos": (3, turned // 2), "sin": (3, turned // 2)}
    cost = priced("rotary_embedding", given, (3, 4), rotary_dim=turned)
    assert cost.flops == count(rotary, *given.values()) == Operations(mul=3 * 2 * turned, add=3 * turned)
    assert cost.mread == 4 * (12 + 3 * turned)


def test_rotary_embedding_reads_one_row_of_its_tables_per_position():
    given = {"x": (1, 2, 3, 8), "cos": (2048, 4), "sin": (2048, 4), "position": Tensor((1, 3), "int64")}
    assert priced("rotary_embedding", given, (1, 2, 3, 8)).mread == 4 * (48 + 12 + 12) + 8 * 3
