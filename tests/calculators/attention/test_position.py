"""Position embeddings and biases against executed definitions."""

from __future__ import annotations

import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.counting_scalar import count, dot, total
from tests.calculators.layer_costs import layer_cost, operations
from tests.calculators.reference import sigmoid


@pytest.mark.parametrize("turned", [4, 2])
def test_rotary_embedding_is_its_definition(turned):
    def rotary(x, cos, sin):
        for row, c, s in zip(x, cos, sin, strict=True):
            for i in range(turned // 2):
                a, b = row[2 * i], row[2 * i + 1]
                a * c[i] - b * s[i], a * s[i] + b * c[i]

    given = {"x": (3, 4), "cos": (3, turned // 2), "sin": (3, turned // 2)}
    cost = layer_cost("rotary_embedding", given, (3, 4), rotary_dim=turned)
    assert cost.flops == count(rotary, *given.values()) == Operations(mul=3 * 2 * turned, add=3 * turned)
    assert cost.mread == 4 * (12 + 3 * turned)


def test_rotary_embedding_reads_one_row_of_its_tables_per_position():
    given = {"x": (1, 2, 3, 8), "cos": (2048, 4), "sin": (2048, 4), "position": Tensor((1, 3), "int64")}
    assert layer_cost("rotary_embedding", given, (1, 2, 3, 8)).mread == 4 * (48 + 12 + 12) + 8 * 3


def test_a_pair_turned_by_angles() -> None:
    x = (1, 2, 3, 4)
    inputs = {"x0": x, "x1": x, "x2": x, "x3": x, "angle": (1, 3, 4)}
    assert operations("rotated_pair", inputs, x, x) == Operations(special=24) + 48 * Operations(mul=2, add=1)


def bias_of(q, b0, bias, w, b1, a):
    """One head of 2 features and 3 positions, with 4 features of gates."""
    for t in range(3):
        row = [x + b for x, b in zip(q[t], b0, strict=True)]
        parts = [dot(row, w[:, i], b1[i]) for i in range(4)]
        u, r = sigmoid(total(parts[:2])), sigmoid(total(parts[2:]))
        gate = u * (r * a - 1) + 2
        [gate * x for x in bias[t]]


def test_gated_position_bias() -> None:
    operands = {"q": (1, 3, 4), "b0": (4,), "bias": (1, 2, 3, 3), "w": (2, 4), "b1": (4,), "factor": (1, 2, 1, 1)}
    result = layer_cost("gated_position_bias", operands, (1, 2, 3, 3))
    assert result.flops == 2 * count(bias_of, (3, 2), (2,), (3, 3), (2, 4), (4,), ())
    assert result.macs == 2 * 3 * 4 * 2


def test_a_bias_by_distance_is_looked_up() -> None:
    result = layer_cost("relative_position_bias", {"w": (32, 8)}, (1, 8, 5, 7))
    assert (result.flops, result.macs) == (Operations(), 0)
    assert (result.mread, result.mwrite) == (4 * 32 * 8, 4 * 8 * 5 * 7)
