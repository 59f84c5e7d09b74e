"""A file that is only read imports nothing from the current folder, in this process and in children."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from costcore import Report, table
from costcore.isolated import isolated_path, python_command
from tests.core.given_costs import dense, net
from tests.frameworks import optional

SHADOWED = (
    "argparse",
    "json",
    "numpy",
    "onnx",
    "pluggy",
    "random",
    "resource",
    "struct",
    "sympy",
    "texttable",
    "typing",
)
"""Modules that reading a file imports, or could."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with modules that must not be imported."""
    for name in (*SHADOWED, "torch", "transformers", "pickle", "queue", "signal", "costcore_plugin"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / f'ran-{name}')!r}, 'w')\n", encoding="utf-8")
    described = tmp_path / "costcore_plugin-1.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Name: costcore-plugin\nVersion: 1\n", encoding="utf-8")
    (described / "entry_points.txt").write_text("[costcore]\nplugin = costcore_plugin\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert sorted(tmp_path.glob("ran-*")) == []


@pytest.fixture
def model(folder):
    """An ONNX model of 2 x 3 by 3 x 4: 24 MACs."""
    optional("onnx")
    from onnx import TensorProto, helper

    entries = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", (2, 3)), ("w", (3, 4)))]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 4))
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", entries, [result])
    (folder / "net.onnx").write_bytes(helper.make_model(graph).SerializeToString())
    return "net.onnx"


def run(*arguments):
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


AS_CSV = ("--format", "csv", "--unit", "none", "--columns", "macs")


@pytest.mark.parametrize("options", [("--check-shapes",), ()])
def test_a_module_of_the_command_line_reads_a_file(model, options):
    code, said = run("-m", "costcore", model, *options, *AS_CSV)
    assert (code, said.split()[-1]) == (0, "24"), said


@pytest.mark.parametrize("options", [(), ("--jobs", "2"), ("--timeout", "60")])
def test_a_table_of_files(model, options):
    code, said = run("-m", "costcore", "table", model, *options, *AS_CSV)
    assert (code, said.splitlines()[-1]) == (0, "net.onnx,24,complete"), said


def test_processes_of_a_table_in_a_program_of_the_folder(model, monkeypatch):
    """Models in Python of this folder are found; of a file, nothing is imported from it."""
    monkeypatch.syspath_prepend("")
    (row,) = table([model], jobs=1, columns=["macs"]).rows
    assert (row.costs, row.status) == ({"macs": 24}, "complete")


def test_a_saved_report(folder):
    net(dense("a")).to_json(folder / "report.json")
    assert isinstance(Report.from_json(folder / "report.json"), Report)
    code, said = run("-m", "costcore", "report.json")
    assert code == 0, said


def test_python_code_imports_from_its_folder(tmp_path, monkeypatch):
    optional("torch")
    (tmp_path / "helper_of_net.py").write_text("WIDTH = 4\n", encoding="utf-8")
    text = "from torch import nn\nimport helper_of_net\ndef make():\n    return nn.Linear(helper_of_net.WIDTH, 3)\n"
    (tmp_path / "net.py").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for target in ("net.py:make", "net:make"):
        code, said = run("-m", "costcore", target, "--input", "2x4", *AS_CSV)
        assert (code, said.split()[-1]) == (0, str(2 * 4 * 3)), said
        code, said = run("-m", "costcore", "table", target, "--input", "2x4", "--jobs", "2", *AS_CSV)
        assert (code, said.splitlines()[-1]) == (0, f"{target},{2 * 4 * 3},complete"), said


def test_the_path_of_a_child_has_no_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "link").symlink_to(tmp_path)
    others = [folder for folder in sys.path if folder not in ("", str(tmp_path))]
    for current in ("", ".", "./", "sub/..", str(tmp_path), str(tmp_path / "link"), f"{tmp_path}/"):
        monkeypatch.setattr(sys, "path", [current, *others])
        assert isolated_path() == others
        command = python_command("print(sys.path, sys.flags.isolated)")
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert said == f"{others} 1\n"


def test_a_checkout_that_is_the_current_folder_comes_last(monkeypatch):
    """Nothing in a checkout that is not installed replaces a module of Python."""
    root = Path(__file__).parents[2]
    monkeypatch.chdir(root)
    others = [folder for folder in sys.path if folder and Path(folder) != root]
    monkeypatch.setattr(sys, "path", ["", *others])
    assert isolated_path() == [*others, str(root)]


def test_a_child_keeps_the_environment_that_code_of_the_user_needs(monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    code = "print(sys.flags.hash_randomization, sys.flags.isolated)"
    seeded = subprocess.run(python_command(code, keep_environment=True), capture_output=True, text=True, check=True)
    assert seeded.stdout == "1 0\n"
    first, second = (
        subprocess.run(python_command("print(hash('a'))", keep_environment=True), capture_output=True, check=True)
        for _ in range(2)
    )
    assert first.stdout == second.stdout
    assert os.environ["PYTHONHASHSEED"] == "7"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python has no safe path")
@pytest.mark.parametrize("backend", ["loky", "multiprocessing"])
def test_workers_of_joblib(model, tmp_path_factory, backend):
    """joblib starts its processes by ``python -m``, which searches the current folder first."""
    pytest.importorskip("joblib")
    script = tmp_path_factory.mktemp("program") / "program.py"
    script.write_text(
        "import os, joblib, costcore\n"
        f"with joblib.parallel_config({backend!r}, n_jobs=2):\n"
        f"    rows = costcore.table([{model!r}] * 2, columns=['macs']).rows\n"
        "print([(row.costs, row.status) for row in rows], 'PYTHONSAFEPATH' in os.environ)\n",
        encoding="utf-8",
    )
    for name in ("joblib", "resource_tracker", "subprocess"):
        Path(f"{name}.py").write_text(f"open('ran-{name}', 'w')\n", encoding="utf-8")
    code, said = run(str(script))
    assert (code, said.strip()) == (0, f"{[({'macs': 24}, 'complete')] * 2} False"), said
