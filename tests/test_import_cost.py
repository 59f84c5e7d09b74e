"""``import costcore`` is light: it loads nothing that takes time."""

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
    """The modules of HEAVY that ``code`` loads; -S, because what is installed may load modules when Python starts."""
    program = f"import sys; sys.path.append({str(ROOT)!r})\n{code}\nprint(*sys.modules)"
    command = [sys.executable, "-S", "-c", program]
    return HEAVY & set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_import_costcore_loads_nothing_heavy():
    assert loaded_by("import costcore") == set()


def test_asking_for_names_loads_nothing_heavy():
    assert loaded_by("import costcore; dir(costcore); costcore.__version__; costcore.__all__") == set()


@pytest.mark.parametrize("heavy", ["typing", "inspect", "importlib.metadata"])
def test_the_measurement_sees_what_is_loaded(heavy):
    assert heavy in loaded_by(f"import {heavy}")
