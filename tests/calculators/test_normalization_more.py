"""Renormalised and decorrelated normalisations, and pieces of normalisations, against executed definitions."""

from __future__ import annotations

import numpy as np
import pytest

from costcore.ir import Operations
from tests.calculators.counting import Number, count, dot, fma, maximum, minimum, select, sqrt, total
from tests.calculators.layers import cost

N, C, M = 3, 2, 4


def mean(row):
    return total(row) / len(row)


def test_normalize_rows():
    def definition(x, center, scale):
        for row, c, k in zip(x, center, scale, strict=True):
            for value in row:
                (value - c) * k

    result = cost("normalize_rows", {"x": (N, M), "mean": (N,), "scale": (N,)}, (N, M))
    assert result.flops == count(definition, (N, M), (N,), (N,))
    assert result.mread == 4 * (N * M + 2 * N)

    def gradient(dy, y, scale):
        for g, n, k in zip(dy, y, scale, strict=True):
            average, slope = mean(g), dot(g, n) / len(g)
            for a, b in zip(g, n, strict=True):
                fma(slope, b, a - average) * k

    result = cost("normalize_rows_backward", {"dy": (N, M), "y": (N, M), "scale": (N,)}, (N, M))
    assert result.flops == count(gradient, (N, M), (N, M), (N,))


def test_scale_shift_backward():
    def definition(dy, x, w):
        for c in range(C):
            for value in dy[:, c].ravel():
                value * w[c]
            dot(dy[:, c].ravel(), x[:, c].ravel())
            total(dy[:, c].ravel())

    shape = (N, C, M)
    result = cost("scale_shift_backward", {"dy": shape, "x": shape, "w": (C,)}, shape, (C,), (C,))
    assert result.flops == count(definition, shape, shape, (C,))


def test_local_response_norm_backward():
    def definition(dy, x, y, u, scale):
        terms = [a * b / c for a, b, c in zip(y, dy, u, strict=True)]
        for g, value, k in zip(dy, x, scale, strict=True):
            window = total(terms[0] for _ in range(5))  # taps beyond the ends count
            g * k - 0.2 * value * window

    shapes = dict.fromkeys(("dy", "x", "y", "u", "scale"), (1, 6, 1, 1))
    result = cost("local_response_norm_backward", shapes, (1, 6, 1, 1), size=5)
    assert result.flops == count(definition, *[(6,)] * 5)


def test_batch_renorm():
    def definition(x, w, b, center, spread):
        for c in range(C):
            row = x[:, c].ravel()
            mu = mean(row)
            off = [value - mu for value in row]
            var = dot(off, off) / len(row)
            std = sqrt(var + 1e-5)
            inverse = 1 / std
            running = sqrt(spread[c] + 1e-5)
            r = minimum(maximum(std / running, 0.5), 2)
            d = minimum(maximum((mu - center[c]) / running, -1), 1)
            for value in off:
                fma(fma(value * inverse, r, d), w[c], b[c])
            fma(mu, 0.1, center[c] * 0.9)
            fma(var * (len(row) / (len(row) - 1)), 0.1, spread[c] * 0.9)

    shape = (N, C, M)
    result = cost("batch_renorm", {"x": shape, "w": (C,), "b": (C,), "mean": (C,), "var": (C,)}, shape)
    assert result.flops == count(definition, shape, *[(C,)] * 4)
    assert (result.mread, result.mwrite) == (4 * (N * C * M + 4 * C), 4 * (N * C * M + 2 * C))


def test_batch_renorm_backward():
    def definition(dy, x, w):
        inverse, center, r, d = 2.0, 0.5, 0.9, 0.1  # of the forward pass
        for c in range(C):
            g, m = dy[:, c].ravel(), N * M
            n = [(value - center) * inverse for value in x[:, c].ravel()]
            dot(g, [fma(value, r, d) for value in n])
            slope, average = dot(g, n) / m, total(g) / m
            scale = w[c] * r * inverse
            for a, b in zip(g, n, strict=True):
                fma(slope, b, a - average) * scale

    shape = (N, C, M)
    result = cost("batch_renorm_backward", {"dy": shape, "x": shape, "w": (C,)}, shape, (C,), (C,))
    assert result.flops == count(definition, shape, shape, (C,))


G, K, COLUMNS = 2, 3, N * M
"""Groups, channels of each, and columns: x is [3, 6, 4]."""
SHAPE = (N, G * K, M)
EIGEN = Operations(fma=G * (9 * K**3 // 2))


def products(left, right):
    return np.array([[dot(row, column) for column in right.T] for row in left])


def grouped(x):
    return [np.moveaxis(x, 1, 0).reshape(G, K, COLUMNS)[g] for g in range(G)]


def centred(rows):
    means = [mean(row) for row in rows]
    return means, np.array([[value - mu for value in row] for row, mu in zip(rows, means, strict=True)])


@pytest.mark.parametrize("updated", [True, False])
def test_decorrelated_batch_norm(updated):
    """But for the eigenvalues and eigenvectors, which are taken as published: 9 n^3."""

    def definition(x, vectors, values, running, projection):
        for g, rows in enumerate(grouped(x)):
            means, x_hat = centred(rows)
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
    result = cost("decorrelated_batch_norm", {"x": SHAPE, **(statistics if updated else {})}, SHAPE, groups=G)
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
                    gap = 1 / select(gap != 0, gap, Number(1.0, gap.counts))
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
    result = cost("decorrelated_batch_norm_backward", shapes, SHAPE, groups=G)
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
    result = cost("fixed_decorrelated_batch_norm", {"x": SHAPE, **statistics}, SHAPE, groups=G)
    assert result.flops == count(definition, SHAPE, (G, K), (G, K, K))
    assert result.macs == G * K * K * COLUMNS
    shapes = {"dy": SHAPE, "x": SHAPE, **statistics}
    result = cost("fixed_decorrelated_batch_norm_backward", shapes, SHAPE, *statistics.values(), groups=G)
    assert result.flops == count(gradients, *shapes.values())
    assert result.macs == 2 * G * K * K * COLUMNS


def test_weight_norm_backward_is_its_definition():
    def gradients(dy, w, g, norms):
        for slopes, row, scale, norm in zip(dy, w, g, norms, strict=True):
            dg = dot(slopes, row) / norm
            part, factor = dg / norm, scale / norm
            [fma(-value, part, slope) * factor for slope, value in zip(slopes, row, strict=True)]

    shapes = {"dy": (3, 4), "w0": (3, 4), "w1": (3,), "norms": (3,)}
    counted = count(gradients, *shapes.values())
    negated = Operations(add=12)  # the sign of a fused product is free
    assert cost("weight_norm_backward", shapes, (3, 4), (3,)).flops + negated == counted
