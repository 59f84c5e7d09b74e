"""The table, against the installed PyTorch and the calculators; and names of operators."""

from __future__ import annotations

import pytest
import torch
import torch.nn.modules.linear_cross_entropy  # registers operators of its own
from torch.nn import functional

from costcore.frontends.pytorch import ROWS, native_names
from costcore.frontends.pytorch.operators.composite_ops import COMPOSITES, overload
from costcore.registry.calculators import calculators


def schemas(native: str):
    name, _, wanted = native.partition(".")
    found = torch._C._jit_get_schemas_for_operator(name)
    if not found:
        found = torch._C._jit_get_schemas_for_operator(f"{name}_")
    return [schema for schema in found if not wanted or schema.overload_name == wanted]


@pytest.mark.parametrize("native", sorted({row.native for row in ROWS}))
def test_every_key_is_an_operator_and_names_its_arguments(native):
    found = schemas(native)
    assert found
    known = {argument.name for schema in found for argument in schema.arguments}
    for row in ROWS:
        if row.native == native:
            named = {source for source in (*row.inputs.values(), *row.attrs.values()) if isinstance(source, str)}
            assert named <= known


def test_every_row_has_a_calculator():
    named = {row.op for row in ROWS if isinstance(row.op, str)} | {op for row in ROWS for op in row.ops}
    assert named - calculators().keys() == set()
    assert all(row.ops for row in ROWS if not isinstance(row.op, str))


def test_every_frame_is_a_composite_operator():
    missing = {name for name in COMPOSITES if overload(name) is None}
    assert missing == set()
    for name in COMPOSITES:
        key = "CompositeImplicitAutograd"
        assert torch._C._dispatch_has_kernel_for_dispatch_key(overload(name).name(), key), name


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
    ids=str,
)
def test_names_of_operators_in_any_form(op, names):
    assert native_names(op) == names


def test_names_of_custom_operators():
    with torch.library._scoped_library("costcoretest", "DEF") as library:
        library.define("bar(Tensor x) -> Tensor")
        assert native_names("costcoretest::bar") == native_names(torch.ops.costcoretest.bar) == ("costcoretest::bar",)
