"""Losses of embeddings and their gradients against executed definitions."""

from __future__ import annotations

import numpy as np
import pytest

from costcore.ir import Tensor
from tests.calculators.counting import count, dot, exp, fma, log, maximum, sqrt, total
from tests.calculators.layers import cost

N, C = 4, 3
INTEGERS = Tensor((N,), "int32")


def reduced(losses, reduction):
    if reduction != "none":
        total(losses) / len(losses)


def minus(a, b):
    return [p - q for p, q in zip(a, b, strict=True)]


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_contrastive_loss(reduction):
    def definition(x0, x1, target):
        losses = []
        for a, b, t in zip(x0, x1, target, strict=True):
            d = minus(a, b)
            square = dot(d, d)
            short = maximum(2 - sqrt(square), 0)
            losses.append((t * square + (1 - t) * short * short) * 0.5)
        reduced(losses, reduction)

    output = () if reduction == "mean" else (N,)
    result = cost("contrastive_loss", {"x0": (N, C), "x1": (N, C), "target": INTEGERS}, output, reduction=reduction)
    assert result.flops == count(definition, (N, C), (N, C), (N,))
    assert result.mread == 4 * (2 * N * C + N)


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_squared_triplet_loss(reduction):
    def definition(x0, x1, x2):
        losses = []
        for a, b, c in zip(x0, x1, x2, strict=True):
            near, far = minus(a, b), minus(a, c)
            losses.append(maximum(dot(near, near) - dot(far, far) + 0.2, 0))
        reduced(losses, reduction)

    output = () if reduction == "mean" else (N,)
    result = cost("squared_triplet_loss", {f"x{i}": (N, C) for i in range(3)}, output, reduction=reduction)
    assert result.flops == count(definition, *[(N, C)] * 3)


def centred(x):
    columns = []
    for column in x.T:
        mean = total(column) / len(column)
        columns.append([value - mean for value in column])
    return columns


def covariance(left, right, reduction):
    products = [dot(a, b) / len(a) for a in left for b in right]
    if reduction == "half_squared_sum":
        return dot(products, products) * 0.5
    return products


@pytest.mark.parametrize("reduction", ["half_squared_sum", "none"])
def test_covariances(reduction):
    settings = {"reduction": reduction}
    output = () if reduction == "half_squared_sum" else (C, 2)
    result = cost("cross_covariance", {"x0": (N, C), "x1": (N, 2)}, output, **settings)
    assert result.flops == count(lambda x, y: covariance(centred(x), centred(y), reduction), (N, C), (N, 2))
    assert result.macs == N * C * 2

    def decov(x):
        columns = centred(x)
        return covariance(columns, columns, reduction)

    result = cost("decov_loss", {"x": (N, C)}, () if output == () else (C, C), **settings)
    assert result.flops == count(decov, (N, C))
    assert result.macs == N * C * C


@pytest.mark.parametrize("reduction", ["half_squared_sum", "none"])
def test_gradient_of_decov(reduction):
    """h and cov, the centred columns and their covariance, are there from the forward pass."""

    def summed(dy, h, cov):
        share = dy / N
        for row in h:
            for column in cov.T:
                dot(row, column) * 2.0 * share

    def whole(dy, h, cov):
        parts = dy / N
        both = np.array([[parts[i, j] + parts[j, i] for j in range(C)] for i in range(C)])
        for row in h:
            for column in both:
                dot(row, column)

    scalar = reduction == "half_squared_sum"
    dy = () if scalar else (C, C)
    result = cost("decov_loss_backward", {"dy": dy, "x": (N, C)}, (N, C), reduction=reduction)
    assert result.flops == count(summed if scalar else whole, dy, (N, C), (C, C))
    assert result.macs == N * C * C


SAMPLES = np.array([[0, 3, 1], [4, 2, 2]])
SHAPES = {"x": (2, C), "w": (5, C), "indices": Tensor((2, 3), "int32")}


@pytest.mark.parametrize("reduction", ["sum", "none"])
def test_negative_sampling_loss(reduction):
    def definition(x, w):
        losses = []
        for row, samples in zip(x, SAMPLES, strict=True):
            scores = [dot(row, w[k]) for k in samples]
            scores[0] = -scores[0]
            losses.append(total(log(1 + exp(score)) for score in scores))
        if reduction == "sum":
            total(losses)

    output = () if reduction == "sum" else (2,)
    operands = {**SHAPES, "target": Tensor((2,), "int32")}
    result = cost("negative_sampling_loss", operands, output, reduction=reduction)
    assert result.flops == count(definition, (2, C), (5, C))
    # x, a row of w for each of 6 indices, the indices, the targets
    assert (result.mread, result.macs) == (4 * (2 * C + 6 * C + 6 + 2), 6 * C)


def test_gradients_of_negative_sampling():
    def definition(dy, x, w):
        dw = np.zeros((5, C), object)
        for row, samples in zip(x, SAMPLES, strict=True):
            slopes = []
            for place, k in enumerate(samples):
                f = dot(row, w[k])
                g = dy / (1 + exp(-f))
                slopes.append(g)
                if place == 0:
                    f, g = -f, -g
                for j in range(C):
                    dw[k, j] = fma(g, row[j], dw[k, j])
            for j in range(C):
                dot(slopes, w[samples, j])

    result = cost("negative_sampling_loss_backward", {"dy": (), **SHAPES}, (2, C), (5, C))
    assert result.flops == count(definition, (), (2, C), (5, C))
    assert (result.mread, result.mwrite) == (4 * (1 + 2 * C + 6 * C + 6), 4 * (2 * C + 5 * C))
    assert result.macs == 3 * 6 * C
