"""Output of formulas: fast functions of integers and arrays, LaTeX, and curves over one size."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from math import lcm, prod
from typing import Any

from costcore.errors import CostError, CostWarning, short_repr, unknown
from costcore.numbers import Dim, argument_of_log2, as_text, ceil_log2, gcd, is_symbolic, with_ceilings
from costcore.tables.pictures import Axis, Picture, Theme, draw
from costcore.tables.quantity import column_of, numeric
from costcore.text.output import Column, latex_text

# Fast functions of integers and of arrays of integers.


LARGEST = 2**63 - 1
"""The maximum of int64."""


class Formulas:
    """A function of sizes that returns the value of one formula, or a tuple for several.

    Sizes are positional, in the order of :attr:`symbols`, or keywords. Integers give exact integers. NumPy arrays give
    arrays, of int64 if every intermediate number fits, otherwise of Python integers.

    Args:
        formulas: integers or expressions.
        symbols: the names of the arguments.
        ranges: the smallest and largest checked values by name. A size outside of its range warns once.

    Attributes:
        symbols: the names of the arguments.
        source: the function as Python code.
        takes_arrays: whether it takes arrays; formulas with gcd or logarithms do not.

    Raises:
        CostError: if a formula has an unsupported function.
    """

    symbols: tuple[str, ...]
    source: str
    takes_arrays: bool

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
        scope = {"gcd": gcd, "ceil_log2": ceil_log2, "least": _min, "most": _max}
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
        for name, size in zip(self.symbols, sizes, strict=True):
            if type(size) is not int and getattr(getattr(size, "dtype", None), "kind", "") not in ("i", "u", "O"):
                raise TypeError(f"{name} needs an integer or an array of integers (got {short_repr(size)})")
        if not self.takes_arrays:
            raise TypeError("greatest common divisors and logarithms take no arrays; give one size at a time")
        smallest, largest = ([_extreme(size, which) for size in sizes] for which in ("min", "max"))
        self._check_limits(smallest, largest)
        # Use int64 if the bound of all intermediate numbers fits.
        bounds = self._bound(*map(abs, largest))
        kind = "int64" if max(bounds if isinstance(bounds, tuple) else (bounds,)) <= LARGEST else "object"
        return self._exact(*(size if type(size) is int else size.astype(kind) for size in sizes))


def _extreme(size: Any, which: str) -> int:
    return size if type(size) is int else int(getattr(size, which)()) if size.size else 1


def _min(a: Any, b: Any) -> Any:
    # No branches, so that it works on arrays.
    return (a + b - abs(a - b)) // 2


def _max(a: Any, b: Any) -> Any:
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


Quotient = tuple[str, int]
"""Code of an integer, and its positive denominator."""


class Code:
    """Generates Python code for formulas.

    Fractions get a common denominator, so that all numbers are integers.

    Args:
        names: the variable of every symbol.

    Attributes:
        has_functions: whether a generated formula has a function that only takes integers.
    """

    has_functions: bool

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names
        self.has_functions = False

    def integer(self, formula: Dim) -> str:
        """Return code for an integer formula.

        Raises:
            CostError: if the formula has an unsupported function.
        """
        numerator, denominator = self._quotient(formula)
        return numerator if denominator == 1 else f"({numerator}) // {denominator}"

    def bound(self, formula: Any) -> str:
        """Return code for an upper bound of all intermediate numbers of the formula, for sizes of at least 1."""
        if not is_symbolic(formula):
            return str(abs(formula))
        if formula.is_Rational:
            return str(abs(int(formula.p)) * int(formula.q))
        if formula.is_Symbol:
            return self.names[formula.name]
        if formula.is_Pow and formula.exp.is_Integer and formula.exp > 0:
            return f"({self.bound(formula.base)})**{formula.exp}"
        if argument_of_log2(formula) is not None or type(formula).__name__ == "gcd":
            return "0"  # these take no arrays
        bounds = [self.bound(each) for each in formula.args]
        if formula.is_Mul:
            return f"({'*'.join(bounds)})"
        common = lcm(*(self._quotient(each)[1] for each in formula.args))
        # _min and _max add both numbers and their distance.
        twice = 2 if type(formula).__name__ in ("Min", "Max") else 1
        return f"({' + '.join(bounds)})*{common * twice}"

    def _quotient(self, part: Any) -> Quotient:
        if not is_symbolic(part):
            return _number(part), 1
        if part.is_Rational:
            return _number(part.p), int(part.q)
        if part.is_Symbol:
            return self.names[part.name], 1
        if part.is_Pow and part.exp.is_Integer and part.exp > 0:
            numerator, denominator = self._quotient(part.base)
            return f"({numerator})**{part.exp}", denominator ** int(part.exp)
        if (argument := argument_of_log2(part)) is not None:
            return self._call("ceil_log2", [argument])
        quotients = [self._quotient(each) for each in part.args]
        if part.is_Mul:
            return "*".join(f"({code})" for code, _ in quotients), prod(number for _, number in quotients)
        common = lcm(*(number for _, number in quotients))
        scaled = [code if number == common else f"({code})*{common // number}" for code, number in quotients]
        return self._combined(part, scaled, common)

    def _combined(self, part: Any, codes: list[str], denominator: int) -> Quotient:
        kind = type(part).__name__
        if part.is_Add:
            return f"({' + '.join(codes)})", denominator
        if kind == "floor":
            return f"(({codes[0]}) // {denominator})", 1
        if kind == "ceiling":
            return f"(-(-({codes[0]}) // {denominator}))", 1
        if kind == "Mod":
            return f"(({codes[0]}) % ({codes[1]}))", denominator
        if kind in ("Min", "Max"):
            function = "least" if kind == "Min" else "most"
            return reduce(lambda a, b: f"{function}({a}, {b})", codes), denominator
        if kind == "gcd" and denominator == 1:
            return self._call("gcd", part.args)
        raise CostError(f"{as_text(part)} has no fast function; use subs")

    def _call(self, function: str, arguments: Any) -> Quotient:
        self.has_functions = True
        return f"{function}({', '.join(map(self.integer, arguments))})", 1


def _number(number: int) -> str:
    return f"({number})" if number < 0 else str(number)


# LaTeX.


def latex(name: str, formula: Dim) -> str:
    r"""Return an equation in LaTeX: ``\mathrm{macs} = 3072\,\mathrm{seq}^{2}``."""
    from sympy import latex as latex_of

    symbols = getattr(formula, "free_symbols", ())
    names = {
        symbol: symbol.name if symbol.name.isalpha() and len(symbol.name) == 1 else _upright(symbol.name)
        for symbol in symbols
    }
    text = latex_of(with_ceilings(formula), symbol_names=names, mul_symbol=r"\,")
    return f"{_upright(name)} = {text}"


def _upright(name: str) -> str:
    return rf"\mathrm{{{latex_text(name)}}}"


# Curves over one symbol.


MOST_SIZES = 1_000_000
"""The maximum number of sizes in a string such as ``1:1000:2``."""

POINTS = 64
"""The default maximum number of sizes of a curve."""

Curve = list[tuple[int, int]]
"""Pairs of a size and the value of the function."""


def curve(
    function: Callable[..., Any],
    symbols: Iterable[str],
    over: str,
    at: Mapping[str, int],
    sizes: Iterable[int],
) -> Curve:
    """Return the values of a function over one symbol.

    Args:
        function: takes every symbol as a keyword.
        symbols: the names of its symbols.
        over: the symbol that varies.
        at: the values of the other symbols.
        sizes: the values of ``over``.

    Raises:
        ValueError: if a name is unknown, a symbol has no value, or there are no symbols.
    """
    names = list(symbols)
    if not names:
        raise ValueError(
            f"no size has the name {over!r}, as all are integers: write names in their place, ('batch', 4)"
        )
    if unknown_names := {over, *at} - set(names):
        raise ValueError(unknown("symbol", sorted(unknown_names), names))
    if missing := [name for name in names if name != over and name not in at]:
        raise ValueError(f"no value for {', '.join(missing)} (at={{{missing[0]!r}: …}}, --at {missing[0]}=…)")
    return [(size, function(**{**at, over: size})) for size in sizes]


def sizes_between(low: int, high: int) -> list[int]:
    """Return at most :data:`POINTS` sizes from ``low`` to ``high``, evenly spaced on a log scale."""
    ratio = (high / max(low, 1)) ** (1 / (POINTS - 1))
    return sorted({low, high, *(round(max(low, 1) * ratio**i) for i in range(POINTS))})


def parse_sizes(text: str) -> list[int]:
    """Parse sizes: ``128:4096:128`` (a step), ``128:131072:log2`` (doublings) or ``128,512,1024``.

    Raises:
        ValueError: for another string, or for more than :data:`MOST_SIZES` sizes.
    """
    parts = text.split(":")
    if len(parts) == 1 and all(part.isdecimal() for part in text.split(",")):
        return [int(part) for part in text.split(",")]
    if len(parts) == 3 and parts[0].isdecimal() and parts[1].isdecimal() and 0 < int(parts[0]) <= int(parts[1]):
        low, high = int(parts[0]), int(parts[1])
        if parts[2] == "log2":
            return [low << i for i in range((high // low).bit_length())]
        if parts[2].isdecimal() and int(parts[2]):
            if (high - low) // int(parts[2]) >= MOST_SIZES:
                raise ValueError(f"{text!r} is more than {MOST_SIZES:,} sizes")
            return list(range(low, high + 1, int(parts[2])))
    raise ValueError(f"{text!r} is invalid (expected 128:4096:128, 128:131072:log2 or 128,512,1024)")


def drawn(
    report: Any, theme: Theme, column: str, over: str, at: Mapping[str, int], sizes: Sequence[int] | None
) -> Picture:
    """Return the curve of a total over a named size of a report; arguments as for ``Report.plot``.

    Raises:
        ValueError: if a name is unknown or has no value, or if sizes are needed.
    """
    limits = report.trace.run.ranges.get(over)
    if sizes is None and over in report.symbols and limits is None:
        raise ValueError(f"sizes are needed: nothing is known of the values of {over}")
    values = sizes_between(*limits) if sizes is None and limits else sizes or []
    return picture(curve(report.lambdify(column), report.symbols, over, at, values), column, over, theme)


def picture(found: Curve, column: str, over: str, theme: Theme) -> Picture:
    """Return a curve as a picture, with one row per size."""
    title = column_of(column)
    x, y = ([pair[i] for pair in found] for i in range(2))
    return Picture(
        (over, column), found, lambda: draw(Axis(Column(over, over), x), Axis(title, y), line=True, theme=theme)
    )
