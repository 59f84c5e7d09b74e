"""Rows of matrix products, sparse ones above all."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from costcore.ir import Operations
from tests.frontends.pytorch.rows.recorded_costs import costs
from tests.frontends.pytorch.runs import record
from tests.registered import cost


@pytest.mark.parametrize("make", [torch.Tensor.to_sparse_csr, torch.Tensor.to_sparse])
@pytest.mark.filterwarnings("ignore:Sparse")
def test_sparse_products_multiply_the_values_they_have(make):
    matrix, x = make(torch.eye(3)), torch.ones(3, 2)
    ((layer, cost),) = costs(record(lambda: torch.mm(matrix, x)), "mm")
    assert layer.op == "sparse_dense_matmul"
    indices = 3 * 2 if matrix.layout is torch.sparse_coo else 4 + 3
    assert (cost.macs, cost.mread) == (3 * 2, 4 * (3 + 6) + 8 * indices)


@pytest.mark.parametrize("make", [torch.Tensor.to_sparse_csr, torch.Tensor.to_sparse])
@pytest.mark.filterwarnings("ignore:Sparse")
def test_sparse_operands_of_one_shape_are_counted_by_their_own_values(make):
    """n values, each multiplied by the 5 elements of a row."""
    for n in (3, 8):
        matrix = make(torch.diag((torch.arange(8) < n).float()))
        ((_, cost),) = costs(record(lambda matrix=matrix: torch.mm(matrix, torch.ones(8, 5))), "mm")
        assert cost.macs == n * 5


def test_sparse_tensors_in_a_list_are_counted_by_their_own_values():
    for n in (3, 8):
        matrix = torch.diag((torch.arange(8) < n).float()).to_sparse()
        ((layer, _),) = costs(record(lambda matrix=matrix: torch.cat([matrix, matrix])), "cat")
        assert [x.shape for x in (*layer.inputs.values(), *layer.outputs)] == [(n,), (n,), (2 * n,)]


NONZEROS = 8
"""The nonzero elements of a matrix of 4 by 6."""

SPELLINGS = {
    "matmul": (lambda s, d: torch.matmul(s, d(6, 5)), "matmul", 5),
    "operator": (lambda s, d: s @ d(6), "matmul", 1),
    "right": (lambda s, d: d(5, 4) @ s, "matmul", 5),
    "right batched": (lambda s, d: d(2, 5, 4) @ s, "matmul", 2 * 5),
    "vector": (lambda s, d: d(4) @ s, "matmul", 1),
    "linear weight": (lambda s, d: functional.linear(d(5, 6), s), "linear", 5),
    "linear weight batched": (lambda s, d: functional.linear(d(2, 5, 6), s), "linear", 2 * 5),
    "linear weight vector": (lambda s, d: functional.linear(d(6), s), "linear", 1),
    "linear input": (lambda s, d: functional.linear(s, d(3, 6)), "linear", 3),
}


def sparse_matrix(make):
    return make(torch.ones(4, 6) * (torch.arange(24).reshape(4, 6) % 3 == 0))


@pytest.mark.parametrize("make", [torch.Tensor.to_sparse_csr, torch.Tensor.to_sparse, torch.Tensor.to_sparse_csc])
@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.filterwarnings("ignore:Sparse")
def test_every_spelling_of_a_sparse_product_multiplies_the_values_it_has(make, spelling):
    """Each of 8 values is multiplied by ``width`` elements; its position and the dense operand are read."""
    run, name, width = SPELLINGS[spelling]
    matrix, dense = sparse_matrix(make), []

    def operand(*shape):
        dense.append(torch.ones(shape))
        return dense[-1]

    ((layer, cost),) = costs(record(lambda: run(matrix, operand)), name)
    assert layer.op == "sparse_dense_matmul"
    lines = {torch.sparse_coo: 8 * 2, torch.sparse_csr: 4 + 1 + 8, torch.sparse_csc: 6 + 1 + 8}[matrix.layout]
    assert cost.flops == Operations(fma=NONZEROS * width)
    assert (cost.macs, cost.mread) == (NONZEROS * width, 4 * (NONZEROS + dense[0].numel()) + 8 * lines)


@pytest.mark.filterwarnings("ignore:Sparse")
def test_a_bias_is_the_starting_value_of_a_sparse_linear_layer():
    matrix = sparse_matrix(torch.Tensor.to_sparse_csr)
    ((_, cost),) = costs(record(lambda: functional.linear(torch.ones(5, 6), matrix, torch.ones(4))), "linear")
    assert cost.flops == Operations(fma=NONZEROS * 5)
    assert cost.mread == 4 * (NONZEROS + 30 + 4) + 8 * (4 + 1 + 8)


@pytest.mark.parametrize(
    ("name", "run"),
    [("hspmm", lambda s: torch.hspmm(s, torch.ones(6, 5))), ("sspaddmm", lambda s: torch.smm(s, torch.ones(6, 5)))],
)
def test_sparse_products_with_sparse_results(name, run):
    matrix = sparse_matrix(torch.Tensor.to_sparse)
    ((layer, cost),) = costs(record(lambda: run(matrix)), name)
    assert layer.op == "sparse_dense_matmul"
    assert cost.macs == NONZEROS * 5


@pytest.mark.skipif(not hasattr(functional, "scaled_addmm"), reason="this PyTorch has no scaled_addmm")
@pytest.mark.parametrize("name", ["scaled_addmm", "scaled_addmm_"])
def test_a_scaled_product_is_added_to_a_matrix(name):
    """32 x 16 elements, each of 64 products of float8, added to bfloat16; a mul for the scales, and one for alpha."""
    a, b = (torch.empty(rows, 64, device="meta", dtype=torch.float8_e4m3fn) for rows in (32, 16))
    y = torch.empty(32, 16, device="meta", dtype=torch.bfloat16)
    scale, whole = torch.ones(1, device="meta"), functional.ScalingType.TensorWise
    add = getattr(functional, name)
    ((layer, cost),) = costs(record(lambda: add(y, a, b.t(), scale, whole, scale, whole, alpha=2.0)), f"_{name}")
    assert layer.op == "scaled_matmul"
    assert (cost.macs, cost.flops) == (512 * 64, Operations(fma=512 * 64, mul=512 + 512))
    assert (cost.mread, cost.mwrite) == (64 * (32 + 16) + 2 * 512 + 4 + 4, 2 * 512)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_groups_of_rows_by_the_operator_of_transformers(device):
    """7 rows of 4 by three matrices of 4 x 5, for PyTorch without the operator; two products of gradients."""
    pytest.importorskip("transformers.integrations.moe", reason="this transformers registers no operators")
    rows, matrices = torch.ones(7, 4, device=device), torch.ones(3, 4, 5, device=device)
    ends = torch.tensor([2, 5, 7], dtype=torch.int32).to(device)

    def run():
        y = torch.ops.transformers.grouped_mm_fallback(rows.requires_grad_(), matrices.requires_grad_(), ends)
        torch.autograd.backward(y, torch.ones_like(y))

    calls = {call.type: call for call in record(run).calls}
    forward, backward = (calls[f"transformers::grouped_mm_fallback{word}"] for word in ("", "_backward"))
    assert (forward.layer.op, backward.layer.op) == ("grouped_matmul", "grouped_matmul_backward")
    products, gradients = (cost(call) for call in (forward, backward))
    assert (products.macs, products.flops) == (140, Operations(mul=35, fma=105))
    assert (gradients.macs, gradients.flops) == (2 * 140, Operations(mul=28 + 60, fma=112 + 80))
    assert "mm" not in calls
