"""Names of operators in any form that users write."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from costcore.frontends.pytorch import native_names


@pytest.mark.parametrize(
    ("op", "names"),
    [
        (torch.ops.aten.relu, ("aten::relu",)),
        (torch.ops.aten.relu.default, ("aten::relu",)),
        (torch.ops.aten.relu_.default, ("aten::relu",)),
        (torch.relu, ("aten::relu",)),
        (functional.relu, ("aten::relu",)),
        (functional.conv2d, ("aten::conv2d",)),
        (functional.linear, ("aten::linear",)),
        (functional.cross_entropy, ("aten::cross_entropy_loss",)),
        (torch.Tensor.add_, ("aten::add",)),
        ("relu", ("aten::relu",)),
        ("aten::relu", ("aten::relu",)),
        ("aten.relu.default", ("aten::relu",)),
        ("torch.nn.functional.relu", ("aten::relu",)),
        ("F.scaled_dot_product_attention", ("aten::scaled_dot_product_attention",)),
        ("ai.onnx::Conv", ()),
        ("no_such_operator", ()),
        (len, ()),
        (3, ()),
    ],
    ids=lambda value: None if callable(value) else str(value),  # the text of a function holds its address
)
def test_names_of_operators_in_any_form(op, names):
    assert native_names(op) == names


def test_names_of_custom_operators():
    with torch.library._scoped_library("costcoretest", "DEF") as library:
        library.define("bar(Tensor x) -> Tensor")
        assert native_names("costcoretest::bar") == native_names(torch.ops.costcoretest.bar) == ("costcoretest::bar",)
