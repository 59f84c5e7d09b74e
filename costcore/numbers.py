"""Dimensions: Python integers, or symbolic integer expressions of sympy.

Exact arithmetic that works for both, expressions given as text, fast evaluation, sums in expanded form, and printing.
sympy is imported only for symbolic expressions; where it is slow, the work is done here and cached.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache, lru_cache, reduce
from typing import TYPE_CHECKING, Any, TypeAlias

# Exact arithmetic.


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
    """Return True if the form of an expression makes it an integer; sympy, which also checks signs, is slow."""
    if value.is_Symbol or value.is_Integer:
        return bool(value.is_integer)
    if value.is_Pow:
        return bool(value.exp.is_Integer and value.exp >= 0 and is_integral(value.base))
    if value.is_Add or value.is_Mul or type(value).__name__ in ("Min", "Max"):
        return all(map(is_integral, value.args))
    return type(value).__name__ in ("floor", "ceiling", "gcd")


MOST_DIGITS = 4000
"""The maximum number of digits of a number from users; Python refuses to convert more than 4,300."""


def whole_number(digits: str) -> int:
    """Parse decimal digits as an integer.

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
"""The maximum number of arguments that sympy may compare pair by pair, to drop redundant ones."""


@lru_cache(maxsize=1 << 12)
def _extreme(function: Any, a: Any, b: Any) -> Dim:
    # Each may be a Min or Max already: compare all arguments at once.
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
    from sympy import Add, Rational, floor

    inner: Any = next((term for term in Add.make_args(a) if isinstance(term, floor)), None)
    if inner is not None:
        a = a - inner + inner.args[0]  # floor((floor(x) + m)/b) is floor((x + m)/b) for an integer m
    # Multiples of b move out of the floor. sympy finds the same form, but slowly.
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
    from sympy import Function

    # sympy's own gcd treats symbols as coprime polynomials.
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


# Sizes as text, such as ``"past + new"``, or as formulas of sympy.


LONGEST = 200
"""The maximum length of an expression."""

OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


def evaluate(text: str, size_of: Callable[[str], Dim]) -> Dim:
    """Evaluate a text of numbers, names, ``+``, ``-``, ``*``, ``//`` and parentheses.

    Args:
        text: the expression.
        size_of: returns the size of a name; it may raise ``KeyError``.

    Raises:
        ValueError: for any other text, a division by 0, and a name without a size.
    """
    if len(text) > LONGEST:
        raise ValueError(f"an expression of {len(text)} characters is too long (expected at most {LONGEST})")

    def value(part: ast.expr) -> Dim:
        if isinstance(part, ast.BinOp) and type(part.op) in OPERATORS:
            return as_dim(OPERATORS[type(part.op)](value(part.left), value(part.right)))
        if isinstance(part, ast.Constant) and type(part.value) is int:
            return part.value
        if isinstance(part, ast.Name):
            return size_of(part.id)
        raise ValueError(text)

    try:
        return value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, KeyError, TypeError, ZeroDivisionError, MemoryError) as error:
        raise ValueError(f"{text!r} is not a sum or product of names and integers") from error


def size_from(given: Any, size_of: Callable[[str], Dim]) -> Dim:
    """Return the size given as an integer, a text or a formula of sympy; equal names are one symbol.

    Args:
        given: the integer, text or formula.
        size_of: returns the size of a name, usually its symbol.

    Raises:
        TypeError: if it is neither an integer nor an expression of names.
    """
    if is_symbolic(given):
        as_dim(given)  # raises for a formula that is never an integer
        return as_dim(given.xreplace({symbol: _as_formula(size_of(symbol.name)) for symbol in given.free_symbols}))
    if not isinstance(given, str):
        return as_dim(given)
    names: list[str] = []

    def named(name: str) -> Dim:
        names.append(name)
        return size_of(name)

    try:
        size = evaluate(given, named)
    except ValueError:
        names.clear()
    if not names:
        raise TypeError(
            f"expected an integer or an integer symbol (got {given!r}, str). "
            "A text must be a sum or product of names, such as 'past + new'"
        )
    return size


