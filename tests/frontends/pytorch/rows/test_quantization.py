"""Rows of quantization and dequantization."""

from __future__ import annotations

import pytest
import torch

from costcore.ir import Operations
from tests.frontends.pytorch.rows.recorded_costs import costs
from tests.frontends.pytorch.runs import record


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_quantization_and_back():
    x = torch.ones(3, 4)
    ((layer, cost),) = costs(record(lambda: torch.quantize_per_tensor(x, 0.1, 3, torch.quint8)), "quantize_per_tensor")
    assert (layer.op, cost.flops, cost.mread, cost.mwrite) == ("quantize", Operations(add=12, div=12, cmp=36), 48, 12)
    quantized = torch.quantize_per_tensor(x, 0.1, 3, torch.quint8)
    ((layer, cost),) = costs(record(quantized.dequantize), "dequantize")
    assert (layer.op, cost.flops, cost.mread, cost.mwrite) == ("dequantize", Operations(add=12, mul=12), 12, 48)
    faked = record(lambda: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 255))
    assert "fake_quantize" in [call.layer.op for call in faked.calls]
