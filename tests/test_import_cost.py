"""``import costcore`` does not import modules that are slow to load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = {
    "chainer",
    "dataclasses",
    "importlib.metadata",
    "inspect",
    "numpy",
    "onnx",
    "pluggy",
    "sympy",
    "torch",
    "typing",
}


def loaded_by(code: str) -> set[str]:
    """Return the modules of HEAVY that ``code`` loads; -S, because installed packages may load modules at startup."""
    program = f"import sys; sys.path.append({str(ROOT)!r})\n{code}\nprint(*sys.modules)"
    command = [sys.executable, "-S", "-c", program]
    return HEAVY & set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_import_costcore_loads_nothing_heavy():
    assert loaded_by("import costcore") == set()


def test_reading_public_names_loads_nothing_heavy():
    assert loaded_by("import costcore; dir(costcore); costcore.__version__; costcore.__all__") == set()


@pytest.mark.parametrize("heavy", ["typing", "inspect", "importlib.metadata"])
def test_the_measurement_detects_loaded_modules(heavy):
    assert heavy in loaded_by(f"import {heavy}")
