"""Three top-level folders in the repository, one package when installed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

import costcore
from tools.release_notes import release_notes

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
ROOMS = ("costcore", "calculators", "frontends")


def installed_at(file: Path) -> str:
    """Return the path of a file of the repository after installation."""
    path = file.relative_to(ROOT).as_posix()
    return path if path.startswith("costcore/") else f"costcore/{path}"


SOURCES = {installed_at(file) for room in ROOMS for file in (ROOT / room).rglob("*.py")}
KINDS = ("LICENSE", "css", "html", "js", "json", "toml", "csv", "txt")
DATA = {installed_at(file) for kind in KINDS for room in ROOMS for file in (ROOT / room).rglob(f"*.{kind}")}


def test_every_folder_with_modules_is_a_package():
    assert {path.rpartition("/")[0] + "/__init__.py" for path in SOURCES} <= SOURCES


def test_one_version():
    assert PROJECT["project"]["version"] == costcore.__version__


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel without network access, from a copy, so that the repository is not changed."""
    copy, built = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("wheel")
    for room in ROOMS:
        shutil.copytree(ROOT / room, copy / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    command = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index"]
    run = subprocess.run([*command, "-w", built, copy], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    (file,) = built.iterdir()
    return file


def test_the_wheel_contains_all_packages_and_nothing_outside_costcore(wheel):
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == SOURCES | DATA | {"costcore/py.typed"}


def test_the_wheel_runs_without_the_repository(wheel, tmp_path):
    """The wheel is unpacked, and imported from another folder."""
    zipfile.ZipFile(wheel).extractall(tmp_path)
    program = f"""if True:
        import sys; sys.path.insert(0, {str(tmp_path)!r})
        import costcore, costcore.calculators, costcore.frontends, importlib.util
        from costcore.registry import specs
        from costcore.registry import calculators
        assert calculators() and len(specs()) == 7
        for module in (costcore, costcore.calculators, costcore.frontends):
            assert module.__file__.startswith({str(tmp_path)!r}), module
        for name in ("calculators", "frontends"):
            assert importlib.util.find_spec(name) is None, name
    """
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("room", ["calculators", "frontends"])
def test_a_package_under_its_top_level_name_is_rejected(room):
    """A second copy of the calculators or of a frontend would hold different objects than the registered ones."""
    command = [sys.executable, "-c", f"import {room}"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert f"import costcore.{room}, not {room}" in run.stderr


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """A fresh environment into which pip installed the wheel, without the checkout and without the network.

    Dependencies are found in the environment of the tests, whose own costcore comes later in the path.
    """
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    program = folder / ("Scripts" if os.name == "nt" else "bin")
    command = [sys.executable, "-m", "pip", f"--python={program / 'python'}", "install", "--no-deps", "--no-index"]
    run = subprocess.run([*command, "--quiet", wheel], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    site = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    dependencies = {Path(importlib.util.find_spec(name).origin).parents[1] for name in ("pluggy", "tqdm")}
    (Path(site) / "zz_dependencies.pth").write_text("\n".join(map(str, dependencies)), encoding="utf-8")
    return program


def run_outside(environment, folder, program, *arguments):
    """Run a program of the environment in ``folder``, without the variables that lead to the checkout."""
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    command = [environment / program, *arguments]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)


@pytest.mark.frontend("pytorch")
def test_the_wheel_counts_a_model_in_a_fresh_environment(environment, tmp_path):
    """3 · 8 products; the report is saved, and the installed command reads it."""
    program = f"""if True:
        import costcore, torch
        assert costcore.__file__.startswith({str(environment.parent)!r}), costcore.__file__
        report = costcore.estimate(torch.nn.Linear(8, 3), (1, 8))
        assert report.total_report["macs"] == 24
        report.to_json("report.json")
        report.to_html("report.html")
    """
    run = run_outside(environment, tmp_path, "python", "-c", program)
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "report.html").stat().st_size > 10_000
    arguments = ("report.json", "--summary", "--format", "csv", "--columns", "type,macs", "--unit", "none")
    run = run_outside(environment, tmp_path, "costcore", *arguments)
    assert run.stdout == "Layer type,MACs\nlinear,24\ntotal,24\n", run.stderr


def test_type_checkers_see_the_types_of_the_installed_package(environment, tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "user.py").write_text("import costcore\n\nreveal_type(costcore.estimate(1))\ncostcore.estimate()\n")
    python = f"--python-executable={environment / 'python'}"
    command = [sys.executable, "-m", "mypy", python, "--follow-imports=silent", "--cache-dir=cache", "user.py"]
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")}
    run = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert 'Revealed type is "costcore.reports.report.Report"' in run.stdout, run.stdout + run.stderr
    assert 'variants of "estimate" require at least one argument' in run.stdout, run.stdout


def test_all_has_the_extras_that_a_plain_pip_can_install():
    extras = PROJECT["project"]["optional-dependencies"]
    assert extras["all"] == ["costcore[color,onnx,parallel,torch]"]
    assert {"color", "onnx", "parallel", "torch"} <= extras.keys()


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()  # required by version 1.2.0 of the format
    assert citation["cff-version"] == "1.2.0" and citation["authors"] and citation["license"] == "MIT"
    assert citation["version"] == costcore.__version__


def test_release_notes_are_the_section_of_the_version():
    changelog = "# Changelog\n\n## 1.1\n\n* One\n  line.\n* Two.\n\n## 1.0 (first)\n\nOld.\n"
    assert release_notes(changelog, "1.1") == "* One line.\n* Two.\n"
    assert release_notes(changelog, "1.0") == "Old.\n"
    with pytest.raises(ValueError, match=r"no section 2 \(expected one of 1.1, 1.0\)"):
        release_notes(changelog, "2")
    assert release_notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), costcore.__version__).startswith(
        "The first version."
    )


def test_the_command_is_installed():
    module, _, function = PROJECT["project"]["scripts"]["costcore"].partition(":")
    run = subprocess.run(
        [sys.executable, "-c", f"from {module} import {function}; {function}()", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "costcore" in run.stdout
