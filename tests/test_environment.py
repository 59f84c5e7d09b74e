"""The requested frontends are tested, and a missing one is a failure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import frameworks
from tests.registered import load, specs

ROOT = Path(__file__).parents[1]


def test_every_frontend_of_this_run_loads_and_has_a_table():
    for name in frameworks.available():
        assert tuple(load(name).ROWS), name


def test_a_requested_frontend_that_is_missing_is_reported(monkeypatch):
    monkeypatch.setenv(frameworks.VARIABLE, "onnx, nonesuch")
    monkeypatch.setattr(frameworks, "find_spec", lambda framework: None)
    assert frameworks.requested() == ("onnx", "nonesuch")
    assert frameworks.missing() == ("onnx", "nonesuch")


def test_without_a_request_the_installed_frontends_are_tested(monkeypatch):
    monkeypatch.delenv(frameworks.VARIABLE, raising=False)
    monkeypatch.setattr(frameworks, "find_spec", lambda framework: framework == "torch" or None)
    assert frameworks.available() == ("pytorch",)
    assert frameworks.missing() == ()


@pytest.mark.parametrize("name", ["nonesuch", "chainer"])
def test_a_run_without_a_requested_frontend_fails(name, tmp_path):
    """The framework `chainer` cannot be found in this subprocess."""
    (tmp_path / "sitecustomize.py").write_text(f"import sys\nsys.modules[{specs().get(name, (0, name))[1]!r}] = None\n")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", str(ROOT / "tests" / "test_architecture.py")],
        cwd=ROOT,
        env={**os.environ, frameworks.VARIABLE: name, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == pytest.ExitCode.USAGE_ERROR, run.stdout
    assert f"{frameworks.VARIABLE} requests {name}" in run.stderr
