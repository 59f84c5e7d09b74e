"""Which calculator prices which operator."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

from costcore.errors import CostError
from costcore.ir import Calculator
from costcore.messages import place
from costcore.plugins import cached, mappings

PREFIX = "calc_"


def discover(module: ModuleType) -> dict[str, Calculator]:
    """The calculators that ``module`` defines: ``calc_<op>`` for ``<op>``, or the operators it ``covers``.

    Raises:
        CostError: where the module covers one operator twice.
    """
    found: dict[str, Calculator] = {}
    for name, function in vars(module).items():
        if name.startswith(PREFIX) and function.__module__ == module.__name__:
            add(found, dict.fromkeys(getattr(function, "ops", (name.removeprefix(PREFIX),)), function))
    return found


def add(table: dict[str, Calculator], more: Mapping[str, Calculator]) -> None:
    """Put the calculators of ``more`` into ``table``.

    Raises:
        CostError: where an operator has a calculator already; names both places.
    """
    for op, function in more.items():
        if op in table:
            raise CostError(
                f"operator {op!r} has two calculators, {place(table[op])} and {place(function)}; "
                "remove one, or replace a built-in for one run with add_custom_cost_calculator"
            )
        table[op] = function


@cached
def calculators() -> Mapping[str, Calculator]:
    """Every registered calculator by operator, built-in and from plug-ins.

    Raises:
        CostError: where two plug-ins offer a calculator of the same operator, or one fails; names it.
    """
    table: dict[str, Calculator] = {}
    for part in mappings("costcore_calculators"):
        add(table, part)
    return table
