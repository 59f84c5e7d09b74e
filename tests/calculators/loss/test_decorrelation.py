"""Losses that decorrelate features against executed definitions."""

from __future__ import annotations

import numpy as np
import pytest

from tests.calculators.counting_scalar import count, dot, total
from tests.calculators.layer_costs import layer_cost

N, C = 4, 3


def centered(x):
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
    result = layer_cost("cross_covariance", {"x0": (N, C), "x1": (N, 2)}, output, **settings)
    assert result.flops == count(lambda x, y: covariance(centered(x), centered(y), reduction), (N, C), (N, 2))
    assert result.macs == N * C * 2

    def decov(x):
        columns = centered(x)
        return covariance(columns, columns, reduction)

    result = layer_cost("decov_loss", {"x": (N, C)}, () if output == () else (C, C), **settings)
    assert result.flops == count(decov, (N, C))
    assert result.macs == N * C * C


@pytest.mark.parametrize("reduction", ["half_squared_sum", "none"])
def test_gradient_of_decov(reduction):
    """h and cov, the centered columns and their covariance, are there from the forward pass."""

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
    result = layer_cost("decov_loss_backward", {"dy": dy, "x": (N, C)}, (N, C), reduction=reduction)
    assert result.flops == count(summed if scalar else whole, dy, (N, C), (C, C))
    assert result.macs == N * C * C
