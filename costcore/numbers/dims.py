"""Exact arithmetic on dimensions, which are integers or symbolic (sympy) integer expressions."""

from __future__ import annotations

import math
import operator
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from sympy import Expr

    Dim: TypeAlias = "int | Expr"
else:
    Dim = Any


def is_symbolic(value: object) -> bool:
    """Return True if ``value`` is a symbolic expression. This does not import sympy."""
    return hasattr(type(value), "free_symbols")  # on the object itself, the property would be computed


def as_dim(value: Any) -> Dim:
    """Return ``value`` as a Python int, or unchanged if it is a symbolic expression that can be an integer.

    Raises:
        TypeError: if it is neither, such as a float, a string, or an expression that is never an integer.
    """
    if type(value) is int:
        return value
    if is_symbolic(value):
        if value.is_Integer:
            return int(value)
        if is_integral(value) or value.is_integer is not False:
            return value
        raise TypeError(f"{value} is not an integer expression")
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"expected an integer or an integer symbol (got {value!r}, {type(value).__name__})") from None


@lru_cache(maxsize=1 << 14)
def is_integral(value: Any) -> bool:
    """Return True if the form of an expression makes it an integer; sympy reasons about signs too, which is slow."""
    if value.is_Symbol or value.is_Integer:
        return bool(value.is_integer)
    if value.is_Pow:
        return bool(value.exp.is_Integer and value.exp >= 0 and is_integral(value.base))
    if value.is_Add or value.is_Mul or type(value).__name__ in ("Min", "Max"):
        return all(map(is_integral, value.args))
    return type(value).__name__ in ("floor", "ceiling", "gcd")


MOST_DIGITS = 4000
"""The maximum number of digits of a number that users write; Python refuses to convert more than 4,300."""


def whole_number(digits: str) -> int:
    """Return the number that decimal digits stand for.

    Raises:
        ValueError: if there are more than :data:`MOST_DIGITS`.
    """
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits is too large (expected at most {MOST_DIGITS})")
    return int(digits)


def minimum(a: Dim, b: Dim) -> Dim:
    """Return the smaller of two dimensions."""
    if is_symbolic(a) or is_symbolic(b):
        from sympy import Min

        return _extreme(Min, a, b)
    return min(a, b)


def maximum(a: Dim, b: Dim) -> Dim:
    """Return the larger of two dimensions."""
    if is_symbolic(a) or is_symbolic(b):
        from sympy import Max

        return _extreme(Max, a, b)
    return max(a, b)


MOST_COMPARED = 6
"""The maximum number of expressions that sympy compares pair by pair, to leave out those that are never the extreme."""


@lru_cache(maxsize=1 << 12)
def _extreme(function: Any, a: Any, b: Any) -> Dim:
    """Return ``Min`` or ``Max`` of two dimensions, each of which may be such an extreme of several."""
    among = {part for each in (a, b) for part in (each.args if isinstance(each, function) else (each,))}
    return as_dim(function(*among) if len(among) <= MOST_COMPARED else function(*among, evaluate=False))


def floor_div(a: Dim, b: Dim) -> Dim:
    """Return ``a // b``.

    A chain of divisions by integers is one division: ``(n // 2 + 1) // 2`` is ``(n + 2) // 4``.
    """
    if is_symbolic(a) and isinstance(b, int) and b > 0 and is_integral(a):
        return _floor_of_integral(a, b)
    return _floor(a, b) if is_symbolic(a) or is_symbolic(b) else a // b


@lru_cache(maxsize=1 << 12)
def _floor(a: Any, b: Any) -> Dim:
    return a // b


@lru_cache(maxsize=1 << 12)
def _floor_of_integral(a: Any, b: int) -> Dim:
    """Return ``a // b`` for an expression that is an integer by its form: multiples of ``b``, and the floor of others.

    That is the form which sympy finds too, term by term and much later.
    """
    from sympy import Add, Rational, floor

    inner: Any = next((term for term in Add.make_args(a) if isinstance(term, floor)), None)
    if inner is not None:
        a = a - inner + inner.args[0]
    whole: list[Any] = []
    rest: list[Any] = []
    for term in Add.make_args(a):
        divided = term * Rational(1, b)
        factor, product = divided.as_coeff_Mul()
        (whole if factor.is_Integer and is_integral(product) else rest).append(divided)
    fraction = Add(*rest)
    return as_dim(Add(*whole, floor(fraction, evaluate=fraction.is_number)))


def ceil_div(a: Dim, b: Dim) -> Dim:
    """Return ``a / b`` rounded up."""
    return -floor_div(-a, b)


def gcd(a: Dim, b: Dim) -> Dim:
    """Return the greatest common divisor of two dimensions."""
    if is_symbolic(a) or is_symbolic(b):
        return _symbolic_gcd()(a, b)
    return math.gcd(a, b)


@cache
def _symbolic_gcd() -> Any:
    """Return ``gcd`` as a sympy function; the one of sympy treats symbols as coprime polynomials."""
    from sympy import Function

    class gcd(Function):  # type: ignore[misc]  # noqa: N801 - the name is what formulas print
        is_integer = True
        is_positive = True

        @classmethod
        def eval(cls, a: Any, b: Any) -> Any:
            if a.is_Integer and b.is_Integer:
                return math.gcd(int(a), int(b))
            return a if a == b else None

    return gcd


def ceil_log2(n: Dim) -> Dim:
    """Return the smallest integer ``e`` with ``2**e >= n``; 0 if ``n`` is 0 or 1."""
    if is_symbolic(n):
        from sympy import ceiling, log

        return ceiling(log(n, 2))
    return max(n - 1, 0).bit_length()
