"""Normalizations with unusual inputs: one node each, by hand."""

from __future__ import annotations

from costcore.ir import Operations
from tests.frontends.onnx.rows.single_node import priced


def test_groups_of_channels_that_have_no_places():
    # 2 * 2 groups of 2 channels: mean 1+1, variance 2+1+1+1, eps, root and its inverse 3, scale 2, weight and bias 2
    layer, cost = priced("GroupNormalization", (2, 4), (4,), (4,), opset=21, num_groups=2)
    assert (layer.op, layer.out.shape) == ("group_norm", (2, 4))
    assert cost.flops == 4 * Operations(fma=3, mul=3, add=4, div=3, special=1)
