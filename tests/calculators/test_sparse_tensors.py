"""A 3 x 4 matrix with 5 values, in compressed rows: 5 + 4 indices."""

from __future__ import annotations

from costcore.ir import Operations
from tests.calculators.layers import cost, operations

CSR = {"indices": 9, "width": 2}


def test_products():
    result = cost("sparse_dense_matmul", {"x0": (5,), "x1": (4, 2)}, (3, 2), **CSR)
    assert result[:3] == (Operations(fma=10), 4 * (5 + 8) + 8 * 9, 4 * 6)
    assert result.macs == 10
    given = {"x0": (5,), "x1": (4, 2), "b": (3, 2)}
    scaled = operations("sparse_dense_matmul", given, (3, 2), alpha=2, beta=0.5, **CSR)
    assert scaled == Operations(fma=10, mul=12)
    other = cost("sparse_dense_matmul", {"x0": (2, 3), "x1": (5,)}, (2, 4), side="x1", **CSR)
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
    both = cost(back, given, (5,), (4, 2), needs=("x0", "x1"), **CSR)
    # 5 dot products of length 2, and 10 products added onto dx1
    assert (both.flops, both.macs) == (Operations(mul=5, fma=5 + 10), 20)
    assert operations(back, given, (5,), needs=("x0",), reduction="mean", **CSR) == Operations(mul=5, fma=5, div=10)


def test_sampled_products():
    result = cost("sampled_product", {"x": (5,), "x0": (3, 6), "x1": (6, 4)}, (5,), indices=9, beta=0.5)
    assert result.flops == Operations(fma=30, mul=5)
    assert result[1:3] == (4 * (5 + 18 + 24) + 72, 4 * 5 + 72)


def test_conversions():
    assert cost("to_sparse", {"x": (3, 4)}, (5,))[:3] == (Operations(cmp=12), 48, 4 * 5 + 8 * 10)
    assert cost("to_dense", {"x": (5,)}, (3, 4), indices=9)[:3] == (Operations(), 20 + 72, 48)
    kept = cost("sparse_mask", {"x": (3, 4), "mask": (5,)}, (5,), indices=10)
    assert kept[:3] == (Operations(), 20 + 80, 20 + 80)
