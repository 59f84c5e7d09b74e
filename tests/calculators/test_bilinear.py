"""Bilinear layers with linear terms, and gradients, against executed definitions."""

from __future__ import annotations

import numpy as np
import pytest

from tests.calculators.counting import count, dot, select, total
from tests.calculators.layers import cost

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
    result = cost("biaffine", given, (N, F))
    assert result.flops == count(definition, *shapes.values())
    assert result.macs == N * F * (Q * (P + 1) + P + Q)
    assert result.mread == 4 * (N * P + N * Q + F * P * Q + P * F + Q * F + F * biased)


def bilinear_gradients(dy, x0, x1, w):
    """For every row dy W, and its products; the gradients of both operands are returned."""
    firsts, seconds = [], []
    for n in range(N):
        matrix = np.array([[dot(dy[n], w[:, i, j]) for j in range(Q)] for i in range(P)])
        firsts.append([dot(matrix[i], x1[n]) for i in range(P)])
        seconds.append([dot(matrix[:, j], x0[n]) for j in range(Q)])
    outer = np.array([[[x0[n, i] * x1[n, j] for j in range(Q)] for i in range(P)] for n in range(N)])
    for o in range(F):
        for i in range(P):
            for j in range(Q):
                dot(dy[:, o], outer[:, i, j])
    return firsts, seconds


def test_bilinear_backward():
    shapes = {"dy": (N, F), "x0": (N, P), "x1": (N, Q), "w": (F, P, Q)}
    result = cost("bilinear_backward", shapes, (N, P), (N, Q), (F, P, Q))
    assert result.flops == count(lambda *operands: bilinear_gradients(*operands) and None, *shapes.values())
    assert result.macs == 2 * N * P * Q * (F + 1)


def test_biaffine_backward():
    def definition(dy, x0, x1, w0, w1, w2):
        firsts, seconds = bilinear_gradients(dy, x0, x1, w0)
        for x, w, gradients in ((x0, w1, firsts), (x1, w2, seconds)):
            for n in range(N):
                for i in range(len(w)):
                    dot(dy[n], w[i], gradients[n][i])
            for i in range(len(w)):
                for o in range(F):
                    dot(x[:, i], dy[:, o])
        for o in range(F):
            total(dy[:, o])

    shapes = {"dy": (N, F), "x0": (N, P), "x1": (N, Q), **LINEAR}
    result = cost("biaffine_backward", shapes, (N, P), (N, Q), *LINEAR.values(), (F,))
    assert result.flops == count(definition, *shapes.values())
    assert result.macs == 2 * N * P * Q * (F + 1) + 2 * N * (P + Q) * F


@pytest.mark.parametrize("mask", [(N, F, P), (F, P)], ids=["a mask a row", "one mask"])
def test_dropconnect_linear(mask):
    def definition(x, w, keep, b):
        dropped = {i: select(keep[i], w[i[-2:]] * 2.0, w[i[-2:]]) for i in np.ndindex(mask)}
        for n in range(N):
            for o in range(F):
                kept = [dropped[(n, o, i)[-len(mask) :]] for i in range(P)]
                dot(x[n], kept, b[o])

    result = cost("dropconnect_linear", {"x": (N, P), "w": (F, P), "b": (F,)}, (N, F), mask)
    assert result.flops == count(definition, (N, P), (F, P), mask, (F,))
    assert result.macs == N * F * P
    assert result.mwrite == 4 * (N * F + int(np.prod(mask)))
