"""The stored signatures of operators are those of the installed onnx, which is not asked for them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from tools.make_onnx_signatures import STORED, content

RELEASE = STORED.read_text(encoding="utf-8").partition("\n")[0]

needs_release = pytest.mark.skipif(onnx.__version__ != RELEASE, reason=f"the signatures are those of onnx {RELEASE}")

ALL_OPERATORS = """
import re, sys, onnx
from onnx import TensorProto, defs, helper
onnx.__version__ = sys.argv[1] or onnx.__version__
from costcore import estimate
for schema in (each for each in defs.get_all_schemas_with_history() if each.domain == ""):
    dtypes = [sorted(re.findall("^tensor.(.*).$", "\\n".join(each.types), re.M)) for each in schema.inputs]
    inputs = [
        helper.make_tensor_value_info(each.name, getattr(TensorProto, found[0].upper()), [4] * 4)
        for each, found in zip(schema.inputs, dtypes) if found
    ]
    names = [each.name * bool(found) for each, found in zip(schema.inputs, dtypes)]
    for given, version in ((names, schema.since_version), (names, 1), (names[:1], schema.since_version + 1), ([], 20)):
        for attributes in ({}, dict.fromkeys(sorted(schema.attributes)[:1], [0.5])):
            node = helper.make_node(schema.name, given, [each.name + "_" for each in schema.outputs], **attributes)
            graph = helper.make_graph([node], "g", inputs * bool(given), [])
            try:
                found = estimate(helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)])).to_dict()
                found = found["layers"], found["notes"]
            except Exception as error:
                found = error
            print(schema.name, schema.since_version, version, found)
"""

PLAIN = """
import onnx.defs
from onnx import TensorProto, helper, parser
from costcore import estimate
def refuse(*_): raise AssertionError
onnx.defs.get_schema = refuse
text = '<ir_version: 8, opset_import: ["": 20]> net (float[1, 4] x) => (y) {h = Relu(x) y = Add(h, x)}'
print(estimate(parser.parse_model(text)).total_report["flops"])
"""


def printed(code: str, *args: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_the_release_is_that_of_the_environment():
    """After an update of constraints.txt, run ``python tools/make_onnx_signatures.py``."""
    pins = (Path(__file__).parents[4] / "constraints.txt").read_text(encoding="utf-8").split()
    assert f"onnx=={RELEASE}" in pins


@needs_release
def test_the_file_is_what_the_tool_writes():
    assert STORED.read_text(encoding="utf-8") == content()


@needs_release
def test_operators_of_every_version_cost_what_they_cost_if_onnx_is_asked():
    """Also in versions between two schemas and before the first, without inputs, and with attributes of a wrong type.

    Another release than the stored one asks onnx.
    """
    stored = printed(ALL_OPERATORS, "")
    assert stored == printed(ALL_OPERATORS, "0.0.0")
    assert len(stored) > 4_000


@needs_release
def test_onnx_registers_no_schema_for_a_plain_model():
    assert printed(PLAIN) == ["8"]
