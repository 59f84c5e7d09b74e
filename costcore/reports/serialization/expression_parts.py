"""Symbolic expressions built from the prefix form of a report file, within bounds: no view of them takes long."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from costcore.errors import CostError
from costcore.messages import import_problem
from costcore.numbers.dims import gcd
from costcore.numbers.symbolic import DEEPEST, HIGHEST_DEGREE_OF_SHAPE

MOST_BITS = 4096
"""The maximum size of a number in bits, and of the sum of the coefficients of an expanded expression."""

MOST_DENOMINATOR_BITS = 1024
"""The maximum size of the common denominator of an expression in bits."""

HIGHEST_POWER = 2 * HIGHEST_DEGREE_OF_SHAPE
"""The maximum degree of an expression: that of a product of every element of a tensor with every one of another."""

DEEPEST_FUNCTIONS = DEEPEST + 8
"""The maximum number of functions inside one another; formulas apply some to sizes, which have :data:`DEEPEST`."""

MOST_LEVELS = 4 * DEEPEST_FUNCTIONS
"""The maximum nesting of an expression: a rounding has a sum of products of powers inside."""

MOST_PARTS = 1 << 12
"""The maximum number of operators, functions and operands of one expression."""

MOST_COMPARED = 64
"""The maximum number of operands of a minimum or maximum; sympy compares all pairs."""


class Part(NamedTuple):
    """An expression and bounds of its size.

    Attributes:
        value: an int, or an expression of sympy.
        bits: the size of the sum of its coefficients in bits.
        denominator: a common multiple of the denominators of its coefficients.
        inverse_bits: the size of the denominator of its value in bits, due to divisions by expressions.
        degree: the number of symbols in the longest product.
        depth: how many functions are inside one another.
        levels: how many operators and functions are inside one another.
        parts: the number of operators, functions and operands.
        logarithm: whether it contains a logarithm that is not rounded.
    """

    value: Any
    bits: int = 1
    denominator: int = 1
    inverse_bits: int = 0
    degree: int = 0
    depth: int = 0
    levels: int = 0
    parts: int = 1
    logarithm: bool = False

    @property
    def is_number(self) -> bool:
        """True for an integer or a ratio of integers."""
        return type(self.value) is int or bool(self.value.is_Rational)


def number(value: int) -> Part:
    """Return an integer as a part."""
    return Part(value, value.bit_length())


def build(function: str, operands: Sequence[Part]) -> Part:
    """Return the expression that applies a function to operands. It is not evaluated.

    Expressions were simplified before they were written. They are rebuilt as they are.

    Args:
        function: a key of :func:`builders`.
        operands: its operands.

    Raises:
        ValueError: if the operands are not those of the function, or the expression is larger than that of a network.
    """
    return checked(builders()[function](operands))


def checked(part: Part) -> Part:
    """Return a part that is not larger than the expressions of networks.

    Raises:
        ValueError: if it is.
    """
    for size, most, what in (
        (part.bits, MOST_BITS, "bits"),
        (part.denominator.bit_length(), MOST_DENOMINATOR_BITS, "bits in its denominators"),
        (part.inverse_bits, MOST_BITS, "bits in its divisors"),
        (part.degree, HIGHEST_POWER, "factors"),
        (part.depth, DEEPEST_FUNCTIONS, "functions inside one another"),
        (part.levels, MOST_LEVELS, "levels"),
        (part.parts, MOST_PARTS, "parts"),
    ):
        if size > most:
            raise ValueError(f"it is too large (more than {most} {what})")
    return part


def symbol(value: Any) -> Part:
    """Return a symbol as a part."""
    return Part(value, degree=1)


def product(operands: Sequence[Part]) -> Part:
    """Return the bounds of the product of dimensions, which is not built."""
    return _around(
        None,
        operands,
        bits=sum(part.bits for part in operands),
        denominator=math.prod(part.denominator for part in operands),
        inverse_bits=sum(part.inverse_bits for part in operands),
        degree=sum(part.degree for part in operands),
    )


@cache
def builders() -> Mapping[str, Callable[[Sequence[Part]], Part]]:
    """Return the function that builds each kind of expression from its operands."""
    sympy = load_sympy()
    return {
        "add": _sum,
        "mul": _product,
        "pow": _power,
        "floor": _function(sympy.floor, 1, 1, rounds=True),
        "ceiling": _function(sympy.ceiling, 1, 1, rounds=True),
        "mod": _function(sympy.Mod, 2, 2),
        "min": _function(sympy.Min, 2, MOST_COMPARED),
        "max": _function(sympy.Max, 2, MOST_COMPARED),
        "abs": _function(sympy.Abs, 1, 1),
        "log": _logarithm,
        "gcd": _function(gcd, 2, 2),
        "ratio": _ratio,
    }


def load_sympy() -> Any:
    """Return sympy.

    Raises:
        CostError: if it is not installed.
    """
    try:
        import sympy
    except ImportError as error:
        raise CostError(import_problem("a report with symbolic dimensions", "sympy", error)) from error
    return sympy


def _around(value: Any, operands: Sequence[Part], is_function: bool = False, **bounds: Any) -> Part:
    """Return a part with these operands: it is a level deeper, and a function deeper if it is one."""
    return Part(
        value,
        depth=max((part.depth for part in operands), default=0) + is_function,
        levels=max((part.levels for part in operands), default=0) + 1,
        parts=sum(part.parts for part in operands) + 1,
        **bounds,
    )


def _unevaluated(function: Any, operands: Sequence[Part]) -> Any:
    sympify = load_sympy().sympify
    return function(*(sympify(part.value) for part in operands), evaluate=False)


def _check(operands: Sequence[Part], least: int, most: int | None = None) -> None:
    """Check the number of operands, and that they are not numbers alone, whose value would have been written.

    Raises:
        ValueError: if they are not.
    """
    if len(operands) < least or (most is not None and len(operands) > most):
        raise ValueError(f"wrong number of arguments ({len(operands)})")
    numbers = [part for part in operands if part.is_number]
    if len(numbers) == len(operands) or len(numbers) > 1:
        raise ValueError("it is a function of numbers, which is not simplified")


def _sum(operands: Sequence[Part]) -> Part:
    _check(operands, 2)
    return _around(
        _unevaluated(load_sympy().Add, operands),
        operands,
        bits=max(part.bits for part in operands) + len(operands).bit_length(),
        denominator=math.lcm(*(part.denominator for part in operands)),
        inverse_bits=sum(part.inverse_bits for part in operands),
        degree=max(part.degree for part in operands),
        logarithm=any(part.logarithm for part in operands),
    )


def _product(operands: Sequence[Part]) -> Part:
    _check(operands, 2)
    if any(part.is_number and part.value == 0 for part in operands):
        raise ValueError("a product with zero is not simplified")
    value = _unevaluated(load_sympy().Mul, operands)
    return product(operands)._replace(value=value, logarithm=any(part.logarithm for part in operands))


def _power(operands: Sequence[Part]) -> Part:
    if len(operands) != 2:
        raise ValueError(f"wrong number of arguments ({len(operands)})")
    base, exponent = operands
    sympy = load_sympy()
    if exponent.value == -1 and base.value == sympy.log(2):
        return _around(1 / base.value, operands, logarithm=True)
    if type(exponent.value) is not int or exponent.value in (0, 1):
        raise ValueError("an exponent must be an integer other than 0 and 1")
    if base.is_number or base.logarithm:
        raise ValueError("the base of a power must contain a symbol and no logarithm")
    times = abs(exponent.value)
    if times > HIGHEST_POWER:
        raise ValueError(f"it is too large (more than {HIGHEST_POWER} factors)")
    bounds = {"bits": base.bits * times, "denominator": base.denominator**times, "inverse_bits": base.inverse_bits}
    if exponent.value < 0:
        if base.inverse_bits:
            raise ValueError("a divisor must not contain another one")
        divisor = abs(int(sympy.sympify(base.value).as_coeff_Mul()[0].p)) ** times
        value_bits = (base.bits + base.degree * _SIZE_BITS) * times
        bounds = {"bits": bounds["denominator"].bit_length(), "denominator": divisor, "inverse_bits": value_bits}
    return _around(_unevaluated(sympy.Pow, operands), operands, degree=base.degree * times, **bounds)


_SIZE_BITS = 7
"""The size in bits of the number by which expressions are ranked."""


def _function(function: Any, least: int, most: int, rounds: bool = False) -> Callable[[Sequence[Part]], Part]:
    """Return a function that builds ``function`` of ``least`` to ``most`` operands."""

    def apply(operands: Sequence[Part]) -> Part:
        _check(operands, least, most)
        if any(part.logarithm for part in operands) and not rounds:
            raise ValueError("a logarithm must be rounded")
        if function is load_sympy().Mod and operands[1].value == 0:
            raise ValueError("a remainder needs a divisor other than zero")
        value = gcd(*(part.value for part in operands)) if function is gcd else _unevaluated(function, operands)
        return _around(
            value,
            operands,
            is_function=True,
            bits=max(part.bits for part in operands) + 1,
            denominator=1 if rounds else math.lcm(*(part.denominator for part in operands)),
            inverse_bits=0 if rounds else sum(part.inverse_bits for part in operands),
            degree=max(part.degree for part in operands),
        )

    return apply


def _logarithm(operands: Sequence[Part]) -> Part:
    if len(operands) != 1 or operands[0].logarithm:
        raise ValueError("log needs one argument without a logarithm")
    if operands[0].is_number and operands[0].value != 2:
        raise ValueError("the logarithm of a number other than 2 is not a size")
    value = _unevaluated(load_sympy().log, operands)
    return _around(value, operands, is_function=True, bits=operands[0].bits, degree=operands[0].degree, logarithm=True)


def _ratio(operands: Sequence[Part]) -> Part:
    if len(operands) != 2 or any(type(part.value) is not int for part in operands) or operands[1].value < 2:
        raise ValueError("a ratio needs two integers, the second one at least 2")
    p, q = (part.value for part in operands)
    if math.gcd(p, q) != 1:
        raise ValueError("a ratio needs two integers without a common divisor")
    return Part(load_sympy().Rational(p, q), p.bit_length(), q)
