"""Constant folding: arithmetic on elements known before a run, object arrays of exact numbers and expressions."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from costcore.numbers.dims import as_dim, floor_div, is_symbolic, maximum, minimum
from costcore.numbers.symbolic import HIGHEST_DEGREE, degree

LARGEST_EXPRESSION = 200
"""Symbolic expressions of more symbols, numbers and operators are dropped."""


def fold_elements(
    function: Callable[..., Any], arrays: Sequence[Any], shape: tuple[int, ...], *, partial: bool = False
) -> Any:
    """Return the elements that ``function`` makes of ``arrays``, in ``shape``; None if they are not known exactly.

    With ``partial``, elements of the arrays and of the result may be None: unknown.
    """
    try:
        result = np.asarray(function(*arrays), dtype=object).reshape(shape)
    except (ArithmeticError, AttributeError, IndexError, TypeError, ValueError):
        return None  # a comparison of symbols, a division by zero, an index out of bounds
    if partial:
        return result if all(element is None or _is_representable(element) for element in result.flat) else None
    return result if all(map(_is_representable, result.flat)) else None


def _is_representable(element: Any) -> bool:
    """Return True for a number that a tensor can hold, or a short expression."""
    if isinstance(element, (bool, float)):
        return True
    if isinstance(element, int):
        return -(1 << 63) <= element < 1 << 64
    if not is_symbolic(element) or degree(element) > HIGHEST_DEGREE:
        return False
    from sympy import preorder_traversal

    return sum(1 for _ in islice(preorder_traversal(element), LARGEST_EXPRESSION + 1)) <= LARGEST_EXPRESSION


def each(function: Callable[..., Any], *, takes_unknown: bool = False) -> Callable[..., Any]:
    """Return ``function`` of elements as a function of broadcast arrays.

    It is not asked for elements that follow from an unknown one, None, unless it takes these.
    """

    def apply(*arrays: Any) -> Any:
        broadcast = np.broadcast_arrays(*arrays)
        result = np.empty(broadcast[0].shape, dtype=object)
        for where in np.ndindex(result.shape):
            elements = [array[where] for array in broadcast]
            is_unknown = not takes_unknown and any(element is None for element in elements)
            result[where] = None if is_unknown else function(*elements)
        return result

    return apply


def exact(number: Any) -> Any:
    """Return a float as an exact fraction, so that it can be mixed with symbols."""
    if isinstance(number, float):
        from sympy import Integer, Rational

        return Integer(int(number)) if number.is_integer() else Rational(str(number))
    return number


def _mixed(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def apply(a: Any, b: Any) -> Any:
        return _plain(function(exact(a), exact(b))) if is_symbolic(a) or is_symbolic(b) else function(a, b)

    return apply


def _plain(value: Any) -> Any:
    return int(value) if is_symbolic(value) and value.is_Integer else value


def _div(a: Any, b: Any) -> Any:
    """Return the quotient; integers truncate toward zero, as in ONNX (symbols are sizes, hence positive)."""
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return floor_div(a, b)


def _remainder(a: Any, b: Any) -> Any:
    """Return the remainder with the sign of the dividend, as in C (symbols are sizes, hence positive)."""
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) % abs(b) * (-1 if a < 0 else 1)
    return math.fmod(a, b) if isinstance(a, float) else a % b


def _pow(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int) and abs(a) > 1 and not 0 <= b <= 64:
        raise ArithmeticError("too large for any dtype")
    return a**b


def _floor(a: Any) -> Any:
    from sympy import floor

    return _plain(floor(a)) if is_symbolic(a) else a if isinstance(a, int) else float(math.floor(a))


def _ceil(a: Any) -> Any:
    from sympy import ceiling

    return _plain(ceiling(a)) if is_symbolic(a) else a if isinstance(a, int) else float(math.ceil(a))


def _truth(relation: Any) -> bool:
    """Return a decided comparison. Raises ``TypeError`` if it depends on a symbol."""
    return bool(relation)


def _equal(a: Any, b: Any) -> bool:
    if is_symbolic(a) or is_symbolic(b):
        from sympy import Eq

        return _truth(Eq(exact(a), exact(b)))
    return bool(a == b)


BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "Add": _mixed(operator.add),
    "Sub": _mixed(operator.sub),
    "Mul": _mixed(operator.mul),
    "Div": _mixed(_div),
    "Div of floats": _mixed(operator.truediv),
    "Pow": _mixed(_pow),
    "Mod": _mixed(operator.mod),
    "Mod as in C": _mixed(_remainder),
    "Max": _mixed(maximum),
    "Min": _mixed(minimum),
    "Equal": _equal,
    "Less": lambda a, b: _truth(exact(a) < exact(b)),
    "LessOrEqual": lambda a, b: _truth(exact(a) <= exact(b)),
    "Greater": lambda a, b: _truth(exact(a) > exact(b)),
    "GreaterOrEqual": lambda a, b: _truth(exact(a) >= exact(b)),
    "And": lambda a, b: bool(a) and bool(b),
    "Or": lambda a, b: bool(a) or bool(b),
    "Xor": lambda a, b: bool(a) != bool(b),
}
"""Functions of two elements by operator."""

UNARY: Mapping[str, Callable[[Any], Any]] = {
    "Abs": abs,
    "Neg": operator.neg,
    "Not": lambda a: not a,
    "Floor": _floor,
    "Ceil": _ceil,
    "Round": lambda a: a if isinstance(a, int) else float(round(a)),
    "Relu": lambda a: _plain(maximum(exact(a), 0)) if is_symbolic(a) else max(a, 0),
    "Sqrt": lambda a: _plain(a**0.5) if not is_symbolic(a) else _root(a),
    "Reciprocal": lambda a: 1 / exact(a) if is_symbolic(a) else 1.0 / a,
    "Exp": lambda a: math.exp(a),
    "Log": lambda a: math.log(a),
    "Sign": lambda a: 1 if is_symbolic(a) and a.is_positive else (a > 0) - (a < 0),
}
"""Functions of one element by operator."""


def _root(a: Any) -> Any:
    from sympy import sqrt

    return _plain(sqrt(a))


def cast(dtype: str) -> Callable[[Any], Any]:
    """Return the conversion of elements to a dtype."""

    def convert(a: Any) -> Any:
        if dtype == "bool":
            return bool(a) if not is_symbolic(a) else not _equal(a, 0)
        if is_symbolic(a):
            return a if "float" in dtype or a.is_integer else as_dim(_floor(a))
        return float(a) if "float" in dtype else int(a)

    return convert
