"""A task takes what CONTRIBUTING says: a file is added to a copy of the package, and everything finds it.

Of the ten tasks, an operator and its formula are held by the tests of ``calculators/`` and the conformance table, and a
release of PyTorch by ``tests/frontends/pytorch/test_torch_private.py``.
"""

from __future__ import annotations

import ast
import json
import shutil

import pytest

from tests.linked_package import ROOT, link_package, run_python
from tests.readme_examples import FENCE, examples, run

ANALYSIS = '''"""Twice the MACs."""

from costcore.analyses.analysis import Analysis, View

ANALYSES = (
    Analysis(
        "doubled",
        "twice the MACs",
        f"{__name__}.quantities:doubled_of",
        quantities=f"{__name__}.quantities:QUANTITIES",
        section=f"{__name__}.quantities:section",
        view=View("twice the MACs"),
    ),
)
'''

QUANTITIES = '''"""The quantity, its section of the page, and the answer."""

from costcore.tables.quantity import Quantity


def doubled(ledger):
    return [2 * cost.macs * call.times for call, cost in ledger.counted]


QUANTITIES = [Quantity("doubled", "Doubled", "count", "twice the MACs", doubled)]


def doubled_of(report):
    return report.table("run", columns=["doubled"])


def section(report):
    return f"<section id='doubled'>{report.formula('doubled')}</section>"
'''

PLUGIN = '''"""A plug-in with a quantity."""

from costcore import hookimpl
from costcore.reports.exports import Export
from costcore.tables.quantity import Quantity


@hookimpl
def costcore_quantities():
    values = lambda ledger: [3 * cost.macs * call.times for call, cost in ledger.counted]
    return [Quantity("tripled", "Tripled", "count", "three times the MACs", values)]


@hookimpl
def costcore_exports():
    return [Export("halved", ".halved", "plugin:halved")]


def halved(report, columns=()):
    return str(report.total_report["macs"] // 2)
'''

CONVENTION = """
name = "mine"
tool = "my counter"
version = "1.0"
unit = "MAC"
calls_it = "flops"
[[count]]
by = "op"
[count.rules]
matmul = "macs"
"""

SCRIPT = """
import json
import costcore, plugin
from costcore import estimate, plugins
from costcore.studies.budgets import check

plugins.register(plugin)
report = estimate("product.onnx")
report.save("saved.halved")
print(json.dumps({
    "analysis": report.analysis("doubled").rows,
    "column": report.table("op", columns=["doubled", "tripled"]).rows,
    "budget": [str(each) for each in check(report, {"total": {"doubled": 127, "tripled": 192}})],
    "page": "<section id='doubled'>128</section>" in report.to_html(),
    "saved": open("saved.halved").read(),
    "bars": report.plot("tripled"),
    "convention": report.under("mine").total,
    "device": report.time("my-board").bound_seconds,
    "quantities": [name for name in ("doubled", "tripled") if name in str(costcore.quantities())],
}))
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy of the package with one more analysis, device and convention, and a model of 64 MACs."""
    from onnx import TensorProto, helper, save

    folder = tmp_path_factory.mktemp("package")
    devices, conventions = "analyses/devices/data", "analyses/conventions/data"
    link_package(folder, ["analyses", devices, conventions])
    (folder / "costcore/analyses/doubled").mkdir()
    (folder / "costcore/analyses/doubled/__init__.py").write_text(ANALYSIS)
    (folder / "costcore/analyses/doubled/quantities.py").write_text(QUANTITIES)
    board = (ROOT / "examples/plugin/acme_kernels/board.toml").read_text().replace("acme-board", "my-board")
    (folder / "costcore" / devices / "my-board.toml").write_text(board)
    (folder / "costcore" / conventions / "mine.toml").write_text(CONVENTION)
    (folder / "plugin.py").write_text(PLUGIN)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    sizes = {"x": [2, 8], "w": [8, 4], "y": [2, 4]}
    values = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in sizes.items()}
    graph = helper.make_graph([node], "product", [values["x"], values["w"]], [values["y"]])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    save(model, folder / "product.onnx")
    return folder


@pytest.mark.frontend("onnx")
def test_an_analysis_is_one_folder_and_has_a_view(package):
    printed = run_python(package, "-m", "costcore", "product.onnx", "--doubled", "--format", "csv", "--unit", "none")
    assert printed == "Doubled\n128\n"
    assert "--doubled" in run_python(package, "-m", "costcore", "--help-all")


@pytest.mark.frontend("onnx")
def test_quantities_a_device_and_a_convention_are_one_file(package):
    found = json.loads(run_python(package, "-c", SCRIPT))
    assert found["analysis"] == [{"doubled": 2 * 64}]  # 2 x 4 outputs, dot products of length 8
    assert found["column"] == [{"op": "matmul", "doubled": 128, "tripled": 192}]
    assert len(found["budget"]) == 1 and "128" in found["budget"][0]
    assert found["page"]
    assert found["saved"] == "32"  # the export of a plug-in
    assert found["bars"] == [["matmul", 192]]
    assert found["convention"] == 64
    assert found["device"] > 0
    assert found["quantities"] == ["doubled", "tripled"]
    assert "my-board" in run_python(package, "-m", "costcore", "devices", "--format", "csv")
    assert "mine" in run_python(package, "-m", "costcore", "conventions", "--format", "csv")


@pytest.mark.frontend("pytorch")
def test_the_operator_of_the_page_on_contributions_is_supported_where_it_says(tmp_path):
    """6 elements, each compared with 0 and multiplied by itself; 6 float32 are read, and 6 written."""
    text = (ROOT / "docs" / "contribution.md").read_text(encoding="utf-8")
    model, formula = (each for each in examples(text) if each.language == "python")
    (row,) = (block["body"] for block in FENCE.finditer(text) if block["language"] == "py")
    function = next(each for each in ast.parse(formula.code).body if isinstance(each, ast.FunctionDef))
    link_package(tmp_path)
    for room in ("calculators", "frontends"):
        (tmp_path / "costcore" / room).unlink()
        shutil.copytree(ROOT / room, tmp_path / "costcore" / room, ignore=shutil.ignore_patterns("__pycache__"))
    activations = tmp_path / "costcore/calculators/activation.py"
    activations.write_text(
        f"{activations.read_text()}\n\n@element_wise\n{ast.get_source_segment(formula.code, function)}\n"
    )
    rows = tmp_path / "costcore/frontends/pytorch/rows/elements.py"
    rows.write_text(rows.read_text().replace("ACTIVATIONS = (", f"ACTIVATIONS = ({row.strip()},", 1))
    run(model, tmp_path, {})
    options = ("--columns", "op,flops,mread,mwrite", "--format", "csv", "--unit", "none")
    printed = run_python(tmp_path, "-m", "costcore", "primer.py:Net", "--input", "2x3", *options)
    assert "squared_relu,12,24,24" in printed.splitlines(), printed
