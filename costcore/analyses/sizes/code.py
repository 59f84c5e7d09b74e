"""Formulas as Python code on integers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from math import lcm, prod
from typing import Any

from costcore.errors import CostError
from costcore.numbers.dims import Dim, is_symbolic
from costcore.numbers.evaluation import argument_of_log2
from costcore.numbers.symbolic import as_text

Quotient = tuple[str, int]
"""Code of an integer, and the positive number that it is divided by."""


class Code:
    """Writes formulas as Python code.

    Fractions are written over a common denominator, so that all numbers are integers.

    Args:
        names: the variable of every symbol.

    Attributes:
        has_functions: whether a formula that was written has a function that takes integers only.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names
        self.has_functions = False

    def integer(self, formula: Dim) -> str:
        """Return code for the value of a formula, which is an integer.

        Raises:
            CostError: if the formula has a function that is not known.
        """
        numerator, denominator = self._quotient(formula)
        return numerator if denominator == 1 else f"({numerator}) // {denominator}"

    def bound(self, formula: Dim) -> str:
        """Return code for a number that no number in the code of the formula exceeds, for sizes of at least 1."""
        return self._bound(formula)

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

    def _bound(self, part: Any) -> str:
        if not is_symbolic(part):
            return str(abs(part))
        if part.is_Rational:
            return str(abs(int(part.p)) * int(part.q))
        if part.is_Symbol:
            return self.names[part.name]
        if part.is_Pow and part.exp.is_Integer and part.exp > 0:
            return f"({self._bound(part.base)})**{part.exp}"
        if argument_of_log2(part) is not None or type(part).__name__ == "gcd":
            return "0"  # these take no arrays
        bounds = [self._bound(each) for each in part.args]
        if part.is_Mul:
            return f"({'*'.join(bounds)})"
        common = lcm(*(self._quotient(each)[1] for each in part.args))
        twice = 2 if type(part).__name__ in ("Min", "Max") else 1  # they add both numbers and their distance
        return f"({' + '.join(bounds)})*{common * twice}"


def _number(number: int) -> str:
    return f"({number})" if number < 0 else str(number)
