"""Files of other people: nothing beside them runs, and what they expand to is bounded."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from exported import exported

from costcore import CostError, estimate

SHADOWED = ("resource", "contextlib", "pathlib", "jaxlib", "numpy", "runpy", "costcore_stablehlo", "sitecustomize")
"""Modules that the child process that reads an artifact imports, or could."""


def test_reading_an_artifact_imports_nothing_of_the_current_folder(tmp_path, monkeypatch):
    artifact = exported(lambda x: x @ x, [(4, 4)])
    assert estimate(artifact).total_report["macs"] == 4**3  # this process has imported what it needs
    for name in SHADOWED:
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / f'ran-{name}')!r}, 'w')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for folder in ("", str(tmp_path)):
        monkeypatch.setattr(sys, "path", [folder, *sys.path])
        assert estimate(artifact).total_report["macs"] == 4**3
    command = [sys.executable, "-m", "costcore", str(artifact), "--format", "csv", "--columns", "name,macs"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.endswith(f"total,{4**3}\n")
    assert sorted(tmp_path.glob("ran-*")) == []


def doubling(first, step, use, n=24):
    """Return a text whose last alias has the first ``2 ** n`` times: N is its number, P that of the one before."""
    lines = [first, *(step.replace("N", str(i)).replace("P", str(i - 1)) for i in range(1, n + 1))]
    return "\n".join([*lines, use.replace("N", str(n))])


IDENTITY = "func.func @main(%x: TYPE) -> TYPE {\n return %x : TYPE\n}\n"
ABSOLUTE = "func.func @main(%x: TYPE) -> TYPE {\n %y = stablehlo.abs %x : TYPE\n return %y : TYPE\n}\n"
TUPLES = ("!t0 = tuple<tensor<2xf32>, tensor<2xf32>>", "!tN = tuple<!tP, !tP>", "!tN")
IN_TENSOR = "tensor<2xf32, #aN>"


@pytest.mark.parametrize(
    ("first", "step", "type", "body"),
    [
        (*TUPLES, IDENTITY),
        (*TUPLES, ABSOLUTE),
        (TUPLES[0], "!tN =\n tuple<!tP,\n !tP>", "!tN", ABSOLUTE),
        (TUPLES[0], '!tN = tuple<tensor<2xf32, "s">, !tP, !tP> // >>>>', "!tN", IDENTITY),
        ("!t0 = (i32) -> i32", "!tN = (!tP, !tP) -> !tP", "!tN", IDENTITY),
        ("#a0 = [1, 2]", "#aN = [#aP, #aP]", IN_TENSOR, ABSOLUTE),
        ("#a0 = {x = 1}", "#aN = {x = #aP, y = #aP}", IN_TENSOR, ABSOLUTE),
        ("#a0 = {x = 1}", "#aN = {x = #aP, y = #aP} !tN = tensor<2xf32, #aN>", "!tN", ABSOLUTE),
    ],
)
def test_aliases_that_double_are_refused_at_once(tmp_path, first, step, type, body):
    path = tmp_path / "doubles.mlir"
    path.write_text(doubling(first, step, body.replace("TYPE", type)), encoding="utf-8")
    start = time.monotonic()
    with pytest.raises(
        CostError, match=r"doubles.mlir is not read: the alias [!#][ta]\d+ expands to more than"
    ) as error:
        estimate(path)
    assert time.monotonic() - start < 5
    assert len(str(error.value)) < 500


def test_aliases_that_nest_deeply_are_refused(tmp_path):
    path = tmp_path / "deep.mlir"
    path.write_text(doubling("!t0 = tuple<i32>", "!tN = tuple<!tP>", IDENTITY.replace("TYPE", "!tN"), 5000))
    with pytest.raises(CostError, match="nests brackets more than 200 deep"):
        estimate(path)


def test_messages_hold_no_long_type(tmp_path):
    path = tmp_path / "long.mlir"
    path.write_text(IDENTITY.replace("TYPE", f"tuple<{', '.join(['i32'] * 10_000)}>"))
    with pytest.raises(CostError, match="values of type tuple<i32, ") as error:
        estimate(path)
    assert len(str(error.value)) < 500


def test_usual_aliases_are_read(tmp_path):
    """Two products of 4 x 4 by 4 x 4; places in source code nest as deeply as calls did."""
    product = "stablehlo.dot_general %x, {}, contracting_dims = [1] x [0] : (!m, !m) -> !m loc(#loc900)"
    text = f"""#loc0 = loc("net.py":1:2)
!m = tensor<4x4xf32>
module @jit_f attributes {{mhlo.note = "a {{ brace and !m = "}} {{
  func.func public @main(%x: !m loc("x")) -> !m {{
    %y = {product.format("%x")}
    %z = {product.format("%y")}
    return %z : !m
  }}
}} loc(#loc0)
""" + "\n".join(f"#loc{i} = loc(callsite(#loc{i - 1} at #loc{i - 1}))" for i in range(1, 901))
    path = tmp_path / "usual.mlir"
    path.write_text(text, encoding="utf-8")
    assert estimate(path).total_report["macs"] == 2 * 4**3


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("1000000x1000000xf32", "dense<1.0>"),
        ("1000000x1000000xcomplex<f32>", "dense<(1.0, 2.0)>"),
        ("1000000x1000000xf32", "dense_resource<a>"),
        ("1000000x1000000xi32", "dense_resource<a>"),
    ],
)
def test_large_constants_take_no_memory(tmp_path, kind, value):
    """Elements that the file does not have, or that are all the same; an addition of 10**12 elements."""
    body = f"%0 = stablehlo.constant {value} : tensor<{kind}>\n%1 = stablehlo.add %0, %0 : tensor<{kind}>"
    resource = '{-# dialect_resources: { builtin: { a: "0x0400000001020304" } } #-}'
    path = tmp_path / "large.mlir"
    path.write_text(f"func.func @main() -> tensor<{kind}> {{\n{body}\nreturn %1 : tensor<{kind}>\n}}\n{resource}\n")
    operations = 2 if "complex" in kind else 1
    assert estimate(path).total_report["flops"] == operations * 10**12
