"""The rows agree with the schemas of the installed PyTorch and with the calculators; names of operators."""

from __future__ import annotations

from importlib import import_module
from inspect import signature
from pkgutil import walk_packages

import pytest
import torch
from torch.nn import functional

from costcore.frontends.pytorch import ROWS, native_names, rows
from costcore.registry import calculators
from tests.frontends.pytorch.rows.test_torchvision import SCHEMAS
from tests.frontends.pytorch.runs import record
from tests.frontends.pytorch.versions import LACKS

OF_PACKAGES = (
    *(f"torchvision::{text}" for text in SCHEMAS),
    "quanto::qbytes_mm(Tensor A, Tensor B, Tensor scales) -> Tensor",
)
PACKAGES = {schema.name: schema for schema in map(torch._C.parse_schema, OF_PACKAGES)}


def schemas(native: str):
    if native in PACKAGES:
        return [PACKAGES[native]]
    name, _, wanted = native.partition(".")
    found = torch._C._jit_get_schemas_for_operator(name)
    if not found:
        found = torch._C._jit_get_schemas_for_operator(f"{name}_")
    return [schema for schema in found if not wanted or schema.overload_name == wanted]


def argument_names(native: str) -> set[str]:
    prefix = "torch.nn.functional::"
    if native.startswith(prefix):
        function = getattr(torch.nn.functional, native.removeprefix(prefix), None)
        return set() if function is None else set(signature(function).parameters)
    return {argument.name for schema in schemas(native) for argument in schema.arguments}


@pytest.mark.parametrize("native", sorted({row.native for row in ROWS}))
def test_a_row_names_an_operator_of_pytorch_and_its_arguments(native):
    if native.startswith("transformers::"):
        pytest.importorskip("transformers.integrations.moe", reason="this transformers registers no operators")
    if native.startswith("costcore::"):
        import_module("costcore.frontends.pytorch.finetuning")
    arguments = argument_names(native)
    assert arguments or native in LACKS
    for row in ROWS:
        if row.native == native:
            named = {source for source in (*row.inputs.values(), *row.attrs.values()) if isinstance(source, str)}
            assert named <= arguments or native in LACKS


def test_every_row_has_a_calculator():
    named = {row.op for row in ROWS if isinstance(row.op, str)} | {op for row in ROWS for op in row.ops}
    assert named - calculators().keys() == set()
    assert all(row.ops for row in ROWS if not isinstance(row.op, str))


def test_the_table_contains_the_rows_of_every_file():
    names = [found.name for found in walk_packages(rows.__path__, f"{rows.__name__}.") if not found.ispkg]
    modules = [import_module(name) for name in names if name.rpartition(".")[2] not in ("arguments", "table")]
    assert sorted(map(id, ROWS)) == sorted(id(row) for module in modules for row in module.ROWS)


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


def test_calls_with_data_dependent_output_shapes_are_not_replayed():
    def run():
        for row in (torch.tensor([1, 0, 0]), torch.tensor([1, 1, 1])):
            torch.nonzero(row)
            torch.masked_select(row, row > 0)
            functional.one_hot(row)

    found = [call.layer.out.shape for call in record(run).calls if call.layer.op != "greater"]
    assert found == [(1, 1), (1,), (3, 2), (3, 1), (3,), (3, 2)]
    wider = record(lambda: [functional.one_hot(torch.tensor([n])) for n in (1, 4)])
    assert [call.layer.out.shape for call in wider.calls if call.layer.op == "one_hot"] == [(1, 2), (1, 5)]
