"""A 3 x 4 matrix with 5 values, in compressed rows: 5 + 4 indices."""

from __future__ import annotations

import numpy as np
import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.counting_scalar import count, dot, fma
from tests.calculators.layer_costs import layer_cost, operations

CSR = {"indices": 9, "width": 2}


def test_products():
    result = layer_cost("sparse_dense_matmul", {"x0": (5,), "x1": (4, 2)}, (3, 2), **CSR)
    assert result[:3] == (Operations(fma=10), 4 * (5 + 8) + 8 * 9, 4 * 6)
    assert result.macs == 10
    given = {"x0": (5,), "x1": (4, 2), "b": (3, 2)}
    scaled = operations("sparse_dense_matmul", given, (3, 2), alpha=2, beta=0.5, **CSR)
    assert scaled == Operations(fma=10, mul=12)
    other = layer_cost("sparse_dense_matmul", {"x0": (2, 3), "x1": (5,)}, (2, 4), side="x1", **CSR)
    assert (other.flops, other.macs) == (Operations(fma=10), 10)


def test_products_joined_in_other_ways():
    given = {"x0": (5,), "x1": (4, 2)}
    found = {r: operations("sparse_dense_matmul", given, (3, 2), reduction=r, **CSR) for r in ("mean", "amax", "prod")}
    assert found == {
        "mean": Operations(mul=10, add=10, div=6),
        "amax": Operations(mul=10, cmp=10),
        "prod": Operations(mul=20),
    }


def test_gradients():
    given = {"x0": (5,), "dy": (3, 2), "x1": (4, 2)}
    back = "sparse_dense_matmul_backward"
    both = layer_cost(back, given, (5,), (4, 2), needs=("x0", "x1"), **CSR)
    # 5 dot products of length 2, and 10 products added onto dx1
    assert (both.flops, both.macs) == (Operations(mul=5, fma=5 + 10), 20)
    assert operations(back, given, (5,), needs=("x0",), reduction="mean", **CSR) == Operations(mul=5, fma=5, div=10)


def test_sampled_products():
    result = layer_cost("sampled_product", {"x": (5,), "x0": (3, 6), "x1": (6, 4)}, (5,), indices=9, beta=0.5)
    assert result.flops == Operations(fma=30, mul=5)
    assert result[1:3] == (4 * (5 + 18 + 24) + 72, 4 * 5 + 72)


def test_conversions():
    assert layer_cost("to_sparse", {"x": (3, 4)}, (5,))[:3] == (Operations(cmp=12), 48, 4 * 5 + 8 * 10)
    assert layer_cost("to_dense", {"x": (5,)}, (3, 4), indices=9)[:3] == (Operations(), 20 + 72, 48)
    kept = layer_cost("sparse_mask", {"x": (3, 4), "mask": (5,)}, (5,), indices=10)
    assert kept[:3] == (Operations(), 20 + 80, 20 + 80)


def test_values_at_equal_positions_are_added():
    # 5 rows of 3 values at 4 positions: one row is added to another
    merged = layer_cost("coalesce", {"x": (5, 3)}, (4, 3), axes=1)
    assert merged[:3] == (Operations(add=3), 4 * 15 + 8 * 5, 4 * 12 + 8 * 4)


def test_softmax_of_the_values_of_a_sparse_matrix():
    # 5 values in 3 rows: 5 exp, 2 sums, 5 divisions; the gradient: 5 products in 3 sums, 5 subtractions, 5 products
    sparse = {"rows": 3, "axis": 0, "indices": 10}
    result = layer_cost("softmax", {"x": (5,)}, (5,), **sparse)
    assert result[:3] == (Operations(special=5, add=2, div=5), 20 + 80, 20 + 80)
    back = layer_cost("softmax_backward", {"dy": (5,), "y": (5,)}, (5,), **sparse)
    assert back[:3] == (Operations(mul=3 + 5, fma=2, add=5), 2 * (20 + 80), 20 + 80)


def test_values_of_a_sparse_tensor_are_added_to_a_dense_one():
    result = layer_cost("scatter", {"x": (6, 4), "updates": (5, 4)}, (6, 4), reduction="add", alpha=-0.1, indices=5)
    assert result[:3] == (Operations(fma=20), 4 * (24 + 20) + 8 * 5, 4 * 24)


PLACES = [(0, 1), (2, 0), (2, 3)]


INDICES = {"rows": Tensor((3,), "int32"), "columns": Tensor((3,), "int32")}


@pytest.mark.parametrize("transposed", [False, True])
def test_sparse_times_dense(transposed):
    def definition(values, dense):
        y = np.zeros((3, 5), object)
        for value, (i, k) in zip(values, PLACES, strict=True):
            for j in range(5):
                y[i, j] = fma(value, dense[k, j], y[i, j])

    settings = {"transpose_x1": True} if transposed else {}
    result = layer_cost(
        "sparse_matmul", {"x0": (3,), **INDICES, "x1": (5, 4) if transposed else (4, 5)}, (3, 5), **settings
    )
    assert result.flops == count(definition, (3,), (4, 5))
    assert (result.mread, result.mwrite, result.macs) == (4 * (3 + 3 + 3 + 20), 4 * 15, 15)


@pytest.mark.parametrize("transposed", [False, True])
def test_chosen_elements_of_a_product(transposed):
    def definition(x0, x1):
        for i, j in PLACES:
            dot(x0[i], x1[:, j])

    shapes = {"x0": (6, 3), "x1": (4, 6)} if transposed else {"x0": (3, 6), "x1": (6, 4)}
    settings = {"transpose_x0": True, "transpose_x1": True} if transposed else {}
    result = layer_cost("sampled_matmul", {**shapes, **INDICES}, (3,), **settings)
    assert result.flops == count(definition, (3, 6), (6, 4))
    assert (result.mread, result.mwrite, result.macs) == (4 * (18 + 24 + 3 + 3), 4 * 3, 18)
