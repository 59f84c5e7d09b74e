"""The registered calculators by operator."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
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
            raise _two_calculators(op, table[op], function)
        table[op] = function


def _two_calculators(op: str, first: Calculator, second: Calculator) -> CostError:
    return CostError(
        f"operator {op!r} has two calculators, {qualified_name(first)} and {qualified_name(second)}. "
        "Remove one, or replace a built-in one for one run with add_custom_cost_calculator."
    )


class LazyCalculators(Mapping[str, Calculator]):
    """Calculators by operator, whose modules are imported when one of their operators is needed.

    Args:
        index: the module of each operator. It only saves time: an operator that it lacks is found too.
        load: imports a module of the index and returns its calculators.
        load_all: imports all modules and returns their calculators.
    """

    def __init__(
        self,
        index: Mapping[str, str],
        load: Callable[[str], Mapping[str, Calculator]],
        load_all: Callable[[], Mapping[str, Calculator]],
    ) -> None:
        self._index = index
        self._load = load
        self._load_all = load_all
        self._loaded: dict[str, Calculator] = {}
        self._is_complete = False

    def __getitem__(self, op: str) -> Calculator:
        if op not in self._loaded and op in self._index:
            self._loaded.update(self._load(self._index[op]))
        if op not in self._loaded and "::" not in op:  # a name of a framework is not one of ours
            self._complete()
        return self._loaded[op]

    def __iter__(self) -> Iterator[str]:
        self._complete()
        return iter(self._loaded)

    def __len__(self) -> int:
        self._complete()
        return len(self._loaded)

    def _complete(self) -> None:
        if not self._is_complete:
            self._loaded = {**self._load_all(), **self._loaded}  # those that were returned remain the same objects
            self._is_complete = True


class MergedCalculators(Mapping[str, Calculator]):
    """Several tables of calculators as one, in which the first table that has an operator decides."""

    def __init__(self, *tables: Mapping[str, Calculator]) -> None:
        self._tables = tables

    def __getitem__(self, op: str) -> Calculator:
        for table in self._tables:
            if (calculator := table.get(op)) is not None:
                return calculator
        raise KeyError(op)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(op for table in self._tables for op in table))

    def __len__(self) -> int:
        return len(set().union(*self._tables))


@cached
def calculators() -> Mapping[str, Calculator]:
    """Return every registered calculator by operator, built-in ones and those of plug-ins.

    Raises:
        CostError: if an operator has two calculators, or a plug-in fails; the message includes its name.
    """
    first, *others = functions_from_plugins("costcore_calculators", LazyCalculators)
    of_plugins: dict[str, Calculator] = {}
    for table in others:
        for op in table:
            if op in first:
                raise _two_calculators(op, first[op], table[op])
        add(of_plugins, table)
    return MergedCalculators(of_plugins, first) if of_plugins else first


def check_calculator(calculator: object) -> None:
    """Check that a calculator can be called with a layer as its only argument.

    Raises:
        TypeError: if it cannot.
    """
    if not callable(calculator):
        raise TypeError(f"a calculator must be callable as calculator(layer) (got {calculator!r})")
    try:
        inspect.signature(calculator).bind("layer")
    except TypeError as error:
        raise TypeError(
            f"{qualified_name(calculator)} cannot be called as calculator(layer): {error} (expected one "
            "argument, the layer, or for Chainer functions calculator(function, inputs, **options))"
        ) from error
    except ValueError:
        return  # a built-in without a signature, which cannot be checked before its first call
