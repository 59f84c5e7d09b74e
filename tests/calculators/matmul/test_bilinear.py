"""Bilinear layers with linear terms, and gradients, against executed definitions."""

from __future__ import annotations

import numpy as np
import pytest

from tests.calculators.counting_scalar import count, dot
from tests.calculators.layer_costs import layer_cost

N, P, Q, F = 2, 3, 4, 5
LINEAR = {"w0": (F, P, Q), "w1": (P, F), "w2": (Q, F)}


@pytest.mark.parametrize("biased", [True, False])
def test_biaffine(biased):
    def definition(x0, x1, w0, w1, w2, b):
        for n in range(N):
            for o in range(F):
                vector = [dot(x0[n], w0[o, :, j]) for j in range(Q)]
                y = dot(vector, x1[n], b[o] if biased else None)
                dot(x1[n], w2[:, o], dot(x0[n], w1[:, o], y))

    shapes = {"x0": (N, P), "x1": (N, Q), **LINEAR, "b": (F,)}
    given = shapes if biased else {name: shape for name, shape in shapes.items() if name != "b"}
    result = layer_cost("biaffine", given, (N, F))
    assert result.flops == count(definition, *shapes.values())
    assert result.macs == N * F * (Q * (P + 1) + P + Q)
    assert result.mread == 4 * (N * P + N * Q + F * P * Q + P * F + Q * F + F * biased)


def test_bilinear_is_its_definition():
    def bilinear(x0, x1, w, b):
        for n, o in np.ndindex(2, 3):
            dot([dot(x0[n], w[o, :, j]) for j in range(5)], x1[n], b[o])

    shapes = {"x0": (2, 4), "x1": (2, 5), "w": (3, 4, 5), "b": (3,)}
    cost = layer_cost("bilinear", shapes, (2, 3))
    assert cost.flops == count(bilinear, *shapes.values())
    assert cost.macs == 2 * 3 * (5 * 4 + 5)
