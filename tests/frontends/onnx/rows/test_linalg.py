"""Determinants, by hand."""

from __future__ import annotations

from costcore.ir import Operations
from tests.frontends.onnx.rows.single_node import priced


def test_determinants():
    # of a matrix of 3: below the pivots 2 and 1 quotients and comparisons, 4 and 1 products subtracted; 2 products
    layer, cost = priced("Det", (4, 3, 3))
    assert (layer.out.shape, cost.flops) == ((4,), 4 * Operations(fma=5, mul=2, div=3, cmp=3))
