"""Everything works without any one part of analyses or studies; asking for what is in it gives a sentence."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest

import costcore
from tests.linked_package import ROOT, link_package, run_python

PARTS = sorted(
    f"{wing}.{entry.stem}"
    for wing in ("analyses", "studies")
    for entry in (ROOT / "costcore" / wing).iterdir()
    if entry.suffix in ("", ".py") and entry.stem not in ("__init__", "__pycache__", "analysis")
)

SCRIPT = """
import contextlib, io, json, sys
from importlib import import_module
import costcore
from costcore import CostError, Report, estimate
from costcore.cli.main import main

def printed(*argv):
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(argv)
        except SystemExit as end:
            code = end.code
    return code or 0, out.getvalue(), err.getvalue()

def said(ask):
    try:
        ask()
    except (CostError, ValueError) as error:
        return str(error)
    return ""

part, analyses, names = json.loads(sys.argv[1])
report = estimate("gemm.onnx")
report.to_json("gemm.json")
found = {
    "file": costcore.__file__,
    "csv": report.to_csv(),
    "table": str(report.table("op", columns=["macs", "mrw"])),
    "read": Report.from_json("gemm.json") == report,
    "page": "</html>" in report.to_html(),
    "bars": report.plot(),
    "cli": printed("gemm.onnx", "--summary", "--format", "csv", "--unit", "none", "--columns", "type,macs"),
    "help": printed("--help"),
    "commands": {name: printed(name, "--help") for name in costcore.cli.commands.OWN},
    "missing": [said(lambda: import_module(f"costcore.{part}"))]
    + [said(lambda: report.analysis(name)) for name in analyses]
    + [said(lambda: getattr(costcore, name)) for name in names],
}
print(json.dumps(found))
"""


@pytest.mark.frontend("onnx")
@pytest.mark.parametrize("part", PARTS)
def test_all_else_works_without(part, tmp_path):
    from onnx import TensorProto, helper, save

    node = helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1)
    sizes = {"x": [2, 8], "w": [4, 8], "b": [4], "y": [2, 4]}
    values = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in sizes.items()}
    graph = helper.make_graph([node], "gemm", [values[name] for name in "xwb"], [values["y"]])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "gemm.onnx")
    link_package(tmp_path, without=part.replace(".", "/"))
    analyses = [each.name for each in getattr(import_module(f"costcore.{part}"), "ANALYSES", ())]
    names = [name for name in costcore.__all__ if getattr(costcore, name).__module__.startswith(f"costcore.{part}")]
    found = json.loads(run_python(tmp_path, "-c", SCRIPT, json.dumps([part, analyses, names])))
    assert Path(found["file"]) == tmp_path / "costcore" / "__init__.py"
    assert found["csv"].splitlines()[-1].startswith("total,")
    assert "64" in found["table"]  # 2 x 4 outputs, dot products of length 8
    assert found["bars"] == [["matmul", 64]]
    assert found["read"] and found["page"]
    assert found["cli"] == [0, "Layer type,MACs\nGemm,64\ntotal,64\n", ""]
    assert found["help"][0] == 0
    codes = {name: code for name, (code, *_) in found["commands"].items()}
    assert all(
        code == 0 or f"costcore: this needs costcore.{part}," in found["commands"][name][2]
        for name, code in codes.items()
    )
    assert {name for name, code in codes.items() if code} < {*codes}
    assert found["missing"][0] == f"this needs costcore.{part}, which this installation of costcore does not have"
    assert all(found["missing"]) and len(found["missing"]) == 1 + len(analyses) + len(names)
    assert len(found["missing"]) > 1 or any(codes.values())  # a part that nothing misses is not needed
