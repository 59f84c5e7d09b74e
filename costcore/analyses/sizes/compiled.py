"""Formulas as fast functions of integers and of arrays of integers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from costcore.analyses.sizes.code import Code
from costcore.errors import CostWarning
from costcore.messages import short_repr
from costcore.numbers.dims import Dim, ceil_log2, gcd
from costcore.tables.quantities import numeric

LARGEST = 2**63 - 1
"""The largest number that an array of int64 holds."""


class Formulas:
    """A function of sizes that returns the values of one formula, or of several as a tuple.

    Sizes are positional, in the order of :attr:`symbols`, or keywords. Integers give exact integers. Arrays of NumPy
    give arrays: of int64 if every intermediate number fits, otherwise of Python integers.

    Args:
        formulas: integers or expressions.
        symbols: the names of the arguments.
        ranges: the smallest and the largest value of names at which the formulas were checked. The first size beyond
            warns.

    Attributes:
        symbols: the names of the arguments.
        source: the function as Python code.
        takes_arrays: whether it takes arrays, which greatest common divisors and logarithms do not.

    Raises:
        CostError: if a formula has a function that is not known.
    """

    def __init__(
        self, formulas: Sequence[Dim], symbols: Sequence[str], ranges: Mapping[str, tuple[int, int]] | None = None
    ) -> None:
        self.symbols = tuple(symbols)
        self._limits = [(ranges or {}).get(symbol, (0, None)) for symbol in symbols]
        self._has_warned = False
        code = Code({symbol: f"s{i}" for i, symbol in enumerate(symbols)})
        arguments = ", ".join(code.names.values())
        self.source = f"lambda {arguments}: {_tuple([code.integer(formula) for formula in formulas])}"
        bound = f"lambda {arguments}: {_tuple([code.bound(formula) for formula in formulas])}"
        scope = {"gcd": gcd, "ceil_log2": ceil_log2, "least": _least, "most": _most}
        self._exact: Callable[..., Any] = eval(self.source, scope)
        self._bound: Callable[..., Any] = eval(bound, scope)
        self.takes_arrays = not code.has_functions

    def __call__(self, *sizes: Any, **named: Any) -> Any:
        """Return the values.

        Raises:
            TypeError: if a size is missing, unknown, or neither an integer nor an array of integers.
        """
        if named:
            sizes = self._positional(sizes, named)
        if len(sizes) != len(self.symbols):
            raise TypeError(f"expected {len(self.symbols)} sizes, {', '.join(self.symbols)} (got {len(sizes)})")
        if all(type(size) is int for size in sizes):
            self._check_limits(sizes, sizes)
            return self._exact(*sizes)
        return self._of_arrays(sizes)

    def _check_limits(self, smallest: Sequence[int], largest: Sequence[int]) -> None:
        if self._has_warned:
            return
        for name, low, high, limits in zip(self.symbols, smallest, largest, self._limits, strict=True):
            if low < limits[0] or (limits[1] is not None and high > limits[1]):
                self._has_warned = True
                message = f"{name} is outside the sizes at which the formulas were checked, {limits[0]} to {limits[1]}"
                warnings.warn(message, CostWarning, stacklevel=4)

    def _positional(self, sizes: Sequence[Any], named: dict[str, Any]) -> tuple[Any, ...]:
        left = self.symbols[len(sizes) :]
        if unknown := named.keys() - set(left):
            raise TypeError(
                f"unknown or repeated size {', '.join(sorted(unknown))} (sizes are {', '.join(self.symbols)})"
            )
        if missing := [name for name in left if name not in named]:
            raise TypeError(f"no value for {', '.join(missing)}")
        return (*sizes, *(named[name] for name in left))

    def _of_arrays(self, sizes: Sequence[Any]) -> Any:
        """Return arrays: of int64 if the numbers for the largest sizes fit, otherwise of Python integers."""
        for name, size in zip(self.symbols, sizes, strict=True):
            if type(size) is not int and getattr(getattr(size, "dtype", None), "kind", "") not in ("i", "u", "O"):
                raise TypeError(f"{name} needs an integer or an array of integers (got {short_repr(size)})")
        if not self.takes_arrays:
            raise TypeError("greatest common divisors and logarithms take no arrays; give one size at a time")
        smallest, largest = ([_extreme(size, which) for size in sizes] for which in ("min", "max"))
        self._check_limits(smallest, largest)
        bounds = self._bound(*map(abs, largest))
        kind = "int64" if max(bounds if isinstance(bounds, tuple) else (bounds,)) <= LARGEST else "object"
        return self._exact(*(size if type(size) is int else size.astype(kind) for size in sizes))


def _extreme(size: Any, which: str) -> int:
    return size if type(size) is int else int(getattr(size, which)()) if size.size else 1


def _least(a: Any, b: Any) -> Any:
    """Return the smaller of two integers, or of the elements of arrays."""
    return (a + b - abs(a - b)) // 2


def _most(a: Any, b: Any) -> Any:
    return (a + b + abs(a - b)) // 2


def _tuple(values: Sequence[str]) -> str:
    return values[0] if len(values) == 1 else f"({', '.join(values)})"


def formulas_of(report: Any, columns: Sequence[str]) -> Formulas:
    """Return the totals of columns as a function of the sizes, see :meth:`costcore.Report.lambdify`.

    Raises:
        ValueError: if there is no column, or an unknown one.
        CostError: if a formula has no fast function.
    """
    if not columns:
        raise ValueError("lambdify needs a column, such as macs")
    totals = [numeric(column).total(report.ledger) for column in columns]
    return Formulas(totals, report.symbols, report.trace.run.ranges)
