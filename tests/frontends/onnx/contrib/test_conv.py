"""Convolutions that ONNX Runtime adds: fused, with channels last, in blocks."""

from __future__ import annotations

import pytest

from costcore.ir import Operations
from tests.frontends.onnx.contrib.single_node import INT8, priced, shapes


@pytest.mark.parametrize("domain", ["com.microsoft", "com.microsoft.nchwc"])
def test_fused_convolution(domain):
    op = "FusedConv" if domain == "com.microsoft" else "Conv"
    inputs = [(1, 3, 8, 8), {(4, 3, 3, 3)}, {(4,)}, (1, 4, 6, 6)]
    layer, cost, _ = priced(op, *inputs, domain=domain, activation="Relu")
    assert shapes(layer) == [(1, 4, 6, 6)]
    assert cost.macs == 144 * 27
    assert cost.flops == Operations(fma=144 * 27, add=144, cmp=144)
    layer, cost, _ = priced(op, *inputs[:3], domain=domain)
    assert layer.op == "conv"


@pytest.mark.parametrize("weight", [(4, 3, 3, 3), (4, 3, 3, 2)])
def test_channels_last(weight):
    channels = 3 if weight[3] == 3 else 2
    layer, cost, _ = priced("NhwcConv", (1, 8, 9, channels), {weight}, {(4,)}, kernel_shape=[3, 3])
    assert shapes(layer) == [(1, 6, 7, 4)]
    assert layer["x"].shape == (1, channels, 8, 9)
    assert cost.macs == 4 * 6 * 7 * 9 * channels
    layer, cost, _ = priced("NhwcMaxPool", (INT8, (1, 8, 8, 3)), kernel_shape=[2, 2], strides=[2, 2])
    assert shapes(layer) == [(1, 4, 4, 3)]
    assert cost.flops == Operations(cmp=48 * 3)
