"""Streams and biases of scores against their executed definitions."""

from __future__ import annotations

import pytest

from tests.calculators.counting_scalar import count, dot, fma, maximum, select, sqrt
from tests.calculators.layer_costs import layer_cost
from tests.calculators.reference import rms_normalized, sigmoid


def reduced(x, gate):
    for i in range(x.shape[1]):
        dot(x[:, i], gate) * 0.5


def test_reduced_streams() -> None:
    result = layer_cost("reduce_streams", {"x": (2, 3, 4), "gate": (2, 3)}, (2, 4), streams=3, scale=0.5)
    assert (result.flops, result.macs) == (2 * count(reduced, (3, 4), (3,)), 2 * 3 * 4)


@pytest.mark.parametrize("settings", [{}, {"scale": 1}], ids=["absent", "1"])
def test_a_scale_of_one_multiplies_nothing(settings):
    result = layer_cost("reduce_streams", {"x": (2, 3, 4), "gate": (2, 3)}, (2, 4), streams=3, **settings)
    assert result.flops == 2 * count(lambda x, gate: [dot(x[:, i], gate) for i in range(4)], (3, 4), (3,))


def test_streams_with_a_gate_for_every_feature_are_no_matrix_product():
    result = layer_cost("reduce_streams", {"x": (2, 3, 4), "gate": (2, 3, 4)}, (2, 4), streams=3)
    assert result.flops == 2 * count(lambda x, gate: [dot(x[:, i], gate[:, i]) for i in range(4)], (3, 4), (3, 4))
    assert result.macs == 0


def mixed(x, z, gate, m):
    for k, row in enumerate(x):
        for i in range(len(z)):
            fma(gate[k], z[i], dot(m[:, k], x[:, i]))
        assert len(row) == len(z)


def test_mixed_streams() -> None:
    operands = {"x": (2, 3, 4), "z": (2, 4), "gate": (2, 3), "m": (2, 3, 3)}
    result = layer_cost("mix_streams", operands, (2, 3, 4), streams=3)
    assert (result.flops, result.macs) == (2 * count(mixed, (3, 4), (4,), (3,), (3, 3)), 2 * 3 * 3 * 4)


def test_streams_that_are_not_mixed():
    """Per element of y, 2 * 3 * 4 of them, one product that is added: no MACs."""
    result = layer_cost("mix_streams", {"x": (2, 3, 4), "z": (2, 4), "gate": (2, 3)}, (2, 3, 4), streams=3)
    assert (result.flops, result.macs) == (2 * count(added, (3, 4), (4,), (3,)), 0)


def added(x, z, gate):
    for k, row in enumerate(x):
        for i in range(len(z)):
            fma(gate[k], z[i], row[i])


def gated(q, k, v, w0, w1, w2):
    s = dot(rms_normalized(k, w0), rms_normalized(q, w1)) * 0.5
    root = sqrt(maximum(abs(s), 1e-6))
    gate = sigmoid(select(s > 0, 1, select(s < 0, -1, 0)) * root)
    rms_normalized([gate * a for a in v], w2)


@pytest.mark.parametrize("normed", [True, False])
def test_similarity_gate(normed: bool) -> None:
    operands = {"q": (1, 2, 3, 4), "k": (1, 2, 3, 4), "v": (1, 2, 4), "w0": (3, 4), "w1": (3, 4)}
    with_norm = 6 * count(gated, *[(4,)] * 6)
    if normed:
        assert layer_cost("similarity_gate", {**operands, "w2": (3, 4)}, *[(1, 2, 3, 4)] * 2).flops == with_norm
    else:
        expected = with_norm
        norm = 6 * count(rms_normalized, (4,), (4,))
        assert layer_cost("similarity_gate", operands, (1, 2, 3, 4)).flops + norm == expected
