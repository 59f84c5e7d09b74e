"""All rows, shape rules and specs, against the schemas of the installed onnx and of ONNX Runtime."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from onnx import defs

from costcore.frontends.onnx import ROWS
from costcore.frontends.onnx.contrib import SPECS
from costcore.frontends.onnx.estimate import native_names
from costcore.frontends.onnx.inference import all_rules
from costcore.registry import calculators
from costcore.trace.call import Uncounted
from tests.frontends.onnx.read_model import read
from tests.whole_networks.onnx_models import Graph

SCHEMAS = {f"{s.domain or 'ai.onnx'}::{s.name}" for s in defs.get_all_schemas_with_history()}

# ONNX Runtime documents its operators of com.microsoft; those of its nchwc and nhwc domains follow the standard.
ADDED = json.loads((Path(__file__).parents[2] / "data" / "ort_contrib.json").read_text())["operators"]

OPAQUE = {
    "EPContext": "a graph compiled for a device, of which the model shows nothing",
    "Snpe": "a graph compiled for a device, of which the model shows nothing",
}


def test_every_operator_of_the_document_has_a_row_or_a_reason_for_none():
    # ContribOperators.md and the schemas of onnxruntime 1.31.1
    rows = {row.native for row in ROWS}
    assert {op for op in ADDED if f"com.microsoft::{op}" not in rows} == set(OPAQUE)
    assert len(ADDED) == 136


def is_added(native: str) -> bool:
    domain, _, op = native.partition("::")
    return op in ADDED if domain == "com.microsoft" else native in SPECS


def arguments(native: str) -> set[str]:
    """Names of inputs and attributes of all versions of an operator."""
    if native.startswith("com.microsoft::"):
        schema = ADDED[native.partition("::")[2]]
        return {*schema["inputs"], *schema["attrs"]}
    versions = [s for s in defs.get_all_schemas_with_history() if f"{s.domain or 'ai.onnx'}::{s.name}" == native]
    return {p.name for s in versions for p in s.inputs} | {a for s in versions for a in s.attributes}


def newest() -> int:
    return defs.onnx_opset_version()


@pytest.mark.parametrize("native", sorted({row.native for row in ROWS}))
def test_every_key_is_an_operator_of_onnx_and_names_its_arguments(native):
    if native not in SCHEMAS and not native.startswith("com.microsoft::"):
        assert newest() < 28 or is_added(native), f"{native} is in no version of onnx"
        return
    for row in ROWS:
        if row.native == native and newest() >= 28:
            named = {source for source in (*row.inputs.values(), *row.attrs.values()) if isinstance(source, str)}
            assert named <= arguments(native)


def test_every_row_names_operators_that_have_a_calculator():
    for row in ROWS:
        names = (row.op,) if isinstance(row.op, str) else row.ops
        assert names, f"the row of {row.native} does not say what it may be"
        assert set(names) <= calculators().keys(), row.native


def test_every_rule_of_shapes_is_of_an_operator():
    if newest() >= 28:
        assert {key for key in all_rules() if not is_added(key)} <= SCHEMAS


@pytest.mark.parametrize("op", sorted(spec.name for spec in SPECS.values() if spec.domain == "com.microsoft"))
def test_specs_name_inputs_in_order_and_attributes_that_exist(op):
    spec = SPECS[f"com.microsoft::{op}"]
    assert spec.inputs.replace("*", "").split() == ADDED[op]["inputs"]
    assert set(spec.attributes.split()) <= set(ADDED[op]["attrs"])


def test_every_schema_of_the_standard_has_a_price_or_a_body():
    if newest() < 28:
        return
    walked = {"ai.onnx::If", "ai.onnx::Loop", "ai.onnx::Scan", "ai.onnx::SequenceMap"}
    walked |= {"ai.onnx.preview.training::Gradient"}
    priced = {row.native for row in ROWS}
    schemas = {f"{s.domain or 'ai.onnx'}::{s.name}" for s in defs.get_all_schemas()}
    assert len(schemas) == 227
    assert schemas - priced - walked == set()


@pytest.mark.parametrize(
    ("op", "names"),
    [
        ("Conv", ("ai.onnx::Conv",)),
        ("onnx::Conv", ("ai.onnx::Conv",)),
        ("ai.onnx::Conv", ("ai.onnx::Conv",)),
        ("::Conv", ("ai.onnx::Conv",)),
        ("com.microsoft::FusedConv", ("com.microsoft::FusedConv",)),
        ("conv", ()),
        ("aten::conv2d", ()),
        (print, ()),
    ],
)
def test_names_users_write(op, names):
    assert native_names(op) == names


def test_an_unknown_operator_is_named_and_not_counted():
    g = Graph()
    model = g.model({"x": (1, 4)}, g("Relu", g("Mystery", "x", domain="my.domain", name="/block/odd")))
    model.opset_import.add(domain="my.domain", version=3)
    mystery, relu = read(model).calls
    assert (mystery.native, mystery.layer.op) == ("my.domain::Mystery", "my.domain::Mystery")
    assert (mystery.type, mystery.module, mystery.where) == ("Mystery", "block", "node '/block/odd' (Mystery)")
    assert mystery.layer["x0"].shape == (1, 4)
    assert (relu.layer.op, relu.uncounted) == ("ai.onnx::Relu", Uncounted.NO_SHAPES)
