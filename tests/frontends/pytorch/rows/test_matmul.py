"""Rows of sparse matrix products."""

from __future__ import annotations

import pytest
import torch

from tests.frontends.pytorch.rows.recorded_costs import costs
from tests.frontends.pytorch.runs import record


@pytest.mark.parametrize("make", [torch.Tensor.to_sparse_csr, torch.Tensor.to_sparse])
@pytest.mark.filterwarnings("ignore:Sparse")
def test_sparse_products_multiply_the_values_they_have(make):
    matrix, x = make(torch.eye(3)), torch.ones(3, 2)
    ((layer, cost),) = costs(record(lambda: torch.mm(matrix, x)), "mm")
    assert layer.op == "sparse_dense_matmul"
    indices = 3 * 2 if matrix.layout is torch.sparse_coo else 4 + 3
    assert (cost.macs, cost.mread) == (3 * 2, 4 * (3 + 6) + 8 * indices)
