"""The formulas: one module a family, one ``calc_<op>`` an operator (or a family of like ones)."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

if __name__ != "costcore.calculators":
    raise ImportError("import costcore.calculators, not calculators")

from costcore.ir import Calculator
from costcore.plugins import hookimpl
from costcore.registry.calculators import add, discover


@hookimpl
def costcore_calculators() -> dict[str, Calculator]:
    """Every calculator of this room, by operator."""
    table: dict[str, Calculator] = {}
    for module in sorted(iter_modules(__path__), key=lambda found: found.name):
        add(table, discover(import_module(f"{__name__}.{module.name}")))
    return table
