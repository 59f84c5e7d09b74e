"""Matrix products that ONNX Runtime adds, by hand."""

from __future__ import annotations

import pytest

from costcore.ir import Operations
from tests.frontends.onnx.contrib.single_node import priced, shapes


@pytest.mark.parametrize(
    ("a", "b", "attrs", "y", "macs"),
    [
        ((2, 3, 4), (2, 4, 5), {}, (2, 3, 5), 2 * 3 * 5 * 4),
        ((2, 4, 3), (2, 5, 4), {"transA": 1, "transB": 1}, (2, 3, 5), 2 * 3 * 5 * 4),
        ((3, 2, 4), (2, 4, 5), {"transBatchA": 1}, (2, 3, 5), 2 * 3 * 5 * 4),
        ((4, 2, 3), (5, 2, 4), {"transA": 1, "transBatchA": 1, "transB": 1, "transBatchB": 1}, (2, 3, 5), 120),
    ],
)
def test_fused_matrix_products(a, b, attrs, y, macs):
    layer, cost, _ = priced("FusedMatMul", a, b, alpha=0.5, **attrs)
    assert (shapes(layer), cost.macs) == ([y], macs)
    assert cost.flops == Operations(mul=30, fma=30 * 3) + Operations(mul=30)
    fused = priced("FusedMatMulActivation", a, b, alpha=0.5, activation="Relu", **attrs)[1]
    assert fused.flops == cost.flops + Operations(cmp=30)


def test_fused_gemm():
    layer, cost, _ = priced("FusedGemm", (3, 4), {(5, 4)}, {(5,)}, transB=1, activation="Tanh")
    assert shapes(layer) == [(3, 5)]
    assert cost.flops == Operations(fma=60, special=15)
    layer, cost, _ = priced("GemmFastGelu", (3, 4), {(4, 5)}, {(5,)})
    assert cost.flops == Operations(fma=60) + 15 * Operations(mul=6, add=2, special=1)
