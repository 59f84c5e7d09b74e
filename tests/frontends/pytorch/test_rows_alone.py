"""A model that changes settings of PyTorch changes no later row of a table."""

from __future__ import annotations

import pytest

from costcore import table

NETS = """
import torch
from torch import nn

def linear():
    return nn.Linear(8, 8)
def doubles():
    torch.set_default_dtype(torch.float64)
    return linear()
def without_gradients():
    torch.set_grad_enabled(False)
    return linear()
def elsewhere():
    torch.set_default_device("meta")
    return linear()
"""


@pytest.mark.parametrize(("name", "nbytes"), [("doubles", 8), ("without_gradients", 4), ("elsewhere", 4)])
def test_settings_of_pytorch_end_with_the_row(name, nbytes, tmp_path):
    """A linear layer reads 2 * 8 inputs, 8 * 8 weights and 8 biases."""
    path = tmp_path / "nets.py"
    path.write_text(NETS)
    rows = table([f"{path}:{each}" for each in ("linear", name, "linear")], (2, 8), jobs=1, timeout=120).rows
    assert [row.costs["mread"] for row in rows] == [4 * 88, nbytes * 88, 4 * 88]
