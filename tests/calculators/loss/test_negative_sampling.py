"""Negative sampling and its gradients against executed definitions."""

from __future__ import annotations

import numpy as np
import pytest

from costcore.ir import Tensor
from tests.calculators.counting_scalar import count, dot, exp, fma, log, total
from tests.calculators.layer_costs import layer_cost

C = 3
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
    result = layer_cost("negative_sampling_loss", operands, output, reduction=reduction)
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

    result = layer_cost("negative_sampling_loss_backward", {"dy": (), **SHAPES}, (2, C), (5, C))
    assert result.flops == count(definition, (), (2, C), (5, C))
    assert (result.mread, result.mwrite) == (4 * (1 + 2 * C + 6 * C + 6), 4 * (2 * C + 5 * C))
    assert result.macs == 3 * 6 * C
