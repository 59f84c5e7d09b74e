"""Decorrelated batch normalization and its gradients against executed definitions."""

from __future__ import annotations

import numpy as np
import pytest

from costcore.ir import Operations
from tests.calculators.counting_scalar import CountingScalar, count, dot, fma, select, sqrt, total
from tests.calculators.layer_costs import layer_cost
from tests.calculators.reference import mean

N, C, M = 3, 2, 4


G, K, COLUMNS = 2, 3, N * M
"""Groups, channels of each, and columns: x is [3, 6, 4]."""
SHAPE = (N, G * K, M)
EIGEN = Operations(fma=G * (9 * K**3 // 2))


def products(left, right):
    return np.array([[dot(row, column) for column in right.T] for row in left])


def grouped(x):
    return [np.moveaxis(x, 1, 0).reshape(G, K, COLUMNS)[g] for g in range(G)]


def centered(rows):
    means = [mean(row) for row in rows]
    return means, np.array([[value - mu for value in row] for row, mu in zip(rows, means, strict=True)])


@pytest.mark.parametrize("updated", [True, False])
def test_decorrelated_batch_norm(updated):
    """Eigenvalues and eigenvectors count as published, 9 n^3."""

    def definition(x, vectors, values, running, projection):
        for g, rows in enumerate(grouped(x)):
            means, x_hat = centered(rows)
            covariance = products(x_hat, x_hat.T)
            for i in range(K):
                for j in range(K):
                    covariance[i, j] = covariance[i, j] / COLUMNS
                covariance[i, i] = covariance[i, i] + 1e-5
            scale = [1 / sqrt(value) for value in values[g]]
            u = np.array([[v * scale[i] for v in vectors[g][:, i]] for i in range(K)])
            products(vectors[g], products(u, x_hat))
            if updated:
                for mu, old in zip(means, running[g], strict=True):
                    fma(mu, 0.1, old * 0.9)
                for new, old in zip(products(vectors[g], u).ravel(), projection[g].ravel(), strict=True):
                    fma(new, 0.1, old * 0.9)

    statistics = {"mean": (G, K), "projection": (G, K, K)}
    result = layer_cost("decorrelated_batch_norm", {"x": SHAPE, **(statistics if updated else {})}, SHAPE, groups=G)
    assert result.flops == EIGEN + count(definition, SHAPE, (G, K, K), (G, K), (G, K), (G, K, K))
    assert result.macs == G * (3 * K * K * COLUMNS + (K**3 if updated else 0))


def test_decorrelated_batch_norm_backward():
    def definition(dy, values, vectors, y):
        for g, rows in enumerate(grouped(dy)):
            e = values[g]
            inside = products(vectors[g].T, rows)
            averages = [mean(row) for row in inside]
            f = products(inside, y[g].T)
            mat = np.empty((K, K), object)
            roots = [sqrt(value) for value in e]
            for i in range(K):
                for j in range(K):
                    f[i, j] = f[i, j] / COLUMNS
            for i in range(K):
                for j in range(K):
                    gap = e[j] - e[i]
                    gap = 1 / select(gap != 0, gap, CountingScalar(1.0, gap.counts))
                    mat[i, j] = gap * (e[i] * f[j, i] + roots[i] * f[i, j] * roots[j])
            both = np.array([[mat[i, j] + mat[j, i] for j in range(K)] for i in range(K)])
            for i in range(K):
                both[i, i] = both[i, i] - f[i, i]
            inverse = [1 / sqrt(value) for value in e]
            r = np.array(
                [
                    [dot(both[:, i], y[g][:, c], inside[i, c] - averages[i]) * inverse[i] for c in range(COLUMNS)]
                    for i in range(K)
                ]
            )
            products(vectors[g], r)

    shapes = {"dy": SHAPE, "values": (G, K), "vectors": (G, K, K), "y": (G, K, COLUMNS)}
    result = layer_cost("decorrelated_batch_norm_backward", shapes, SHAPE, groups=G)
    assert result.flops == count(definition, *shapes.values())
    assert result.macs == 4 * G * K * K * COLUMNS


def test_fixed_decorrelated_batch_norm():
    def definition(x, center, projection):
        for g, rows in enumerate(grouped(x)):
            products(projection[g], np.array([[v - c for v in row] for row, c in zip(rows, center[g], strict=True)]))

    def gradients(dy, x, center, projection):
        for g, (slopes, rows) in enumerate(zip(grouped(dy), grouped(x), strict=True)):
            dx = products(projection[g].T, slopes)
            for row in dx:
                -total(row)
            products(slopes, np.array([[v - c for v in row] for row, c in zip(rows, center[g], strict=True)]).T)

    statistics = {"mean": (G, K), "projection": (G, K, K)}
    result = layer_cost("fixed_decorrelated_batch_norm", {"x": SHAPE, **statistics}, SHAPE, groups=G)
    assert result.flops == count(definition, SHAPE, (G, K), (G, K, K))
    assert result.macs == G * K * K * COLUMNS
    shapes = {"dy": SHAPE, "x": SHAPE, **statistics}
    result = layer_cost("fixed_decorrelated_batch_norm_backward", shapes, SHAPE, *statistics.values(), groups=G)
    assert result.flops == count(gradients, *shapes.values())
    assert result.macs == 2 * G * K * K * COLUMNS
