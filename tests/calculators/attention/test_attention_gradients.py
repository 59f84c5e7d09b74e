"""Gradients of attention against the executed definition and another counter."""

from __future__ import annotations

import numpy as np
import pytest

from costcore.ir import Operations
from tests.calculators.counting_scalar import count, dot
from tests.calculators.layer_costs import layer_cost


def attention_backward(dy, q, k, v, p):
    """p: the weights of the forward pass. Query heads share the keys of their group."""
    (batch, heads, t_q, _), kv_heads, t_k = q.shape, k.shape[1], k.shape[2]
    group = heads // kv_heads
    for n, g in np.ndindex(batch, kv_heads):
        scores = []
        for h in range(g * group, (g + 1) * group):
            for i in range(t_q):
                weights = p[n, h, i]
                slopes = [dot(dy[n, h, i], v[n, g, j]) for j in range(t_k)]
                inner = dot(weights, slopes)
                scores.append([w * (s - inner) * 0.5 for w, s in zip(weights, slopes, strict=True)])
        rows = [(h, i) for h in range(g * group, (g + 1) * group) for i in range(t_q)]
        for j, e in np.ndindex(t_k, v.shape[-1]):
            dot([p[n, h, i, j] for h, i in rows], [dy[n, h, i, e] for h, i in rows])
        for r, e in np.ndindex(len(rows), q.shape[-1]):
            dot(scores[r], k[n, g, :, e])
        for j, e in np.ndindex(t_k, k.shape[-1]):
            dot([row[j] for row in scores], [q[n, h, i, e] for h, i in rows])


@pytest.mark.parametrize(
    ("q", "k", "v"), [((2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 2)), ((1, 4, 2, 3), (1, 2, 3, 3), (1, 2, 3, 3))]
)
def test_attention_backward_is_its_definition(q, k, v):
    dy, p = (*q[:-1], v[-1]), (*q[:-1], k[-2])
    cost = layer_cost("attention_backward", {"dy": dy, "q": q, "k": k, "v": v}, q, k, v)
    assert cost.flops == count(attention_backward, dy, q, k, v, p)
    forward = layer_cost("attention", {"q": q, "k": k, "v": v}, dy)
    assert cost.macs == 2 * forward.macs
    assert (cost.mread, cost.mwrite) == (forward.mread + forward.mwrite, forward.mread)


def test_attention_backward_of_another_counter():
    """pytorch/pytorch@067f1d9 test/test_flop_counter.py: T_q 128, T_k 256, forward and backward 805,306,368."""
    q, k = (4, 8, 128, 64), (4, 8, 256, 64)
    forward = layer_cost("attention", {"q": q, "k": k, "v": k}, q)
    backward = layer_cost("attention_backward", {"dy": q, "q": q, "k": k, "v": k}, q, k, k)
    assert 2 * (forward.macs + backward.macs) == 805_306_368


def test_dropout_and_softcap_by_hand():
    """2 x 3 x 5 = 30 scores."""
    shapes = {"dy": (1, 2, 3, 4), "q": (1, 2, 3, 4), "k": (1, 2, 5, 4), "v": (1, 2, 5, 4)}
    outputs = shapes["q"], shapes["k"], shapes["v"]
    plain = layer_cost("attention_backward", shapes, *outputs).flops
    dropped = layer_cost("attention_backward", shapes, *outputs, dropout=0.1).flops
    assert dropped == plain + Operations(mul=2 * 30, cmp=2 * 30)
    assert layer_cost("attention_backward", shapes, *outputs, softcap=30.0).flops == plain + Operations(mul=60, add=30)
