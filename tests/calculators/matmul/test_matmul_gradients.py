"""Gradients of linear, bilinear and matrix products against executed definitions."""

from __future__ import annotations

import numpy as np
import pytest

from costcore.ir import Operations
from tests.calculators.counting_scalar import count, dot, total
from tests.calculators.layer_costs import layer_cost

NEEDS = [("x",), ("w",), ("b",), ("x", "w"), ("x", "w", "b")]

N, P, Q, F = 2, 3, 4, 5
LINEAR = {"w0": (F, P, Q), "w1": (P, F), "w2": (Q, F)}


@pytest.mark.parametrize("needs", NEEDS)
def test_linear_backward_is_its_definition(needs):
    def linear_backward(dy, x, w):
        dy, x = dy.reshape(6, 4), x.reshape(6, 5)
        if "x" in needs:
            [dot(row, column) for row in dy for column in w.T]
        if "w" in needs:
            [dot(out, column) for out in dy.T for column in x.T]
        if "b" in needs:
            [total(out) for out in dy.T]

    shapes = {"dy": (2, 3, 4), "x": (2, 3, 5), "w": (4, 5)}
    outputs = [shapes.get(name, (4,)) for name in needs]
    cost = layer_cost("linear_backward", shapes, *outputs, needs=needs)
    assert cost.flops == count(linear_backward, *shapes.values())
    assert cost.macs == 6 * 4 * 5 * len({"x", "w"} & set(needs))


def test_without_needs_every_operand_has_a_gradient():
    shapes = {"dy": (6, 4), "x": (6, 5), "w": (4, 5), "b": (4,)}
    cost = layer_cost("linear_backward", shapes, (6, 5), (4, 5), (4,))
    assert cost == layer_cost("linear_backward", shapes, (6, 5), (4, 5), (4,), needs=("x", "w", "b"))._replace(
        params={}
    )
    assert (cost.flops.add, cost.mread) == (6 * 4 - 4, 4 * (24 + 30 + 20))


@pytest.mark.parametrize(
    ("x0", "x1", "dy"), [((3, 4), (4, 5), (3, 5)), ((2, 3, 4), (2, 4, 5), (2, 3, 5)), ((2, 3, 4), (4, 5), (2, 3, 5))]
)
def test_matmul_backward_is_its_definition(x0, x1, dy):
    def gradients(dy, a, b):
        products = {"a": {at: [] for at in np.ndindex(a.shape)}, "b": {at: [] for at in np.ndindex(b.shape)}}
        for *n, i, j in np.ndindex(dy.shape):
            for k in range(a.shape[-1]):
                at_a, at_b = (*n, i, k), (*n, k, j)[-b.ndim :]
                products["a"][at_a].append((dy[(*n, i, j)], b[at_b]))
                products["b"][at_b].append((dy[(*n, i, j)], a[at_a]))
        for terms in products.values():
            for pairs in terms.values():
                dot(*zip(*pairs, strict=True))

    cost = layer_cost("matmul_backward", {"dy": dy, "x0": x0, "x1": x1}, x0, x1)
    assert cost.flops == count(gradients, dy, x0, x1)
    assert cost.macs == 2 * int(np.prod(dy)) * x0[-1]


def test_matmul_backward_with_an_addend_and_with_one_operand_by_hand():
    shapes = {"dy": (2, 3, 5), "x0": (2, 3, 4), "x1": (2, 4, 5), "b": (5,)}
    cost = layer_cost("matmul_backward", shapes, (2, 3, 4), (5,), needs=("x0", "b"))
    assert cost.flops == Operations(mul=24, fma=120 - 24, add=30 - 5)
    assert (cost.macs, cost.mread) == (120, 4 * (30 + 40))


@pytest.mark.parametrize(("groups", "ends"), [(3, (2, 5, 7)), (2, (1, 7)), (4, (1, 2))])
def test_the_gradients_of_groups_of_rows_are_their_definition(groups, ends):
    """Of more groups than rows, those without a row have no sums, and their matrices are not read."""
    rows = ends[-1]

    def gradients(dy, x, *matrices):
        for matrix, first, last in zip(matrices, (0, *ends), ends, strict=False):
            [dot(row, column) for row in dy[first:last] for column in matrix]
            [dot(column, out) for column in x[first:last].T for out in dy[first:last].T]

    shapes = {"dy": (rows, 5), "x0": (rows, 4), "x1": (groups, 4, 5), "offsets": (groups,)}
    cost = layer_cost("grouped_matmul_backward", shapes, (rows, 4), (groups, 4, 5))
    assert cost.flops == count(gradients, (rows, 5), (rows, 4), *[(4, 5)] * len(ends))
    assert cost.macs == 2 * rows * 4 * 5
    assert cost.mread == 4 * (rows * 5 + rows * 4 + len(ends) * 20 + groups)


def test_bilinear_backward():
    shapes = {"dy": (N, F), "x0": (N, P), "x1": (N, Q), "w": (F, P, Q)}
    result = layer_cost("bilinear_backward", shapes, (N, P), (N, Q), (F, P, Q))
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
    result = layer_cost("biaffine_backward", shapes, (N, P), (N, Q), *LINEAR.values(), (F,))
    assert result.flops == count(definition, *shapes.values())
    assert result.macs == 2 * N * P * Q * (F + 1) + 2 * N * (P + Q) * F


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
