"""Wheels and source distributions of costcore and its plug-ins: built without the network, installed as users do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECTS = {"costcore": ROOT, **{folder.name: folder for folder in sorted((ROOT / "plugins").iterdir())}}
"""The projects that are released, by name."""

NEED_3_11 = ("costcore-jax", "costcore-stablehlo")
"""Those that need Python 3.11, as JAX does."""

EXAMPLE = ROOT / "examples" / "plugin"
LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "*.egg-info", "plugins", "tests", "docs")
BUILD = "import sys; from setuptools import build_meta; build_meta.build_{kind}(sys.argv[1])"


def run(*command: object, folder: Path = ROOT) -> str:
    """Run a program without the variables that lead to the checkout; return what it printed."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run([*map(str, command)], cwd=folder, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def built(kind: str, source: Path, target: Path) -> Path:
    """Build a ``wheel`` or an ``sdist`` of a folder, which is not changed."""
    copy = target / "copy"
    shutil.copytree(source, copy, ignore=LEFT_OUT)
    run(sys.executable, "-c", BUILD.format(kind=kind), target, folder=copy)
    (file,) = target.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return file


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """The wheel of every project, by name."""
    return {name: built("wheel", source, tmp_path_factory.mktemp(name)) for name, source in PROJECTS.items()}


def contents(wheel: Path) -> dict[str, bytes]:
    """The files of a wheel, without the list of their hashes."""
    archive = zipfile.ZipFile(wheel)
    return {name: archive.read(name) for name in archive.namelist() if not name.endswith("RECORD")}


@pytest.mark.parametrize("name", PROJECTS)
def test_a_source_distribution_builds_the_same_wheel(wheels, name, tmp_path):
    archive = built("sdist", PROJECTS[name], tmp_path)
    (tmp_path / "unpacked").mkdir()
    with tarfile.open(archive) as file:
        file.extractall(tmp_path / "unpacked", filter="data")
    (source,) = (tmp_path / "unpacked").iterdir()
    (tmp_path / "again").mkdir()
    assert contents(built("wheel", source, tmp_path / "again")) == contents(wheels[name])


@pytest.mark.parametrize("name", PROJECTS)
def test_a_wheel_has_its_license_and_its_types(wheels, name):
    files = contents(wheels[name])
    assert any(path.endswith("licenses/LICENSE") for path in files)
    assert f"{name.replace('-', '_')}/py.typed" in files


@pytest.mark.parametrize("name", PROJECTS)
def test_a_wheel_has_every_module(wheels, name):
    rooms = ("costcore", "calculators", "frontends") if name == "costcore" else (name.replace("-", "_"),)
    modules = {path.relative_to(PROJECTS[name]) for room in rooms for path in (PROJECTS[name] / room).rglob("*.py")}
    nested = {path.as_posix() if path.parts[0] == rooms[0] else f"costcore/{path.as_posix()}" for path in modules}
    assert {path for path in contents(wheels[name]) if path.endswith(".py")} == nested


@pytest.mark.parametrize("name", PROJECTS)
def test_versions_are_those_of_costcore(wheels, name):
    """One tag releases all of them."""
    assert wheels[name].name.split("-")[1] == wheels["costcore"].name.split("-")[1]


def test_a_fresh_environment_finds_the_plug_ins(wheels, tmp_path):
    """Dependencies come from the environment of the tests. The frameworks of the plug-ins are not imported."""
    (tmp_path / "example").mkdir()
    example = built("wheel", EXAMPLE, tmp_path / "example")
    folder = tmp_path / "environment"
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    install = (sys.executable, "-m", "pip", f"--python={python}", "install", "--no-deps", "--no-index", "--quiet")
    fitting = [wheels[name] for name in wheels if name not in NEED_3_11 or sys.version_info >= (3, 11)]
    run(*install, *fitting, example)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    dependencies = {str(Path(find_spec(name).origin).parents[1]) for name in ("pluggy", "tqdm")}
    (site / "zz_dependencies.pth").write_text("\n".join(dependencies), encoding="utf-8")
    names = "import costcore, costcore.registry as f; print(costcore.__file__, *f.specs())"
    file, *frontends = run(python, "-c", names, folder=tmp_path).split()
    assert Path(file).is_relative_to(folder)
    assert ("jax" in frontends) == (sys.version_info >= (3, 11))
    assert {"chainer", "coreml", "onnx", "openvino", "pytorch", "tflite"} <= set(frontends)
    assert "acme-board" in run(python, "-m", "costcore", "devices", "--format", "csv", folder=tmp_path)
