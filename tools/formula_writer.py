"""Closed formulas as plain text, their factors and terms in a fixed order."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from math import gcd, prod
from typing import Any

import sympy


class FormulaWriter:
    """A writer of expressions over given symbols.

    Args:
        symbols: symbol names in the order of writing; others follow alphabetically.
    """

    def __init__(self, symbols: list[str]) -> None:
        self._order = {name: i for i, name in enumerate(symbols)}

    def factored(self, value: Any) -> str:
        """Return `value` as text, with common factors of all terms before a bracket."""
        expression = sympy.expand(_with_ceilings(value))
        terms = [term.as_coeff_Mul() for term in sympy.Add.make_args(expression)]
        if len(terms) == 1:
            return self(expression)
        powers = [factors.as_powers_dict() for _, factors in terms]
        shared = {base: min(p.get(base, 0) for p in powers) for base in powers[0]}
        number = reduce(gcd, (int(c) for c, _ in terms)) if all(c.is_Integer for c, _ in terms) else 1
        common = number * prod((base**power for base, power in shared.items() if power > 0), start=sympy.Integer(1))
        if common == 1:
            return self(expression)
        return f"{self(common)}·({self(sympy.expand(expression / common))})"

    def __call__(self, value: Any) -> str:
        """Return `value` as text, a sum of products."""
        expression = _with_ceilings(value)
        terms = sorted(sympy.Add.make_args(expression), key=self._key)
        text = " + ".join(self._product(term) for term in terms)
        return text.replace("+ -", "- ")

    def _product(self, term: Any) -> str:
        number, factors = term.as_coeff_Mul()
        above: list[str] = []
        below: list[str] = []
        if number.q != 1:
            below.append(str(number.q))
        for base, power in sorted(factors.as_powers_dict().items(), key=lambda item: self._key(item[0])):
            if base != 1:
                text = self._atom(base) + (f"^{abs(power)}" if abs(power) != 1 else "")
                (below if power.is_negative else above).append(text)
        if abs(number.p) != 1 or not above:
            above.insert(0, str(abs(number.p)))
        return ("-" if number.p < 0 else "") + "·".join(above) + "".join(f"/{text}" for text in below)

    def _atom(self, base: Any) -> str:
        if base.is_Symbol:
            return str(base.name)
        if isinstance(base, sympy.ceiling) and base.args[0].has(sympy.log):
            (argument,) = (log.args[0] for log in base.args[0].atoms(sympy.log) if not log.args[0].is_number)
            return f"ceil(log2({self(argument)}))"
        if base.is_Function or isinstance(base, (sympy.Min, sympy.Max)):
            arguments = sorted(base.args, key=self._key)
            return f"{type(base).__name__.lower().replace('ceiling', 'ceil')}({', '.join(map(self, arguments))})"
        return f"({self(base)})" if base.is_Add else str(base)

    def _key(self, expression: Any) -> tuple[Any, ...]:
        """Return the sort key: terms with more factors first, then in the order of the symbols."""
        return -_degree(expression), tuple(self._names(expression)), str(expression)

    def _names(self, expression: Any) -> Iterator[tuple[int, str]]:
        yield from sorted((self._order.get(s.name, len(self._order)), s.name) for s in expression.free_symbols)


def _with_ceilings(value: Any) -> Any:
    """Return `value` as an expression, with `ceil(a)` for `-floor(-a)`."""
    expression = sympy.sympify(value)
    return expression.replace(
        lambda e: isinstance(e, sympy.floor) and e.args[0].could_extract_minus_sign(),
        lambda e: -sympy.ceiling(-e.args[0]),
    )


def _degree(expression: Any) -> int:
    return sum(max(int(power), 0) for base, power in expression.as_powers_dict().items() if not base.is_number)
