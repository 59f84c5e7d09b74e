"""Three top-level folders in the repository, one package when installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import costcore

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
KINDS = ("LICENSE", "css", "html", "js", "json", "toml")
DATA = {installed_at(file) for kind in KINDS for file in (ROOT / "costcore").rglob(f"*.{kind}")}


def test_the_list_of_packages_is_the_tree():
    folders = {path.removesuffix("/__init__.py").replace("/", ".") for path in SOURCES if path.endswith("/__init__.py")}
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == folders


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
    for name in ("pyproject.toml", "README.md", "LICENSE"):
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
        from costcore.registry.frontends import specs
        from costcore.registry.calculators import calculators
        assert calculators() and len(specs()) == 3
        for module in (costcore, costcore.calculators, costcore.frontends):
            assert module.__file__.startswith({str(tmp_path)!r}), module
        for name in ("calculators", "frontends"):
            assert importlib.util.find_spec(name) is None, name
    """
    run = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("room", ["calculators", "frontends"])
def test_a_package_under_its_top_level_name_is_rejected(room):
    """A second copy of the calculators or of a frontend would hold different objects than the registered ones."""
    command = [sys.executable, "-c", f"import {room}"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert f"import costcore.{room}, not {room}" in run.stderr


def test_the_command_is_installed():
    module, _, function = PROJECT["project"]["scripts"]["costcore"].partition(":")
    run = subprocess.run(
        [sys.executable, "-c", f"from {module} import {function}; {function}(['--help'])"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "costcore" in run.stdout
