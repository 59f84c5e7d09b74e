"""Hierarchical softmax and its gradients against executed definitions."""

from __future__ import annotations

import numpy as np

from costcore.ir import Tensor
from tests.calculators.counting_scalar import count, dot, exp, fma, log, total
from tests.calculators.layer_costs import layer_cost

C = 3
PATHS = [[0, 1], [0], [0, 1, 3]]
"""The nodes on the path to the target of each row."""
SHAPES = {"x": (3, C), "target": Tensor((3,), "int32"), "w": (4, C), "indices": Tensor((6,), "int32"), "codes": (6,)}


def rows(x, codes):
    """Iterate over the rows: its features, the nodes of its path, and their codes."""
    ends = np.cumsum([len(path) for path in PATHS])
    return zip(x, PATHS, np.split(codes, ends[:-1]), strict=True)


def test_hierarchical_softmax_loss():
    def definition(x, w, codes):
        terms = []
        for row, path, directions in rows(x, codes):
            for node, code in zip(path, directions, strict=True):
                terms.append(log(1 + exp(-(code * dot(row, w[node])))))
        total(terms)

    result = layer_cost("hierarchical_softmax_loss", SHAPES, ())
    assert result.flops == count(definition, (3, C), (4, C), (6,))
    # x, the targets, a row of w for each of 6 nodes, the nodes, their codes
    assert (result.mread, result.mwrite) == (4 * (3 * C + 3 + 6 * C + 6 + 6), 4)
    assert result.macs == 6 * C


def test_gradients_of_hierarchical_softmax():
    def definition(dy, x, w, codes):
        dw = np.zeros((4, C), object)
        negated = -dy
        for row, path, directions in rows(x, codes):
            slopes = []
            for node, code in zip(path, directions, strict=True):
                g = negated * code / (1 + exp(code * dot(row, w[node])))
                slopes.append(g)
                for j in range(C):
                    dw[node, j] = fma(g, row[j], dw[node, j])
            for j in range(C):
                dot(slopes, w[path, j])

    result = layer_cost("hierarchical_softmax_loss_backward", {"dy": (), **SHAPES}, (3, C), (4, C))
    assert result.flops == count(definition, (), (3, C), (4, C), (6,))
    assert (result.mread, result.mwrite) == (4 * (1 + 3 * C + 3 + 6 * C + 6 + 6), 4 * (3 * C + 4 * C))
    assert result.macs == 3 * 6 * C
