"""Which calculator prices which operator."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import Any

from costcore.errors import CostError
from costcore.ir import Calculator
from costcore.plugins import mappings

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


def place(function: Any) -> str:
    """Where a calculator is defined: module and name."""
    return f"{function.__module__}.{getattr(function, '__qualname__', type(function).__qualname__)}"


@cache
def calculators() -> Mapping[str, Calculator]:
    """Every registered calculator by operator, built-in and from plug-ins.

    Raises:
        CostError: where two plug-ins offer a calculator of the same operator, or one fails; names it.
    """
    table: dict[str, Calculator] = {}
    for part in mappings("costcore_calculators"):
        add(table, part)
    return table
