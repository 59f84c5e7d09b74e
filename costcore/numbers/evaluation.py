"""Exact values of symbolic expressions, with numbers for all symbols or some of them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache, reduce
from typing import Any

from costcore.numbers.dims import ceil_log2, gcd, is_symbolic, maximum, minimum

MOST_PARTS = 1 << 16
"""The number of parts of expressions whose values are kept."""

MOST_BITS = 1 << 17
"""Larger powers are not computed; no size of a network has as many bits."""


class Evaluation:
    """Computes expressions with numbers for their symbols. Equal parts of all expressions are computed once.

    Unlike ``subs`` of sympy, which takes seconds for a hundred symbols, it needs some microseconds for each part, and
    deep expressions need no recursion.

    Args:
        values: an integer, or another expression, by symbol; symbols without a value stay.
        default: the value of all other symbols, if given.
    """

    def __init__(self, values: Mapping[Any, Any], default: int | None = None) -> None:
        self._values = values
        self._default = default
        self._known: dict[Any, Any] = {}

    def __call__(self, expression: Any) -> Any:
        """Return the value: an int, or an expression if that is not an integer or contains a symbol without a value.

        Raises:
            ZeroDivisionError: if the values make a divisor zero.
            OverflowError: if a power has more than :data:`MOST_BITS` bits.
        """
        known = self._known
        if len(known) > MOST_PARTS:
            known.clear()
        stack = [expression]
        while stack:
            part = stack[-1]
            parts = _operands(part)
            missing = [each for each in parts if each not in known]
            if missing:
                stack += missing
                continue
            stack.pop()
            if part not in known:
                known[part] = self._leaf(part) if not parts else _applied(part, [known[each] for each in parts])
        return _expression(known[expression]) if isinstance(known[expression], Fraction) else known[expression]

    def _leaf(self, part: Any) -> Any:
        if part.is_Symbol:
            default = part if self._default is None else self._default
            return self._values.get(part, default)
        if part.is_Integer:
            return int(part)
        return Fraction(int(part.p), int(part.q)) if part.is_Rational else part


def _operands(part: Any) -> Sequence[Any]:
    """Return the parts of an expression that are computed before it."""
    bits = argument_of_log2(part)
    return part.args if bits is None else (bits,)


def argument_of_log2(part: Any) -> Any:
    """Return ``n`` of the smallest integer ``e`` with ``2**e >= n``, which is a quotient of logarithms; else None."""
    if type(part).__name__ != "ceiling" or not part.args[0].is_Mul or len(part.args[0].args) != 2:
        return None
    logarithms = [each for each in part.args[0].args if each != _one_over_log_of_two()]
    return logarithms[0].args[0] if len(logarithms) == 1 and type(logarithms[0]).__name__ == "log" else None


@cache
def _one_over_log_of_two() -> Any:
    from sympy import log

    return 1 / log(2)


def _applied(part: Any, values: list[Any]) -> Any:
    """Return the value of a function or operator, given those of its operands."""
    if not any(map(is_symbolic, values)):
        if argument_of_log2(part) is not None and isinstance(values[0], int):
            return ceil_log2(values[0])
        apply = _NUMERIC.get(type(part).__name__)
        found = None if apply is None else apply(values)
        if found is not None:
            return int(found) if isinstance(found, Fraction) and found.denominator == 1 else found
    elif argument_of_log2(part) is not None:
        return ceil_log2(values[0])
    combine = _SYMBOLIC.get(type(part).__name__)
    operands = list(map(_expression, values))
    return reduce(combine, operands) if combine is not None else part.func(*operands)


def _expression(value: Any) -> Any:
    """Return a number as sympy has it."""
    from sympy import Integer, Rational

    if isinstance(value, Fraction):
        return Rational(value.numerator, value.denominator)
    return value if is_symbolic(value) else Integer(value)


def _power(values: Sequence[Any]) -> Any:
    base, exponent = values
    if not isinstance(exponent, int):
        return None
    size = max(abs(base.numerator), base.denominator).bit_length()
    if size * abs(exponent) > MOST_BITS:
        raise OverflowError(f"a power of more than {MOST_BITS} bits")
    return Fraction(base) ** exponent if exponent < 0 else base**exponent


def _divisor(values: Sequence[Any]) -> Any:
    return gcd(*values) if all(isinstance(value, int) for value in values) else None


_NUMERIC: Mapping[str, Callable[[Sequence[Any]], Any]] = {
    "Add": sum,
    "Mul": math.prod,
    "Pow": _power,
    "floor": lambda values: math.floor(values[0]),
    "ceiling": lambda values: math.ceil(values[0]),
    "Mod": lambda values: operator.mod(*values),
    "Min": min,
    "Max": max,
    "Abs": lambda values: abs(values[0]),
    "gcd": _divisor,
}
"""What numbers come to, by the name of the sympy class; None if that is not a number."""

_SYMBOLIC: Mapping[str, Callable[[Any, Any], Any]] = {"Min": minimum, "Max": maximum}
"""Functions that are built faster than by sympy."""


def symbols_of(expressions: Iterable[Any]) -> set[Any]:
    """Return the symbols of expressions, whose equal parts are visited once. Numbers have none."""
    stack = [each for each in expressions if is_symbolic(each)]
    seen = set(stack)
    while stack:
        new = set(stack.pop().args) - seen
        seen |= new
        stack += new
    return {each for each in seen if each.is_Symbol}
