"""Streams and biases of scores against their executed definitions."""

from __future__ import annotations

import pytest

from costcore.ir import Operations
from tests.calculators.counting import count, dot, fma, maximum, select, sqrt, total
from tests.calculators.layers import cost
from tests.calculators.test_attention_sparse import normal
from tests.calculators.test_recurrent import sigmoid


def reduced(x, gate):
    for i in range(x.shape[1]):
        dot(x[:, i], gate) * 0.5


def test_reduced_streams() -> None:
    result = cost("reduce_streams", {"x": (2, 3, 4), "gate": (2, 3)}, (2, 4), streams=3, scale=0.5)
    assert (result.flops, result.macs) == (2 * count(reduced, (3, 4), (3,)), 2 * 3 * 4)


def mixed(x, z, gate, m):
    for k, row in enumerate(x):
        for i in range(len(z)):
            fma(gate[k], z[i], dot(m[:, k], x[:, i]))
        assert len(row) == len(z)


def test_mixed_streams() -> None:
    operands = {"x": (2, 3, 4), "z": (2, 4), "gate": (2, 3), "m": (2, 3, 3)}
    result = cost("mix_streams", operands, (2, 3, 4), streams=3)
    assert (result.flops, result.macs) == (2 * count(mixed, (3, 4), (4,), (3,), (3, 3)), 2 * 3 * 3 * 4)


def gated(q, k, v, w0, w1, w2):
    s = dot(normal(k, w0), normal(q, w1)) * 0.5
    root = sqrt(maximum(abs(s), 1e-6))
    gate = sigmoid(select(s > 0, 1, select(s < 0, -1, 0)) * root)
    normal([gate * a for a in v], w2)


@pytest.mark.parametrize("normed", [True, False])
def test_similarity_gate(normed: bool) -> None:
    operands = {"q": (1, 2, 3, 4), "k": (1, 2, 3, 4), "v": (1, 2, 4), "w0": (3, 4), "w1": (3, 4)}
    with_norm = 6 * count(gated, *[(4,)] * 6)
    if normed:
        assert cost("similarity_gate", {**operands, "w2": (3, 4)}, *[(1, 2, 3, 4)] * 2).flops == with_norm
    else:
        expected = with_norm
        norm = 6 * count(normal, (4,), (4,))
        assert cost("similarity_gate", operands, (1, 2, 3, 4)).flops + norm == expected


def bias_of(q, b0, bias, w, b1, a):
    """One head of 2 features, 3 positions; 4 features of gates."""
    for t in range(3):
        row = [x + b for x, b in zip(q[t], b0, strict=True)]
        parts = [dot(row, w[:, i], b1[i]) for i in range(4)]
        u, r = sigmoid(total(parts[:2])), sigmoid(total(parts[2:]))
        gate = u * (r * a - 1) + 2
        [gate * x for x in bias[t]]


def test_gated_position_bias() -> None:
    operands = {"q": (1, 3, 4), "b0": (4,), "bias": (1, 2, 3, 3), "w": (2, 4), "b1": (4,), "factor": (1, 2, 1, 1)}
    result = cost("gated_position_bias", operands, (1, 2, 3, 3))
    assert result.flops == 2 * count(bias_of, (3, 2), (2,), (3, 3), (2, 4), (4,), ())
    assert result.macs == 2 * 3 * 4 * 2


def test_a_bias_by_distance_is_looked_up() -> None:
    result = cost("relative_position_bias", {"w": (32, 8)}, (1, 8, 5, 7))
    assert (result.flops, result.macs) == (Operations(), 0)
    assert (result.mread, result.mwrite) == (4 * 32 * 8, 4 * 8 * 5 * 7)
