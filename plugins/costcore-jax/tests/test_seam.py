"""The package uses of costcore only what CONTRIBUTING.md offers to frontends, and imports no framework to be found."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import costcore_jax

FOLDER = Path(costcore_jax.__file__).parent
OFFERED = ("errors", "frontend", "graphs", "import_paths", "ir", "messages", "numbers", "plugins", "translate")
PUBLIC = (*(f"costcore.{name}" for name in OFFERED), "costcore.registry", "costcore.trace")


def imported(file):
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_only_modules_that_are_offered_to_frontends_are_imported():
    names = {name for file in FOLDER.rglob("*.py") for name in imported(file) if name.startswith("costcore.")}
    assert names
    assert sorted(name for name in names if not name.startswith(PUBLIC)) == []


def test_it_is_found_through_the_entry_point():
    (point,) = (point for point in entry_points(group="costcore") if point.name == "jax")
    assert point.load() is costcore_jax


def test_finding_it_does_not_import_jax():
    code = "import sys; from costcore.registry import specs; assert 'jax' in specs(); "
    code += "assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
