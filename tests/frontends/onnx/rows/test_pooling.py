"""Poolings with unusual attributes: one node each, by hand."""

from __future__ import annotations

from costcore.ir import Operations
from tests.frontends.onnx.rows.single_node import priced


def test_padding_that_is_not_said_is_the_stated_one():
    layer, cost = priced("MaxPool", (2, 4, 8), kernel_shape=[3], auto_pad="")
    assert (layer.out.shape, cost.flops) == ((2, 4, 6), Operations(cmp=2 * 4 * 6 * 2))


def test_pools_that_no_model_of_the_corpus_has():
    layer, cost = priced("GlobalLpPool", (1, 3, 4, 4), p=2)
    assert (layer.out.shape, cost.flops) == ((1, 3, 1, 1), 3 * Operations(mul=1, fma=15, special=1))
    layer, _ = priced("MaxRoiPool", (1, 3, 8, 8), (5, 5), pooled_shape=[2, 2])
    assert layer.out.shape == (5, 3, 2, 2)
