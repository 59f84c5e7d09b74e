"""The example package of docs/plugins.md: installed as a user would, its own tests pass; the page shows its files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.readme_examples import FENCE

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "examples" / "plugin"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder into which pip installed the package, without the network, from a copy."""
    copy, target = tmp_path_factory.mktemp("copy") / "plugin", tmp_path_factory.mktemp("site")
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    options = ["--no-build-isolation", "--no-deps", "--no-index", "--quiet", "--target", target]
    run = subprocess.run([sys.executable, "-m", "pip", "install", *options, copy], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    return target


def run(installed, folder, *command, **environment):
    """Run Python with the installed package, in a folder where nothing of it is."""
    paths = os.pathsep.join([str(installed), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": paths, **environment}
    return subprocess.run([sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.frontend("pytorch")
def test_the_tests_of_the_package_pass(installed, tmp_path):
    done = run(installed, tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(PACKAGE / "tests"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout


def test_it_is_found_by_its_entry_point_and_can_be_disabled(installed, tmp_path):
    enabled = run(installed, tmp_path, "-m", "costcore", "devices")
    disabled = run(installed, tmp_path, "-m", "costcore", "devices", COSTCORE_DISABLE_PLUGINS="acme_kernels")
    assert "acme-board" in enabled.stdout
    assert disabled.returncode == 0 and "acme-board" not in disabled.stdout


def test_the_page_shows_the_files():
    """Blocks of language py and toml on the page are parts of the files, word for word."""
    page = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    shown = [block["body"] for block in FENCE.finditer(page) if block["language"] in ("py", "toml")]
    files = [file.read_text(encoding="utf-8") for file in PACKAGE.rglob("*") if file.suffix in (".py", ".toml")]
    assert len(shown) >= 5
    for part in shown:
        assert any(part in text for text in files), part
