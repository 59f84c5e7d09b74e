"""Symbolic integer expressions: expansion, comparison, magnitude, and how they are printed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Any

from costcore.dims import Dim, as_dim, is_symbolic


def added(amounts: Iterable[Dim]) -> Dim:
    """The sum of many integers and expressions, multiplied out; equal ones are counted, and all are added at once."""
    number = 0
    times: dict[Any, int] = {}
    for amount in amounts:
        if is_symbolic(amount):
            times[amount] = times.get(amount, 0) + 1
        else:
            number += amount
    if not times:
        return number
    from sympy import Add

    return as_dim(Add(number, *[expanded(amount) * count for amount, count in times.items()]))


MOST_TERMS = 64
"""Formulas that have more terms once they are multiplied out stay as they are."""


@lru_cache(maxsize=1 << 12)
def expanded(dim: Any) -> Any:
    """A formula as a sum of products, so that equal ones look equal; as it is where that takes too many terms."""
    return _multiplied_out(dim) if is_symbolic(dim) and 1 < _width(dim) <= MOST_TERMS else dim


def _width(dim: Any) -> int:
    """The most terms that a formula has once it is multiplied out."""
    if dim.is_Add or dim.is_Mul:
        widths = map(_width, dim.args)
        return sum(widths) if dim.is_Add else math.prod(widths)
    if dim.is_Pow and dim.exp.is_Integer and dim.exp > 1:
        return int(min(_width(dim.base) ** min(int(dim.exp), MOST_TERMS), MOST_TERMS + 1))
    return 1


def _multiplied_out(dim: Any) -> Any:
    if dim.is_Add or dim.is_Mul:
        return dim.func(*map(_multiplied_out, dim.args)).expand(deep=False, mul=True, **_NOTHING_ELSE)
    if dim.is_Pow and dim.exp.is_Integer and dim.exp > 1:
        return dim.func(_multiplied_out(dim.base), dim.exp).expand(deep=False, multinomial=True, **_NOTHING_ELSE)
    return dim


_NOTHING_ELSE = dict.fromkeys(("power_base", "power_exp", "log", "basic"), False)
"""What expanding a formula shall not do: take apart powers, logarithms and functions."""


def quotient(a: Dim, b: Dim) -> Dim:
    """``a // b``; where the factors of ``b`` cancel, without asking what is known of the rest, which can take long."""
    if is_symbolic(a) or is_symbolic(b):
        from sympy import fraction

        exact = a / b
        if fraction(exact)[1] == 1:
            return as_dim(exact)
    return a // b


def differ(a: Dim, b: Dim) -> bool:
    """Whether two dimensions are different formulas, also when multiplied out."""
    if a == b:
        return False
    if is_symbolic(a) or is_symbolic(b):
        from sympy import expand

        return bool(expand(a - b) != 0)
    return True


def only_length(a: Dim, b: Dim) -> tuple[Dim, int] | None:
    """The symbol and its value for which alone two different formulas are equal; None where there are others."""
    from sympy import Poly, cancel, fraction, sympify

    a, b = sympify(a), sympify(b)
    if b == 0 or max(_width(a), _width(b)) > MOST_TERMS:
        return None
    over, under = fraction(cancel(a / b))
    left = over - under
    if len(left.free_symbols) != 1 or not left.is_polynomial():
        return None
    (symbol,) = left.free_symbols
    found = [int(root) for root in Poly(left, symbol).ground_roots() if root.is_Integer and root > 0]
    return (symbol, found[0]) if len(found) == 1 else None


def is_negative(dim: Dim) -> bool:
    """Whether a number is negative, or a formula whatever lengths its symbols stand for, as far as its terms tell."""
    if not is_symbolic(dim):
        return bool(dim < 0)
    terms = _terms(dim).items()
    return dim != 0 and all(number < 0 and not term.has(_sum()) for term, number in terms)


@cache
def _sum() -> Any:
    from sympy import Add

    return Add


SAME = 64
"""What every symbol stands for where formulas are ranked."""


def magnitude(dim: Any) -> Any:
    """A number to rank formulas by: every symbol stands for :data:`SAME`; a number is itself."""
    return _at_same(dim) if is_symbolic(dim) else dim


@lru_cache(maxsize=1 << 12)
def _at_same(dim: Any) -> int:
    """0 where the formula has no number there, as a quotient by zero."""
    number = dim.subs(dict.fromkeys(dim.free_symbols, SAME))
    return int(number) if number.is_finite else 0


def share(part: Dim, whole: Dim) -> float | None:
    """``part / whole``, 0 of a whole of 0; of formulas where one is a number times the other, else None."""
    if not part:
        return 0.0
    if not is_symbolic(part) and not is_symbolic(whole):
        return part / whole if whole else 0.0
    return _ratio(part, whole)


@lru_cache(maxsize=1 << 12)
def _ratio(part: Any, whole: Any) -> float | None:
    terms, all_terms = _terms(part), _terms(whole)
    if terms.keys() != all_terms.keys():
        return None
    ratios = {terms[term] / all_terms[term] for term in terms}
    return float(ratios.pop()) if len(ratios) == 1 else None


@lru_cache(maxsize=1 << 12)
def _terms(dim: Any) -> Mapping[Any, Any]:
    """The numbers in a sum of products, by what each is a multiple of."""
    from sympy import sympify

    return dict(sympify(expanded(dim)).as_coefficients_dict())


HIGHEST_DEGREE = 16
"""Products of more symbols than this are no sizes of a network, and take forever to work with."""


@lru_cache(maxsize=1 << 12)
def degree(dim: Any) -> int:
    """How many symbols are multiplied in the longest product of an integer expression; 0 for a number."""
    if not is_symbolic(dim) or dim.is_number:
        return 0
    if dim.is_Symbol:
        return 1
    if dim.is_Pow:
        return degree(dim.base) * abs(int(dim.exp)) if dim.exp.is_Integer else HIGHEST_DEGREE + 1
    return (sum if dim.is_Mul else max)(map(degree, dim.args))


def written(value: Any) -> str:
    """A number, a formula, or a tuple or list of these as text: ``4*n``, ``(n, 3)``.

    Dimensions are called what the model calls them; a name that is no word is quoted, ``4*'batch size'``, so that a
    formula cannot be misread.
    """
    if isinstance(value, (tuple, list)):
        parts = (written(v) if is_symbolic(v) or isinstance(v, (tuple, list)) else repr(v) for v in value)
        inside = ", ".join(parts)
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' * (len(value) == 1)})"
    return _formula(value) if is_symbolic(value) else str(value)


@lru_cache(maxsize=1 << 14)
def _formula(value: Any) -> str:
    odd = {s: type(s)(repr(s.name), **s.assumptions0) for s in value.free_symbols if not s.name.isidentifier()}
    return str(value.xreplace(odd) if odd else value)
