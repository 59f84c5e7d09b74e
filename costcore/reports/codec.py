"""Encode dimensions, symbolic expressions and attributes as plain JSON values, and decode them.

Expressions are in prefix form; no text is evaluated. Decoding limits their size and depth, so that no later operation
on them takes long.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from costcore.errors import CostError, import_problem, short_repr
from costcore.numbers import DEEPEST, HIGHEST_DEGREE_OF_SHAPE, Dim, gcd, is_symbolic

FUNCTION_NAMES = {
    "Add": "add",
    "Mul": "mul",
    "Pow": "pow",
    "floor": "floor",
    "ceiling": "ceiling",
    "Mod": "mod",
    "Min": "min",
    "Max": "max",
    "Abs": "abs",
    "log": "log",
    "gcd": "gcd",
}
"""The first item of an expression in prefix form, ``["add", "n", 1]``, by the name of its sympy class."""

USUAL_ASSUMPTIONS: tuple[tuple[str, ...], ...] = (
    ("integer", "positive"),
    ("integer", "nonnegative"),
    ("integer",),
    (),
)
"""The default assumptions of symbols. Symbols with other assumptions are written with all of them."""

_TAGS = ("expr", "float", "complex", "list", "map")
"""Keys of objects that represent attribute values which JSON lacks."""


def malformed(where: str, problem: str, value: object, expected: str) -> CostError:
    """Return the error for an invalid value in a file.

    Args:
        where: location in the file, ``calls[0].layer``.
        problem: what is wrong.
        value: the value in the file.
        expected: what the file should contain instead.
    """
    return CostError(f"{where}: {problem} (got {short_repr(value)}, expected {expected})")


class Encoder:
    """Converts dimensions and attributes to JSON values.

    Args:
        keys: the keys of symbols that are already declared.

    Attributes:
        symbols: name and assumptions of each encoded symbol, by its key in the file.
        tables: the distinct layers and costs.
    """

    def __init__(self, keys: Mapping[Any, str] | None = None) -> None:
        self.tables: dict[str, UniqueEntries] = {}
        self.symbols: dict[str, dict[str, Any]] = {}
        self._keys: dict[Any, str] = dict(keys or {})
        self._encoded: dict[Any, Any] = {}

    def dim(self, value: Dim | None) -> Any:
        """Return a dimension as a JSON value: an integer, the key of a symbol, or an expression in prefix form.

        Raises:
            CostError: if an expression contains a function that is not one of :data:`FUNCTION_NAMES`.
        """
        if type(value) is int or value is None:
            return value
        if not is_symbolic(value):
            return operator.index(value)
        if value not in self._encoded:
            self._encoded[value] = self._expression(value)
        return self._encoded[value]

    def _expression(self, expression: Any) -> Any:
        if expression.is_Integer:
            return int(expression)
        if expression.is_Rational:
            return ["ratio", int(expression.p), int(expression.q)]
        if expression.is_Symbol:
            return self._key(expression)
        function = FUNCTION_NAMES.get(type(expression).__name__)
        if function is None:
            raise CostError(f"expression {expression}: a report file cannot contain {type(expression).__name__}")
        if expression.is_Pow and not expression.exp.is_Integer:
            raise CostError(f"expression {expression}: a report file cannot contain exponents that are not integers")
        return [function, *map(self.dim, expression.args)]

    def value(self, value: Any) -> Any:
        """Return the value of an attribute as a JSON value.

        Raises:
            CostError: if it is not None, a number, a string, a symbolic expression, or a tuple, list or mapping of
                these.
        """
        if type(value) is int or value is None or isinstance(value, (bool, str)):
            return value
        if is_symbolic(value):
            return {"expr": self.dim(value)}
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else {"float": repr(float(value))}
        if isinstance(value, complex):
            return {"complex": [self.value(value.real), self.value(value.imag)]}
        if isinstance(value, tuple):
            return [self.value(item) for item in value]
        if isinstance(value, list):
            return {"list": [self.value(item) for item in value]}
        if isinstance(value, Mapping):
            return {"map": [[self.value(key), self.value(item)] for key, item in value.items()]}
        try:
            return operator.index(value)
        except TypeError:
            raise CostError(
                f"a report file cannot contain an attribute of type {type(value).__name__} (got {value!r}, expected "
                "None, a number, a string, or a tuple, list or dict of these)"
            ) from None

    def _key(self, symbol: Any) -> str:
        from sympy import Symbol

        if symbol not in self._keys:
            if type(symbol) is not Symbol:
                raise CostError(f"symbol {symbol}: a report file cannot contain {type(symbol).__name__}")
            key, n = symbol.name, 1
            while key in self.symbols:
                n += 1
                key = f"{symbol.name}#{n}"
            usual = next(
                (a for a in USUAL_ASSUMPTIONS if Symbol(symbol.name, **dict.fromkeys(a, True)) == symbol), None
            )
            assumptions = dict(symbol.assumptions0) if usual is None else dict.fromkeys(usual, True)
            self._keys[symbol] = key
            self.symbols[key] = {"name": symbol.name, "assumptions": dict(sorted(assumptions.items()))}
        return self._keys[symbol]


class UniqueEntries:
    """A list of distinct entries, to which others refer by index.

    Args:
        to_entry: returns the entry of an object. It is called once per object; objects must outlive this list.

    Attributes:
        entries: the distinct entries, in order of first use.
    """

    def __init__(self, to_entry: Callable[[Any, Encoder], dict[str, Any]]) -> None:
        self.entries: list[dict[str, Any]] = []
        self._to_entry = to_entry
        self._by_identity: dict[int, int] = {}
        self._by_text: dict[str, int] = {}

    def index_of(self, item: object, encoder: Encoder) -> int:
        """Return the index of the entry of an object."""
        if id(item) not in self._by_identity:
            entry = self._to_entry(item, encoder)
            index = self._by_text.setdefault(json.dumps(entry), len(self.entries))
            if index == len(self.entries):
                self.entries.append(entry)
            self._by_identity[id(item)] = index
        return self._by_identity[id(item)]


class Decoder:
    """Converts JSON values back to dimensions and attributes.

    The argument ``where`` of all methods is the location in the file for errors.

    Args:
        symbols: name and assumptions of the symbols of the file, by key.

    Attributes:
        tables: the layers and the costs of the file.
        parameters: the parameters that the file declares.
        n_calls, n_module_calls: the numbers of calls and of module calls in the file.
    """

    def __init__(self, symbols: Mapping[str, tuple[str, Mapping[str, bool]]]) -> None:
        self._declared = symbols
        self.tables: dict[str, Sequence[Any]] = {}
        self.parameters: Mapping[int, Dim] = {}
        self.n_calls = self.n_module_calls = 0
        self._symbols: dict[str, Part] = {}
        self._numbers: dict[int, Part] = {}
        self._built: dict[tuple[object, ...], Part] = {}
        """The cache of expressions, by function and operand ids, so that equal parts are one object."""
        self._shapes: dict[tuple[int, ...], tuple[Dim, ...]] = {}
        self._denominator = 1

    @property
    def keys(self) -> dict[Any, str]:
        """The key of each symbol that occurred so far."""
        return {part.value: key for key, part in self._symbols.items()}

    def dim(self, value: Any, where: str) -> Dim:
        """Return the dimension that :meth:`Encoder.dim` encoded.

        Raises:
            CostError: if it is not a dimension, or too large for a network.
        """
        if type(value) is int:
            return value
        return self._with_checked_denominator(self._part(value, where, value), where).value

    def shape(self, sizes: Iterable[Any], where: str) -> tuple[Dim, ...]:
        """Return the dimensions of a shape.

        Raises:
            CostError: if an entry is not a dimension, or if their product is too large for a network.
        """
        parts = [self._part(size, where, size) for size in sizes]
        key = tuple(map(id, parts))
        if key not in self._shapes:
            shape = tuple([part.value for part in parts])
            try:
                self._with_checked_denominator(checked(product(parts)), where)
            except ValueError as error:
                raise CostError(f"{where}: {short_repr(list(shape))} is not a shape: {error}") from error
            self._shapes[key] = shape
        return self._shapes[key]

    def _with_checked_denominator(self, part: Part, where: str) -> Part:
        if part.denominator != 1:
            # Amounts are summed later with a common denominator.
            self._denominator = math.lcm(self._denominator, part.denominator)
            if self._denominator.bit_length() > MOST_DENOMINATOR_BITS:
                raise CostError(f"{where}: the file contains too many different denominators")
        return part

    def _part(self, value: Any, where: str, whole: Any) -> Part:
        if type(value) is int:
            if value not in self._numbers:
                self._numbers[value] = number(value)
            return self._numbers[value]
        if isinstance(value, str):
            return self._symbol(value, where)
        if not (isinstance(value, list) and len(value) > 1 and isinstance(value[0], str)):
            raise malformed(where, "wrong type", value, "an integer, a symbol or an expression")
        if value[0] not in builders():
            raise malformed(where, "unknown function", value[0], f"one of {', '.join(builders())}")
        symbols = self._symbols
        operands = [
            symbols[item] if type(item) is str and item in symbols else self._part(item, where, whole)
            for item in value[1:]
        ]
        key = (value[0], *map(id, operands))
        try:
            if key not in self._built:
                self._built[key] = build(value[0], operands)
            return self._built[key]
        except ValueError as error:
            raise CostError(f"{where}: {short_repr(whole)} is not a valid expression: {error}") from error

    def value(self, value: Any, where: str) -> Any:
        """Return the value of an attribute that :meth:`Encoder.value` encoded."""
        if isinstance(value, list):
            return tuple(self.value(item, where) for item in value)
        if not isinstance(value, dict):
            return value
        tag, content = next(iter(value.items()), ("", None))
        if len(value) != 1 or tag not in _TAGS:
            raise malformed(where, "unknown kind of attribute", value, f"an object with one key of {', '.join(_TAGS)}")
        if tag == "expr":
            return self.dim(content, where)
        if tag == "float" and content in ("inf", "-inf", "nan"):
            return float(content)
        if tag == "list" and isinstance(content, list):
            return [self.value(item, where) for item in content]
        if tag == "complex" and isinstance(content, list) and len(content) == 2:
            real_and_imaginary = [self.value(item, where) for item in content]
            if all(type(number) is float for number in real_and_imaginary):
                return complex(*real_and_imaginary)
        if tag == "map" and isinstance(content, list):
            pairs = [(self.value(pair[0], where), self.value(pair[1], where)) for pair in content if _is_pair(pair)]
            if len(pairs) == len(content):
                try:
                    return dict(pairs)
                except TypeError as error:
                    raise CostError(f"{where}: {error}") from error
        raise CostError(f"{where}: {short_repr(value)} is not a valid {tag}")

    def _symbol(self, key: str, where: str) -> Part:
        if key not in self._symbols:
            if key not in self._declared:
                raise CostError(f"{where}: symbol {short_repr(key)} is not declared in 'symbols'")
            name, assumptions = self._declared[key]
            try:
                declared = load_sympy().Symbol(name, **assumptions)
            except (ArithmeticError, TypeError, ValueError) as error:
                raise CostError(f"symbols: the assumptions of {short_repr(key)} are contradictory: {error}") from error
            if not declared.is_commutative or declared.is_zero or declared.is_integer is False:
                raise CostError(f"symbols: {short_repr(key)} cannot be a size: {short_repr(dict(assumptions))}")
            self._symbols[key] = symbol(declared)
        return self._symbols[key]


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2


# Construction of expressions from prefix form, within limits.


MOST_BITS = 4096
"""The maximum bits of a number, and of the sum of coefficients of an expanded expression."""

MOST_DENOMINATOR_BITS = 1024
"""The maximum bits of the common denominator of an expression."""

HIGHEST_POWER = 2 * HIGHEST_DEGREE_OF_SHAPE
"""The maximum degree of an expression, as of the product of the sizes of two tensors."""

DEEPEST_FUNCTIONS = DEEPEST + 8
"""The maximum nesting of functions: sizes have up to :data:`DEEPEST`, and formulas add some."""

MOST_LEVELS = 4 * DEEPEST_FUNCTIONS
"""The maximum nesting of an expression: each function may contain a sum of products of powers."""

MOST_PARTS = 1 << 12
"""The maximum number of operators, functions and operands of one expression."""

MOST_COMPARED = 64
"""The maximum number of operands of a minimum or maximum; sympy compares all pairs."""


class Part(NamedTuple):
    """An expression with bounds of its size.

    Attributes:
        value: an int, or an expression of sympy.
        bits: the bits of the sum of its coefficients.
        denominator: a common multiple of the denominators of its coefficients.
        inverse_bits: the bits that divisions by expressions add to the denominator of its value.
        degree: the number of symbols in the longest product.
        depth: the nesting depth of functions.
        levels: the nesting depth of operators and functions.
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
    """Apply a function to operands without evaluation.

    Expressions were simplified before they were written, so they are rebuilt unchanged.

    Args:
        function: a key of :func:`builders`.
        operands: its operands.

    Raises:
        ValueError: if the operands do not fit the function, or the expression is too large for a network.
    """
    return checked(builders()[function](operands))


