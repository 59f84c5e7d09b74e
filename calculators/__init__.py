"""The cost formulas: one folder or file per operator family, one ``calc_<op>`` per operator or group of operators."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import walk_packages

if __name__ != "costcore.calculators":
    raise ImportError("import costcore.calculators, not calculators")

from costcore.ir import Calculator
from costcore.plugins import hookimpl
from costcore.registry.calculators import LazyCalculators, add, discover

from .complex_numbers import for_complex_numbers
from .families import family_of
from .index import MODULES


@hookimpl
def costcore_calculators() -> Mapping[str, Calculator]:
    """Return every calculator of this package by operator; they are imported when they are needed."""
    return LazyCalculators(MODULES, _of_module, _of_all_modules)


def _of_module(name: str) -> dict[str, Calculator]:
    """Return the calculators of a module by operator."""
    table = discover(import_module(name, __name__))
    return {op: for_complex_numbers(function) for op, function in table.items()}


def _of_all_modules() -> dict[str, Calculator]:
    """Return the calculators of all modules by operator.

    Raises:
        CostError: if an operator has two calculators.
    """
    table: dict[str, Calculator] = {}
    for name in sorted(module.name for module in walk_packages(__path__, f"{__name__}.")):
        add(table, _of_module(name))
    return table


def operator_families() -> dict[str, str]:
    """Return the family of every operator of this package, such as ``{"conv": "conv", "relu": "activation", …}``.

    The family is the file or folder that defines the operator's calculator. Mapping rules and shape rules are held to
    it by tests.
    """
    return {op: family for op, function in costcore_calculators().items() if (family := family_of(function))}
