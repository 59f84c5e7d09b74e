"""Exact arithmetic on dimensions, which are integers or symbolic (sympy) integer expressions."""

from __future__ import annotations

import math
import operator
from functools import cache
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
        if value.is_integer is not False:
            return value
        raise TypeError(f"{value} is not an integer expression")
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"expected an integer or an integer symbol (got {value!r}, {type(value).__name__})") from None


def minimum(a: Dim, b: Dim) -> Dim:
    """Return the smaller of two dimensions."""
    if is_symbolic(a) or is_symbolic(b):
        from sympy import Min

        return as_dim(Min(a, b))
    return min(a, b)


def maximum(a: Dim, b: Dim) -> Dim:
    """Return the larger of two dimensions."""
    if is_symbolic(a) or is_symbolic(b):
        from sympy import Max

        return as_dim(Max(a, b))
    return max(a, b)


def ceil_div(a: Dim, b: Dim) -> Dim:
    """Return ``a / b`` rounded up."""
    return -(-a // b)


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