def checked(part: Part) -> Part:
    """Check that a part is not too large for a network, and return it.

    Raises:
        ValueError: if it is too large.
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
    """Return the bounds of a product of dimensions; the product itself is not built."""
    return _combined_part(
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


def _combined_part(value: Any, operands: Sequence[Part], is_function: bool = False, **bounds: Any) -> Part:
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


def _check_operands(operands: Sequence[Part], least: int, most: int | None = None) -> None:
    # A function of numbers would have been simplified to its value.
    if len(operands) < least or (most is not None and len(operands) > most):
        raise ValueError(f"wrong number of arguments ({len(operands)})")
    numbers = [part for part in operands if part.is_number]
    if len(numbers) == len(operands) or len(numbers) > 1:
        raise ValueError("it is a function of numbers, which is not simplified")


def _sum(operands: Sequence[Part]) -> Part:
    _check_operands(operands, 2)
    return _combined_part(
        _unevaluated(load_sympy().Add, operands),
        operands,
        bits=max(part.bits for part in operands) + len(operands).bit_length(),
        denominator=math.lcm(*(part.denominator for part in operands)),
        inverse_bits=sum(part.inverse_bits for part in operands),
        degree=max(part.degree for part in operands),
        logarithm=any(part.logarithm for part in operands),
    )


def _product(operands: Sequence[Part]) -> Part:
    _check_operands(operands, 2)
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
        return _combined_part(1 / base.value, operands, logarithm=True)
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
    return _combined_part(_unevaluated(sympy.Pow, operands), operands, degree=base.degree * times, **bounds)


_SIZE_BITS = 7
"""The bits of a size when expressions are ranked, of :data:`costcore.numbers.RANKING_SIZE`."""


def _function(function: Any, least: int, most: int, rounds: bool = False) -> Callable[[Sequence[Part]], Part]:
    def apply(operands: Sequence[Part]) -> Part:
        _check_operands(operands, least, most)
        if any(part.logarithm for part in operands) and not rounds:
            raise ValueError("a logarithm must be rounded")
        if function is load_sympy().Mod and operands[1].value == 0:
            raise ValueError("a remainder needs a divisor other than zero")
        value = gcd(*(part.value for part in operands)) if function is gcd else _unevaluated(function, operands)
        return _combined_part(
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
    return _combined_part(
        value, operands, is_function=True, bits=operands[0].bits, degree=operands[0].degree, logarithm=True
    )


def _ratio(operands: Sequence[Part]) -> Part:
    if len(operands) != 2 or any(type(part.value) is not int for part in operands) or operands[1].value < 2:
        raise ValueError("a ratio needs two integers, the second one at least 2")
    p, q = (part.value for part in operands)
    if math.gcd(p, q) != 1:
        raise ValueError("a ratio needs two integers without a common divisor")
    return Part(load_sympy().Rational(p, q), p.bit_length(), q)
