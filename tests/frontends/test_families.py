"""Every row is in the file or folder of its operator's family, which is that of the calculator."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages

import pytest

from costcore.calculators import operator_families
from costcore.registry.frontends import load
from costcore.translate import Row
from tests.frameworks import available

FAMILY_OF = operator_families()
FOLDERS = ("contrib",)
"""Folders of rows/ that divide their rows by family again."""


def rows_by_module(frontend: str) -> Iterator[tuple[str, Row]]:
    """Iterate over the rows of a frontend and the module of ``rows/`` that defines them, ``elementwise.gradients``."""
    load(frontend)
    package = import_module(f"costcore.frontends.{frontend}.rows")
    for found in walk_packages(package.__path__, f"{package.__name__}."):
        name = found.name.removeprefix(f"{package.__name__}.")
        if name.rpartition(".")[2] != "table":
            yield from ((name, row) for row in getattr(import_module(found.name), "ROWS", ()))


@pytest.mark.parametrize("frontend", [name for name in ("pytorch", "chainer", "onnx") if name in available()])
def test_rows_are_in_the_file_of_their_family(frontend):
    """A row that returns operators of several families is in the file of one of them."""
    misplaced = []
    for module, row in rows_by_module(frontend):
        families = {FAMILY_OF[op] for op in (row.ops or (row.op,))}
        if next(part for part in module.split(".") if part not in FOLDERS) not in families:
            misplaced.append(f"{module}: the row of {row.native} belongs to {', '.join(sorted(families))}")
    assert misplaced == []


@pytest.mark.frontend("chainer")
def test_every_row_of_chainer_is_in_a_file_of_a_family():
    found = {id(row) for _, row in rows_by_module("chainer")}
    assert found == {id(row) for row in load("chainer").ROWS}
