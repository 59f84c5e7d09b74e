"""Every row lies in the file of its operator's family: the file or folder of the operator's calculator."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules, walk_packages

import pytest

from costcore.frontends.pytorch import ROWS, rows
from costcore.registry.calculators import calculators

NOT_FAMILIES = {"arguments", "table"}
FAMILIES = sorted({module.name for module in iter_modules(rows.__path__)} - NOT_FAMILIES)


def ops(row):
    return (row.op,) if isinstance(row.op, str) else row.ops


def family_of(op):
    return calculators()[op].__module__.removeprefix("costcore.calculators.").partition(".")[0]


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_lie_in_the_file_of_their_family(family):
    found = import_module(f"{rows.__name__}.{family}").ROWS
    misplaced = {row.native: ops(row) for row in found if family not in {family_of(op) for op in ops(row)}}
    assert misplaced == {}


def test_the_table_holds_the_rows_of_every_file():
    names = {module.name for module in walk_packages(rows.__path__, f"{rows.__name__}.") if not module.ispkg}
    modules = [import_module(name) for name in names if name.rpartition(".")[2] not in NOT_FAMILIES]
    assert sorted(map(id, ROWS)) == sorted(id(row) for module in modules for row in module.ROWS)
