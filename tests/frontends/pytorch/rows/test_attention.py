"""Rows of attention."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from tests.frontends.pytorch.runs import macs, record


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(
    ("q", "k", "v", "expected"),
    [
        ((1, 4, 5, 7), (3, 4, 6, 7), (3, 4, 6, 2), 360 * 7 + 360 * 2),
        ((4, 5, 7), (3, 4, 6, 7), (3, 4, 6, 2), 360 * 7 + 360 * 2),
        ((1, 2, 5, 0), (1, 2, 7, 0), (1, 2, 7, 3), 70 * 3),
    ],
)
def test_pairs_are_those_of_the_output(q, k, v, expected, device):
    run = record(lambda: scaled_dot_product_attention(*(torch.ones(shape, device=device) for shape in (q, k, v))))
    attention = [call for call in run.calls if call.layer.op == "attention"]
    assert len(attention) == 1
    assert macs(attention) == expected
