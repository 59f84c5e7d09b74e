"""Products with sparse matrices against executed definitions."""

from __future__ import annotations

import numpy as np
import pytest

from costcore.ir import Tensor
from tests.calculators.counting import count, dot, fma
from tests.calculators.layers import cost

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
    result = cost("sparse_matmul", {"x0": (3,), **INDICES, "x1": (5, 4) if transposed else (4, 5)}, (3, 5), **settings)
    assert result.flops == count(definition, (3,), (4, 5))
    assert (result.mread, result.mwrite, result.macs) == (4 * (3 + 3 + 3 + 20), 4 * 15, 15)


@pytest.mark.parametrize("transposed", [False, True])
def test_chosen_elements_of_a_product(transposed):
    def definition(x0, x1):
        for i, j in PLACES:
            dot(x0[i], x1[:, j])

    shapes = {"x0": (6, 3), "x1": (4, 6)} if transposed else {"x0": (3, 6), "x1": (6, 4)}
    settings = {"transpose_x0": True, "transpose_x1": True} if transposed else {}
    result = cost("sampled_matmul", {**shapes, **INDICES}, (3,), **settings)
    assert result.flops == count(definition, (3, 6), (6, 4))
    assert (result.mread, result.mwrite, result.macs) == (4 * (18 + 24 + 3 + 3), 4 * 3, 18)
