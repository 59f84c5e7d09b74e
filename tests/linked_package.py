"""The installed package in another folder, by links, so that a test can add or leave out files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "costcore"


def link_package(target: Path, folders: Collection[str] = (), without: str = "") -> None:
    """Link the files of the package into ``target / "costcore"``.

    Args:
        target: the folder, from which Python then imports costcore.
        folders: folders of the package, such as ``cli``, that are real, so that files can be added.
        without: a folder or module that is left out, such as ``analyses/memory`` or ``studies/fit``.
    """
    real = {PACKAGE}.union(*({PACKAGE / each, *(PACKAGE / each).parents} for each in (*folders, Path(without).parent)))
    _link(PACKAGE, target / "costcore", real, {PACKAGE / without, PACKAGE / f"{without}.py"} if without else set())
    for room in ("calculators", "frontends"):
        (target / "costcore" / room).symlink_to(ROOT / room)


def _link(source: Path, target: Path, real: set[Path], without: set[Path]) -> None:
    target.mkdir()
    for entry in source.iterdir():
        if entry in real:
            _link(entry, target / entry.name, real, without)
        elif entry.name != "__pycache__" and entry not in without:
            (target / entry.name).symlink_to(entry)


def run_python(target: Path, *arguments: str) -> str:
    """Run Python in ``target`` with the package there, and return what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(target), "PYTHONDONTWRITEBYTECODE": "1"}
    run = subprocess.run([sys.executable, *arguments], cwd=target, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout
