"""The example package of docs/plugins.md: installed as a user would, its own tests pass; the page shows its files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest

from costcore import check, estimate, plugins, quantities
from tests.command_line import main
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
    assert "15 passed" in done.stdout


def test_it_is_found_by_its_entry_point_and_can_be_disabled(installed, tmp_path):
    enabled = run(installed, tmp_path, "-m", "costcore", "devices", "--format", "csv")
    disabled = run(
        installed, tmp_path, "-m", "costcore", "devices", "--format", "csv", COSTCORE_DISABLE_PLUGINS="acme_kernels"
    )
    assert "acme-board" in enabled.stdout
    assert disabled.returncode == 0 and "acme-board" not in disabled.stdout


@pytest.fixture
def array(monkeypatch):
    """The analysis of the package, registered for one test."""
    monkeypatch.syspath_prepend(str(PACKAGE))
    module = import_module("acme_kernels.systolic")
    plugins.register(module, "acme_array")
    yield module
    plugins.unregister(module)


@pytest.mark.frontend("pytorch")
def test_its_analysis_is_found_everywhere_from_one_file(array, tmp_path, capsys):
    import torch

    report = estimate(torch.nn.Linear(8, 50), (40, 8))
    cycles = 3 * 4 * (8 + 30)  # tiles of 16 x 16 outputs, with dot products of length 8 and 30 cycles to fill the array
    saved = str(tmp_path / "report.json")
    assert json.loads(report.to_json(saved))["analyses"] == {"array": {"cycles": cycles, "not_mapped": []}}
    assert report.table("run", columns=["array_cycles"]).to_csv() == f"array_cycles\n{cycles}\n"
    assert str(cycles) in report.to_html().partition("<section id='array'")[2]
    assert report.plot("array") == [("linear-1", cycles)]
    assert [each.value for each in check(report, {"total": {"array_cycles": cycles - 1}})] == [cycles]
    assert "array_cycles" in str(quantities()) and "array_energy@TABLE" in str(quantities())
    assert shown(capsys, "--help").count("costcore array MODEL") == 1
    assert str(cycles) in shown(capsys, "array", saved)
    assert str(cycles) in shown(capsys, saved, "--by", "run", "--columns", "array_cycles", "--unit", "none")
    assert shown(capsys, "plot", saved, "--kind", "array") == f"name,cycles\nlinear-1,{cycles}\n"


def shown(capsys, *argv):
    """What the command line prints."""
    with suppress(SystemExit):
        main(argv)
    return capsys.readouterr().out


def test_the_page_shows_the_files():
    """Blocks of language py and toml on the page are parts of the files, word for word."""
    page = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    shown = [block["body"] for block in FENCE.finditer(page) if block["language"] in ("py", "toml")]
    files = [file.read_text(encoding="utf-8") for file in PACKAGE.rglob("*") if file.suffix in (".py", ".toml")]
    assert len(shown) >= 5
    for part in shown:
        assert any(part in text for text in files), part
