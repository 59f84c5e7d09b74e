"""Symbolic integer expressions: sums, expansion, comparison, ranking and printing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from costcore.numbers.ceilings import with_ceilings
from costcore.numbers.dims import Dim, as_dim, floor_div, is_symbolic

MOST_KEPT = 1 << 16
"""The number of expressions whose forms and texts are kept: that of a trace of ten thousand different calls."""


def expanded_sum(amounts: Iterable[Dim]) -> Dim:
    """Return the expanded sum of integers and expressions.

    Equal expressions are counted first, so that each is expanded once and all are added in one step.
    """
    number = 0
    counts: dict[Any, int] = {}
    for amount in amounts:
        if is_symbolic(amount):
            counts[amount] = counts.get(amount, 0) + 1
        else:
            number += amount
    if not counts:
        return number
    from sympy import Add, Mul

    terms: dict[Any, Any] = {}
    for amount, count in counts.items():
        for term, coefficient in coefficients(amount).items():
            terms[term] = terms.get(term, 0) + coefficient * count
    total = Add(number, *[Mul(coefficient, term) for term, coefficient in terms.items()])
    return int(total) if total.is_Integer else total  # whether others are integers takes long to find out


MAX_TERMS = 64
"""The maximum number of terms that an expression may have after expansion; otherwise it is not expanded."""


@lru_cache(maxsize=MOST_KEPT)
def expanded(dim: Any) -> Any:
    """Return an expression as a sum of products, or unchanged if that has more than :data:`MAX_TERMS` terms.

    Equal expressions usually have the same expanded form.
    """
    if not is_symbolic(dim):
        return dim
    count = _term_count(dim)
    if count == 1 or count > MAX_TERMS or (dim.is_Add and count == len(dim.args)):
        return dim
    return _expand(dim)


def _term_count(dim: Any) -> int:
    """Return an upper bound of the number of terms that the expanded expression has."""
    if dim.is_Add or dim.is_Mul:
        counts = map(_term_count, dim.args)
        return sum(counts) if dim.is_Add else math.prod(counts)
    if dim.is_Pow and dim.exp.is_Integer and dim.exp > 1:
        return int(min(_term_count(dim.base) ** min(int(dim.exp), MAX_TERMS), MAX_TERMS + 1))
    return 1


def _expand(dim: Any) -> Any:
    if dim.is_Add or dim.is_Mul:
        return dim.func(*map(_expand, dim.args)).expand(deep=False, mul=True, **_SUMS_ONLY)
    if dim.is_Pow and dim.exp.is_Integer and dim.exp > 1:
        return dim.func(_expand(dim.base), dim.exp).expand(deep=False, multinomial=True, **_SUMS_ONLY)
    return dim


_SUMS_ONLY = dict.fromkeys(("power_base", "power_exp", "log", "basic"), False)
"""Options of ``sympy.expand`` that leave powers, logarithms and functions as they are."""


def quotient(a: Dim, b: Dim) -> Dim:
    """Return ``a // b``.

    If the factors of ``b`` cancel, the quotient is exact, and the floor division of sympy, which is slow, is skipped.
    """
    if is_symbolic(a) or is_symbolic(b):
        from sympy import fraction

        exact = a / b
        if fraction(exact)[1] == 1:
            return as_dim(exact)
    return floor_div(a, b)


def differ(a: Dim, b: Dim) -> bool:
    """Return True if two dimensions are different expressions, even after expansion."""
    if a == b:
        return False
    if is_symbolic(a) or is_symbolic(b):
        from sympy import expand

        return bool(expand(a - b) != 0)
    return True


def unique_solution(a: Dim, b: Dim) -> tuple[Dim, int] | None:
    """Solve ``a == b``: return its only symbol and the only positive integer solution; None if either is not unique."""
    from sympy import Poly, cancel, fraction, sympify

    a, b = sympify(a), sympify(b)
    if b == 0 or max(_term_count(a), _term_count(b)) > MAX_TERMS:
        return None
    numerator, denominator = fraction(cancel(a / b))
    difference = numerator - denominator
    if len(difference.free_symbols) != 1 or not difference.is_polynomial():
        return None
    (symbol,) = difference.free_symbols
    roots = [int(root) for root in Poly(difference, symbol).ground_roots() if root.is_Integer and root > 0]
    return (symbol, roots[0]) if len(roots) == 1 else None


def is_negative(dim: Dim) -> bool:
    """Return True if the value is provably negative for all sizes of its symbols.

    One size for which it is not decides. Otherwise the proof needs one negative term in the expanded expression, and no
    positive one. The sign of a term is more than that of its number: a size rounded up, ``-floor(-n/2)``, is a negative
    number times a negative one.
    """
    if not is_symbolic(dim):
        return bool(dim < 0)
    if magnitude(dim) >= 0:
        return False
    signed = [(number, term) for term, number in coefficients(dim).items() if number]
    return all(_is_nonpositive(*term) for term in signed) and any(_is_below_zero(*term) for term in signed)


def _is_nonpositive(number: Any, term: Any) -> bool:
    return bool(term.is_nonnegative if number < 0 else term.is_nonpositive)


def _is_below_zero(number: Any, term: Any) -> bool:
    return bool(term.is_positive if number < 0 else term.is_negative)


RANKING_SIZE = 64
"""The value of every symbol when expressions are ranked."""


def magnitude(dim: Any) -> Any:
    """Return a number to rank dimensions by: an expression is evaluated with :data:`RANKING_SIZE` for every symbol."""
    return _at_ranking_size(dim) if is_symbolic(dim) else dim


@cache
def _ranked() -> Callable[[Any], Any]:
    from costcore.numbers.evaluation import Evaluation

    return Evaluation({}, default=RANKING_SIZE)


@lru_cache(maxsize=MOST_KEPT)
def _at_ranking_size(dim: Any) -> int:
    """Return the value of the expression, or 0 if there is none, as after a division by zero, or if it is too large."""
    try:
        number = _ranked()(dim)
        return int(number) if not is_symbolic(number) or number.is_finite else 0
    except (ArithmeticError, ValueError, TypeError):  # infinities are neither compared nor rounded
        return 0


def share(part: Dim, whole: Dim) -> float | None:
    """Return ``part / whole``; 0 if ``part`` is 0, or if both are numbers and ``whole`` is 0.

    The share of expressions is a number only if one is a multiple of the other; otherwise None is returned.
    """
    if not part:
        return 0.0
    if not is_symbolic(part) and not is_symbolic(whole):
        return part / whole if whole else 0.0
    return _ratio(part, whole)


@lru_cache(maxsize=MOST_KEPT)
def _ratio(part: Any, whole: Any) -> float | None:
    from sympy import Add

    whole_terms = coefficients(whole)
    if len(Add.make_args(expanded(part))) != len(whole_terms):
        return None
    part_terms = coefficients(part)
    if part_terms.keys() != whole_terms.keys():
        return None
    ratios = {part_terms[term] / whole_terms[term] for term in part_terms}
    return float(ratios.pop()) if len(ratios) == 1 else None


@lru_cache(maxsize=MOST_KEPT)
def coefficients(dim: Any) -> Mapping[Any, Any]:
    """Return the coefficient of every term of the expanded expression; that of a number is the coefficient of 1."""
    from sympy import sympify

    return dict(sympify(expanded(dim)).as_coefficients_dict())


HIGHEST_DEGREE = 16
"""Products of more symbols than this do not occur as sizes of networks, and sympy is too slow for them."""

HIGHEST_DEGREE_OF_SHAPE = 64 * HIGHEST_DEGREE
"""The highest degree of a number of elements: NumPy and PyTorch have tensors of up to 64 axes."""


@lru_cache(maxsize=MOST_KEPT)
def degree(dim: Any) -> int:
    """Return the number of symbols in the longest product of an integer expression; 0 for a number."""
    if not is_symbolic(dim) or dim.is_number:
        return 0
    if dim.is_Symbol:
        return 1
    if dim.is_Pow:
        return degree(dim.base) * abs(int(dim.exp)) if dim.exp.is_Integer else HIGHEST_DEGREE + 1
    return (sum if dim.is_Mul else max)(map(degree, dim.args))


DEEPEST = 32
"""Sizes of more functions inside one another do not occur in networks: chains of divisions are one division."""


@lru_cache(maxsize=MOST_KEPT)
def depth(dim: Any) -> int:
    """Return how many functions (roundings, minima, remainders …) are inside one another; 0 for a polynomial."""
    if not is_symbolic(dim):
        return 0
    return max(map(depth, dim.args), default=0) + (not (dim.is_Atom or dim.is_Add or dim.is_Mul or dim.is_Pow))


def as_text(value: Any) -> str:
    """Return a number, an expression, or a tuple or list of these as text: ``4*n``, ``(n, 3)``.

    Quotients that are rounded up are ceilings. Symbols have the names that the model gives them. A name that is not an
    identifier is quoted, ``4*'batch size'``, so that the expression is unambiguous.
    """
    if isinstance(value, (tuple, list)):
        items = (as_text(v) if is_symbolic(v) or isinstance(v, (tuple, list)) else repr(v) for v in value)
        joined = ", ".join(items)
        return f"[{joined}]" if isinstance(value, list) else f"({joined}{',' * (len(value) == 1)})"
    return _expression_text(with_ceilings(value)) if is_symbolic(value) else str(value)


@lru_cache(maxsize=MOST_KEPT)
def _expression_text(value: Any) -> str:
    if not value.is_Add:
        return _term_text(value)
    first, *others = map(_term_text, _in_order(value))
    return first + "".join(f" - {text[1:]}" if text.startswith("-") else f" + {text}" for text in others)


def _term_text(term: Any) -> str:
    """Return a term as sympy writes it. What is multiplied is written once for all numbers it is multiplied by."""
    number, product = term.as_coeff_Mul()
    if number == 1 or not number.is_Integer or product.is_Add or not _is_plain_product(product):
        return _product_text(term)
    return f"-{_product_text(product)}" if number == -1 else f"{number}*{_product_text(product)}"


def _is_plain_product(product: Any) -> bool:
    """Return True if no factor is a number, has a negative exponent or needs parentheses, as a remainder does."""
    factors = product.args if product.is_Mul else (product,)
    return not any(
        factor.is_number
        or type(factor).__name__ == "Mod"
        or (factor.is_Pow and not (factor.exp.is_Integer and factor.exp > 0))
        for factor in factors
    )


@lru_cache(maxsize=MOST_KEPT)
def _product_text(value: Any) -> str:
    if value.is_Symbol:
        return str(value.name) if value.name.isidentifier() else repr(value.name)
    from costcore.numbers.evaluation import symbols_of

    if all(each.name.isidentifier() for each in symbols_of([value])):
        return str(value)
    return str(_quoting_printer().doprint(value))


@cache
def _quoting_printer() -> Any:
    """Return a printer of sympy that quotes names which are not identifiers."""
    from sympy.printing.str import StrPrinter

    class QuotingPrinter(StrPrinter):  # type: ignore[misc]
        def _print_Symbol(self, expr: Any) -> str:  # noqa: N802 - the name that sympy calls
            return _product_text(expr)

    return QuotingPrinter()


def _in_order(value: Any) -> Sequence[Any]:
    """Return the terms of a sum in the order in which sympy writes them, by the powers of their factors."""
    if len(value.args) == 2 and any(term.is_Rational for term in value.args):  # sympy writes 2 - n, and -n*m + 2
        return list(value.as_ordered_terms())
    powers: dict[Any, dict[Any, int]] = {}
    for term in value.args:
        number, product = term.as_coeff_Mul()
        if not number.is_Rational or not (term.is_Rational or _is_plain_product(product)):
            return list(value.as_ordered_terms())
        powers[term] = {} if term.is_Rational else dict(map(_power_of, product.args if product.is_Mul else (product,)))
    factors = sorted({factor for each in powers.values() for factor in each}, key=_sort_key)
    rank = {factor: position for position, factor in enumerate(factors)}
    end = (len(factors), 0)
    return sorted(powers, key=lambda term: (*sorted((rank[f], -power) for f, power in powers[term].items()), end))


def _power_of(factor: Any) -> tuple[Any, int]:
    return (factor.base, int(factor.exp)) if factor.is_Pow else (factor, 1)


@lru_cache(maxsize=MOST_KEPT)
def _sort_key(factor: Any) -> Any:
    from sympy import default_sort_key

    return default_sort_key(factor)
