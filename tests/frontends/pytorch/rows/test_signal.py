"""Rows of Fourier transforms."""

from __future__ import annotations

import torch

from costcore.ir import Operations
from tests.frontends.pytorch.rows.recorded_costs import costs
from tests.frontends.pytorch.runs import record


def test_real_and_complex_transforms():
    ((_, cost),) = costs(record(lambda: torch.fft.rfft2(torch.ones(3, 4, 8))), "_fft_r2c")
    # per matrix: 4 rows of 8 elements, half of 3 stages; 5 columns of 4 elements, 2 stages
    assert cost.flops == 3 * (4 * 3 * 2 * Operations(mul=4, add=6) + 20 * 2 * Operations(mul=2, add=3))
    ((_, cost),) = costs(record(lambda: torch.fft.ifft(torch.ones(8, dtype=torch.complex64))), "_fft_c2c")
    assert cost.flops == 3 * 8 * Operations(mul=2, add=3) + Operations(mul=16)
