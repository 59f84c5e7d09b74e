"""The package needs nothing: neither costcore nor a framework, before a probe is built."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "costcore_probes"
FILES = sorted(PACKAGE.rglob("*.py"))

FRAMEWORKS = "torch onnx jax numpy costcore"


def test_no_requirement():
    project = (PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8")
    assert "\ndependencies = []" in project
    assert 'dev = ["pytest>=8"]\n' in project


def test_reading_all_probes_and_adapters_imports_no_framework():
    code = (
        "import sys, costcore_probes.cli as cli, costcore_probes.adapter as a\n"
        "[a.adapter(name) for name in a.adapter_names()]; cli.main(['show', 'conv.plain'])\n"
        f"print([name for name in '{FRAMEWORKS}'.split() if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=PACKAGE.parent, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_only_the_adapter_of_costcore_imports_costcore(file):
    tree = ast.parse(file.read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level}
    found = {name for name in names if name.partition(".")[0] == "costcore"}
    assert found == ({"costcore"} if file.name == "costcore.py" else set())
