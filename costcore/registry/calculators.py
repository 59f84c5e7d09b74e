"""The registered calculators by operator."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

from costcore.errors import CostError
from costcore.ir import Calculator
from costcore.messages import qualified_name
from costcore.plugins import cached, functions_from_plugins

PREFIX = "calc_"


def discover(module: ModuleType) -> dict[str, Calculator]:
    """Return the calculators in ``module``: functions ``calc_<op>``, for ``<op>`` or the operators they ``cover``.

    Raises:
        CostError: if an operator has two calculators.
    """
    table: dict[str, Calculator] = {}
    for name, function in vars(module).items():
        if name.startswith(PREFIX) and function.__module__ == module.__name__:
            add(table, dict.fromkeys(getattr(function, "ops", (name.removeprefix(PREFIX),)), function))
    return table


def add(table: dict[str, Calculator], new: Mapping[str, Calculator]) -> None:
    """Add the calculators in ``new`` to ``table``.

    Raises:
        CostError: if an operator already has a calculator; the message includes both.
    """
    for op, function in new.items():
        if op in table:
            raise CostError(
                f"operator {op!r} has two calculators, {qualified_name(table[op])} and {qualified_name(function)}. "
                "Remove one, or replace a built-in one for one run with add_custom_cost_calculator."
            )
        table[op] = function


@cached
def calculators() -> Mapping[str, Calculator]:
    """Return every registered calculator by operator, built-in ones and those of plug-ins.

    Raises:
        CostError: if an operator has two calculators, or a plug-in fails; the message includes its name.
    """
    table: dict[str, Calculator] = {}
    for plugin_calculators in functions_from_plugins("costcore_calculators"):
        add(table, plugin_calculators)
    return table