def symbol_of(name: str) -> Dim:
    """Return the symbol of a named size."""
    from sympy import Symbol

    return Symbol(name, integer=True, positive=True)


def _as_formula(size: Dim) -> Any:
    from sympy import sympify

    return sympify(size)


# Evaluation.


MOST_PARTS = 1 << 16
"""The maximum number of cached parts of expressions."""

MOST_BITS = 1 << 17
"""The maximum bits of a power; no size of a network has as many."""


class Evaluation:
    """An evaluator of expressions with numbers for their symbols, which computes equal parts once.

    ``subs`` of sympy takes seconds for a hundred symbols; this needs a few microseconds per part, and no recursion for
    deep expressions.

    Args:
        values: an integer, or another expression, by symbol; symbols without a value stay.
        default: the value of all other symbols, if given.
    """

    def __init__(self, values: Mapping[Any, Any], default: int | None = None) -> None:
        self._values = values
        self._default = default
        self._known: dict[Any, Any] = {}

    def __call__(self, expression: Any) -> Any:
        """Return the value: an int, or an expression if it is a fraction or has a symbol without a value.

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
    bits = argument_of_log2(part)
    return part.args if bits is None else (bits,)


def argument_of_log2(part: Any) -> Any:
    """Return ``n`` of a :func:`ceil_log2`, the rounded-up quotient of two logarithms; None for other expressions."""
    if type(part).__name__ != "ceiling" or not part.args[0].is_Mul or len(part.args[0].args) != 2:
        return None
    logarithms = [each for each in part.args[0].args if each != _one_over_log_of_two()]
    return logarithms[0].args[0] if len(logarithms) == 1 and type(logarithms[0]).__name__ == "log" else None


@cache
def _one_over_log_of_two() -> Any:
    from sympy import log

    return 1 / log(2)


def _applied(part: Any, values: list[Any]) -> Any:
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
"""Numeric functions by the name of the sympy class; they return None without a numeric result."""

_SYMBOLIC: Mapping[str, Callable[[Any, Any], Any]] = {"Min": minimum, "Max": maximum}
"""Functions that are faster here than in sympy."""


def symbols_of(expressions: Iterable[Any]) -> set[Any]:
    """Return the symbols of expressions; equal parts are visited once."""
    stack = [each for each in expressions if is_symbolic(each)]
    seen = set(stack)
    while stack:
        new = set(stack.pop().args) - seen
        seen |= new
        stack += new
    return {each for each in seen if each.is_Symbol}


# Ceilings: ``ceiling(h/32)`` in place of ``floor(h/32 + 31/32)``.


def with_ceilings(formula: Dim) -> Dim:
    """Rewrite rounded-up quotients as ceilings where that is shorter."""
    return _rewritten(formula) if is_symbolic(formula) else formula


@lru_cache(maxsize=1 << 14)
def _rewritten(part: Any) -> Any:
    if part.is_Atom:
        return part
    args = [_rewritten(each) for each in part.args]
    if any(new is not old for new, old in zip(args, part.args, strict=True)):
        is_extreme = type(part).__name__ in ("Max", "Min")  # comparing all pairs again is slow, and changes nothing
        part = part.func(*args, evaluate=False) if is_extreme else part.func(*args)
    return _rounded_up(part) if type(part).__name__ == "floor" else part


def _rounded_up(part: Any) -> Any:
    from sympy import ceiling

    constant, quotient = part.args[0].as_coeff_Add()
    if not constant and not quotient.is_Add and quotient.could_extract_minus_sign():
        return -ceiling(-quotient, evaluate=False)
    # floor(n/q + (q - 1)/q) of an integer n is ceiling(n/q).
    is_last = constant.is_Rational and constant.q > 1 and constant.p == constant.q - 1
    return ceiling(quotient, evaluate=False) if is_last and is_integral((constant.q * quotient).expand()) else part


# Sums, expansion, comparison, ranking and printing.


MOST_KEPT = 1 << 16
"""The number of cached forms and texts: enough for a trace of ten thousand different calls."""


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
    return int(total) if total.is_Integer else total  # for other expressions the check is slow


MAX_TERMS = 64
"""The maximum number of terms after expansion; larger expressions are not expanded."""


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
    # An upper bound: terms may cancel.
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

    If the factors of ``b`` cancel, the quotient is exact, without the slow floor division of sympy.
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

    A value of at least 0 at one size refutes it. The proof is an expanded expression with a negative term and no
    positive one. The coefficient alone is not the sign of a term: ``-floor(-n/2)``, a size rounded up, is positive.
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
    """Return a number to rank a dimension by: its value with :data:`RANKING_SIZE` for every symbol."""
    return _at_ranking_size(dim) if is_symbolic(dim) else dim


@cache
def _ranking_evaluation() -> Callable[[Any], Any]:
    return Evaluation({}, default=RANKING_SIZE)


@lru_cache(maxsize=MOST_KEPT)
def _at_ranking_size(dim: Any) -> int:
    try:
        number = _ranking_evaluation()(dim)
        return int(number) if not is_symbolic(number) or number.is_finite else 0
    except (ArithmeticError, ValueError, TypeError):  # infinities cannot be compared or rounded
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
    """Return the coefficient of every term of the expanded expression; a number is the coefficient of 1."""
    from sympy import sympify

    return dict(sympify(expanded(dim)).as_coefficients_dict())


HIGHEST_DEGREE = 16
"""The maximum degree of a size: networks have no larger ones, and sympy is too slow for them."""

HIGHEST_DEGREE_OF_SHAPE = 64 * HIGHEST_DEGREE
"""The maximum degree of a number of elements: tensors of NumPy and PyTorch have up to 64 axes."""


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
"""The maximum nesting of functions in a size. Networks stay below it: a chain of divisions is one division."""


@lru_cache(maxsize=MOST_KEPT)
def depth(dim: Any) -> int:
    """Return the nesting depth of functions (roundings, minima, remainders …); 0 for a polynomial."""
    if not is_symbolic(dim):
        return 0
    return max(map(depth, dim.args), default=0) + (not (dim.is_Atom or dim.is_Add or dim.is_Mul or dim.is_Pow))


def as_text(value: Any) -> str:
    """Return a number, an expression, or a tuple or list of these as text: ``4*n``, ``(n, 3)``.

    Rounded-up quotients are ceilings. Symbols have the names of the model. A name that is not an identifier is quoted,
    ``4*'batch size'``, so that the expression is unambiguous.
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
    number, product = term.as_coeff_Mul()
    if number == 1 or not number.is_Integer or product.is_Add or not _is_plain_product(product):
        return _product_text(term)
    # The text of a product is cached for all numbers it is multiplied by.
    return f"-{_product_text(product)}" if number == -1 else f"{number}*{_product_text(product)}"


def _is_plain_product(product: Any) -> bool:
    # No factor is a number, has a negative exponent, or needs parentheses as a remainder does.
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
    if all(each.name.isidentifier() for each in symbols_of([value])):
        return str(value)
    return str(_quoting_printer().doprint(value))


@cache
def _quoting_printer() -> Any:
    from sympy.printing.str import StrPrinter

    class QuotingPrinter(StrPrinter):  # type: ignore[misc]
        def _print_Symbol(self, expr: Any) -> str:  # noqa: N802 - the name that sympy calls
            return _product_text(expr)

    return QuotingPrinter()


def _in_order(value: Any) -> Sequence[Any]:
    if len(value.args) == 2 and any(term.is_Rational for term in value.args):  # sympy writes 2 - n, and -n*m + 2
        return list(value.as_ordered_terms())
    powers: dict[Any, dict[Any, int]] = {}
    for term in value.args:
        number, product = term.as_coeff_Mul()
        if not number.is_Rational or not (term.is_Rational or _is_plain_product(product)):
            return list(value.as_ordered_terms())
        powers[term] = {} if term.is_Rational else dict(map(_power_of, product.args if product.is_Mul else (product,)))
    # sympy orders terms by the powers of their factors.
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
