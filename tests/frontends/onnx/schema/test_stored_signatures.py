"""The stored signatures of operators are those of the installed onnx, which is not asked for them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import defs, helper

from costcore.frontends.onnx import schema
from costcore.frontends.onnx.schema import ONNX, STORED, real_schema, schema_signature, signature_of, stored_signatures
from tests.frontends.onnx.small_models import model
from tools.make_onnx_signatures import content

RELEASE = STORED.read_text(encoding="utf-8").partition("\n")[0]

needs_release = pytest.mark.skipif(onnx.__version__ != RELEASE, reason=f"the signatures are those of onnx {RELEASE}")


def schemas() -> Iterator[Any]:
    return (each for each in defs.get_all_schemas_with_history() if each.domain == "")


def test_the_release_is_that_of_the_environment():
    """After an update of constraints.txt, run ``python tools/make_onnx_signatures.py``."""
    pins = (Path(__file__).parents[4] / "constraints.txt").read_text(encoding="utf-8").split()
    assert f"onnx=={RELEASE}" in pins


@needs_release
def test_the_file_is_what_the_tool_writes():
    assert STORED.read_text(encoding="utf-8") == content()


@needs_release
def test_signatures_are_those_of_every_version():
    """Also of versions between two schemas, and of one before the first, for which the newest counts."""
    for stated in schemas():
        versions = (stated.since_version, stated.since_version + 1, 0)
        for found in (schema_signature(ONNX, stated.name, version) for version in versions):
            since = found.since
            expected = signature_of(defs.get_schema(stated.name, since, ""))
            assert found._replace(schema=None) == expected._replace(schema=None)
            assert list(map(type, found.defaults.values())) == list(map(type, expected.defaults.values()))
        newest = defs.get_schema(stated.name, "").since_version
        assert since == newest
    assert schema_signature(ONNX, "Nothing", 20) is None


@needs_release
def test_a_schema_is_looked_up_when_it_is_read():
    found = schema_signature(ONNX, "Gelu", 20).schema
    assert found.has_context_dependent_function
    assert real_schema(found).name == "Gelu" and real_schema(None) is None


@needs_release
def test_onnx_registers_no_schema_for_a_plain_model(tmp_path):
    path = tmp_path / "net.onnx"
    onnx.save(model(helper.make_node("Relu", ["x"], ["h"]), helper.make_node("Add", ["h", "x"], ["y"])), path)
    code = (
        "import sys, onnx.defs; from costcore import estimate\n"
        "def refuse(*_): raise AssertionError\n"
        "onnx.defs.get_schema = refuse\n"
        "print(estimate(sys.argv[1]).total_report['flops'])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["8"]


def test_another_release_of_onnx_is_asked(monkeypatch):
    expected = schema_signature(ONNX, "Relu", 13)
    monkeypatch.setattr(schema, "onnx_version", "0.0.0")
    caches = (stored_signatures, schema_signature)
    for each in caches:
        each.cache_clear()
    assert stored_signatures("Relu") == ()
    assert schema_signature(ONNX, "Relu", 13)._replace(schema=None) == expected._replace(schema=None)
    for each in caches:
        each.cache_clear()
