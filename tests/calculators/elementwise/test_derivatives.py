"""Derivatives of single elements, and a few gradients more, against executed definitions."""

from __future__ import annotations

import numpy as np
import pytest

from costcore.calculators.elementwise.gradients import DERIVATIVES
from costcore.ir import Operations, Tensor
from tests.calculators.counting_scalar import count, exp, fma, measure, select, total
from tests.calculators.layer_costs import layer_cost

OPERANDS = {
    "elu_derivative": ("x", "y"),
    "constant_div_backward": ("x", "dy"),
    "constant_pow_backward": ("y", "dy"),
    "reduce_sum_square_backward": ("x", "dy"),
}


@pytest.mark.parametrize("op", DERIVATIVES)
def test_definitions(op):
    settings = {"one": 1.0, "alpha": 0.5, "value": 2.0, "log_value": 0.7}
    done = measure(DERIVATIVES[op].definition, *OPERANDS[op], **settings)[1]
    assert done == DERIVATIVES[op].operations
    result = layer_cost(op, dict.fromkeys(OPERANDS[op], (2, 3)), (2, 3))
    assert (result.flops, result.mread, result.mwrite) == (6 * done, 2 * 24, 24)


def test_swish_backward():
    def definition(dy, x, beta):
        slopes = [[] for _ in beta]
        for i, j in np.ndindex(dy.shape):
            g = 1 / (1 + exp(-(beta[j] * x[i, j])))
            y = x[i, j] * g
            b = beta[j] * y
            dy[i, j] * (b + g * (1 - b))
            slopes[j].append(dy[i, j] * y * (x[i, j] - y))
        for values in slopes:
            total(values)

    result = layer_cost("swish_backward", {"dy": (4, 3), "x": (4, 3), "beta": (3,)}, (4, 3), (3,))
    assert result.flops == count(definition, (4, 3), (4, 3), (3,))
    assert (result.mread, result.mwrite) == (4 * (12 + 12 + 3), 4 * (12 + 3))


def test_repeat_backward():
    result = layer_cost("repeat_backward", {"dy": (2, 6)}, (2, 3))
    assert (result.flops, result.mread, result.mwrite) == (Operations(add=6), 4 * 12, 4 * 6)


def test_linear_recurrence():
    def definition(x0, x1):
        for row, factors in zip(x0, x1, strict=True):
            y = row[0]
            for value, factor in zip(row[1:], factors, strict=True):
                y = fma(factor, y, value)

    result = layer_cost("linear_recurrence", {"x0": (2, 5), "x1": (2, 4)}, (2, 5), axis=1)
    assert result.flops == count(definition, (2, 5), (2, 4))


@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("norm", ["L1", "L2"])
def test_hinge_loss_backward(norm, reduction):
    def definition(dy, x, target):
        share = dy / 4 if reduction == "mean" else dy
        for row in x:
            margins = [-row[0], *row[1:]]
            slopes = []
            for margin in margins:
                left = 1 + margin
                left = select(left > 0, left, left)
                slopes.append(left * 2 * share if norm == "L2" else select(left, share, share))
            slopes[0] = -slopes[0]

    shapes = {"dy": (), "x": (4, 3), "target": Tensor((4,), "int32")}
    result = layer_cost("hinge_loss_backward", shapes, (4, 3), norm=norm, reduction=reduction)
    assert result.flops == count(definition, (), (4, 3), (4,))
