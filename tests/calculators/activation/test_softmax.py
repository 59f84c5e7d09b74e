"""Softmax, its relatives and their gradients against executed definitions."""

from __future__ import annotations

import numpy as np
import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.counting_scalar import count, dot, exp, fma, log, total
from tests.calculators.layer_costs import layer_cost, operations


def softmax(row):
    powers = [exp(value) for value in row]
    summed = total(powers)
    return [value / summed for value in powers]


def log_softmax(row):
    logarithm = log(total([exp(value) for value in row]))
    return [value - logarithm for value in row]


def softmax_backward(dy, y):
    inner = dot(dy, y)
    return [b * (a - inner) for a, b in zip(dy, y, strict=True)]


def log_softmax_backward(dy, y):
    summed = total(dy)
    return [fma(exp(b), summed, a) for a, b in zip(dy, y, strict=True)]


SOFTMAXES = {"softmax": softmax, "softmin": lambda row: softmax([-v for v in row]), "log_softmax": log_softmax}


@pytest.mark.parametrize(("op", "definition"), SOFTMAXES.items())
@pytest.mark.parametrize("axis", [0, 1, (1, 2)])
def test_softmax_is_its_definition(op, definition, axis):
    axes = axis if isinstance(axis, tuple) else (axis,)
    length = int(np.prod([(2, 3, 4)[a] for a in axes]))

    def rows(x):
        for row in np.moveaxis(x, axes, range(-len(axes), 0)).reshape(-1, length):
            definition(row)

    cost = layer_cost(op, {"x": (2, 3, 4)}, (2, 3, 4), axis=axis)
    assert cost.flops == count(rows, (2, 3, 4))
    assert (cost.mread, cost.mwrite, cost.macs) == (96, 96, 0)


def test_softmax_of_published_figures():
    vgg16 = layer_cost("softmax", {"x": (1, 1000)}, (1, 1000), axis=1)
    assert vgg16.flops.flops() == 2_999  # chainer-computational-cost, README: VGG16
    middle = layer_cost("softmax", {"x": (1, 32, 128)}, (1, 32, 128), axis=2)
    assert middle.flops.flops() == 12_256  # chainer-computational-cost, tests/test_cost_calculators/test_activation.py


@pytest.mark.parametrize(
    ("op", "definition"),
    [("softmax", softmax_backward), ("softmin", softmax_backward), ("log_softmax", log_softmax_backward)],
)
def test_softmax_backward_is_its_definition(op, definition):
    cost = layer_cost(f"{op}_backward", {"dy": (4, 3), "y": (4, 3)}, (4, 3), axis=1)
    assert cost.flops == count(lambda dy, y: [definition(*r) for r in zip(dy, y, strict=True)], (4, 3), (4, 3))
    assert (cost.mread, cost.mwrite) == (4 * 24, 4 * 12)


def test_softmax_backward_by_hand():
    """4 rows of c = 3: 1 mul and c-1 fma for the sum, c add, c mul."""
    cost = layer_cost("softmax_backward", {"dy": (3, 4), "y": (3, 4)}, (3, 4), axis=0)
    assert cost.flops == Operations(mul=4 * 4, fma=4 * 2, add=4 * 3)


def test_masked_softmax():
    plain = operations("softmax", {"x": (2, 3)}, (2, 3), axis=1)
    masked = operations("masked_softmax", {"x": (2, 3), "mask": Tensor((2, 3), "bool")}, (2, 3), axis=1)
    assert masked == plain + Operations(cmp=6)
