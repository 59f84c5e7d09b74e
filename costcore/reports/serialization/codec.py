"""Dimensions, expressions and settings as plain JSON values, and back; nothing is ever evaluated from text."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from costcore.dims import Dim, gcd, is_symbolic
from costcore.errors import CostError
from costcore.messages import shortly

HEADS = {
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
"""First words of the prefix form of expressions, ``["add", "n", 1]``, by the class of the expression."""

ASSUMED: tuple[tuple[str, ...], ...] = (("integer", "positive"), ("integer", "nonnegative"), ("integer",), ())
"""What most symbols are; others carry everything they assume."""

LARGEST_POWER = 10_000
"""Bits of a power of numbers that is still taken from a file."""

_TAGS = ("expr", "float", "complex", "list", "map")


class Encoder:
    """Turns values into JSON values.

    Attributes:
        symbols: what the symbols met so far are, by the word they are written as.
    """

    def __init__(self) -> None:
        self.symbols: dict[str, dict[str, Any]] = {}
        self._words: dict[Any, str] = {}

    def dim(self, value: Dim | None) -> Any:
        """An int as it is, a symbol as its word, another expression in prefix form.

        Raises:
            CostError: for an expression with something that is not among :data:`HEADS`.
        """
        if value is None or not is_symbolic(value):
            return value if value is None else operator.index(value)
        expression: Any = value
        if expression.is_Integer:
            return int(expression)
        if expression.is_Rational:
            return ["ratio", int(expression.p), int(expression.q)]
        if expression.is_Symbol:
            return self._word(expression)
        head = HEADS.get(type(expression).__name__)
        if head is None:
            raise CostError(f"the expression {value} has {type(value).__name__}, which a report file cannot hold")
        return [head, *map(self.dim, expression.args)]

    def value(self, value: Any) -> Any:
        """A setting: numbers, strings, None, symbols, and tuples, lists and mappings of these.

        Raises:
            CostError: for anything else; names its type.
        """
        if value is None or isinstance(value, (bool, str)):
            return value
        if is_symbolic(value):
            return {"expr": self.dim(value)}
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else {"float": repr(float(value))}
        if isinstance(value, complex):
            return {"complex": [self.value(value.real), self.value(value.imag)]}
        if isinstance(value, tuple):
            return [self.value(part) for part in value]
        if isinstance(value, list):
            return {"list": [self.value(part) for part in value]}
        if isinstance(value, Mapping):
            return {"map": [[self.value(key), self.value(part)] for key, part in value.items()]}
        try:
            return operator.index(value)
        except TypeError:
            raise CostError(
                f"the setting {value!r} is of type {type(value).__name__}, which a report file cannot hold; "
                "it holds numbers, strings, None, and tuples, lists and dicts of these"
            ) from None

    def _word(self, symbol: Any) -> str:
        from sympy import Symbol

        if symbol not in self._words:
            if type(symbol) is not Symbol:
                raise CostError(f"the symbol {symbol} is a {type(symbol).__name__}, which a report file cannot hold")
            word, n = symbol.name, 1
            while word in self.symbols:
                n += 1
                word = f"{symbol.name}#{n}"
            usual = next((a for a in ASSUMED if Symbol(symbol.name, **dict.fromkeys(a, True)) == symbol), None)
            assumed = dict(symbol.assumptions0) if usual is None else dict.fromkeys(usual, True)
            self._words[symbol] = word
            self.symbols[word] = {"name": symbol.name, "assumptions": dict(sorted(assumed.items()))}
        return self._words[symbol]


class Decoder:
    """Turns JSON values back; ``symbols`` is the table of the file.

    Every method takes ``where``, the place in the file for the sentence of its CostError.
    """

    def __init__(self, symbols: Mapping[str, tuple[str, Mapping[str, bool]]]) -> None:
        self._table = symbols
        self._symbols: dict[str, Any] = {}

    def dim(self, value: Any, where: str) -> Dim:
        """A dimension as :meth:`Encoder.dim` wrote it."""
        if type(value) is int:
            return value
        if isinstance(value, str):
            return self._symbol(value, where)
        if not (isinstance(value, list) and len(value) > 1 and isinstance(value[0], str)):
            raise CostError(f"{where}: expected an integer, a symbol or an expression, got {shortly(value)}")
        build = _builders().get(value[0])
        if build is None:
            raise CostError(f"{where}: unknown expression {shortly(value[0])}; known are {', '.join(_builders())}")
        parts = [self.dim(part, where) for part in value[1:]]
        try:
            return build(*parts)
        except (ArithmeticError, AttributeError, TypeError, ValueError) as error:
            raise CostError(f"{where}: {shortly(value)} is no expression: {error}") from error

    def value(self, value: Any, where: str) -> Any:
        """A setting as :meth:`Encoder.value` wrote it."""
        if isinstance(value, list):
            return tuple(self.value(part, where) for part in value)
        if not isinstance(value, dict):
            return value
        tag, content = next(iter(value.items()), ("", None))
        if len(value) != 1 or tag not in _TAGS:
            raise CostError(f"{where}: expected one of {', '.join(_TAGS)}, got {shortly(value)}")
        if tag == "expr":
            return self.dim(content, where)
        if tag == "float" and content in ("inf", "-inf", "nan"):
            return float(content)
        if tag == "list" and isinstance(content, list):
            return [self.value(part, where) for part in content]
        if tag == "complex" and isinstance(content, list) and len(content) == 2:
            parts = [self.value(part, where) for part in content]
            if all(type(part) is float for part in parts):
                return complex(*parts)
        if tag == "map" and isinstance(content, list):
            pairs = [(self.value(pair[0], where), self.value(pair[1], where)) for pair in content if _is_pair(pair)]
            if len(pairs) == len(content):
                try:
                    return dict(pairs)
                except TypeError as error:
                    raise CostError(f"{where}: {error}") from error
        raise CostError(f"{where}: {shortly(value)} is no {tag}")

    def _symbol(self, word: str, where: str) -> Any:
        if word not in self._symbols:
            if word not in self._table:
                raise CostError(f"{where}: {shortly(word)} is not among the symbols of the file")
            name, assumptions = self._table[word]
            try:
                self._symbols[word] = _sympy().Symbol(name, **assumptions)
            except (ArithmeticError, TypeError, ValueError) as error:
                raise CostError(f"symbols: {shortly(word)} contradicts itself: {error}") from error
        return self._symbols[word]


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2


def _sympy() -> Any:
    try:
        import sympy
    except ImportError as error:
        raise CostError(
            'a report with symbolic dimensions needs sympy; install it with: pip install "costcore[onnx]"'
        ) from error
    return sympy


@cache
def _builders() -> Mapping[str, Callable[..., Any]]:
    """What makes each expression of its parts, as it was written: simplified before, and not again."""
    sympy = _sympy()

    def keep(kind: Any, least: int, most: int | None) -> Callable[..., Any]:
        def build(*parts: Any) -> Any:
            if len(parts) < least or (most is not None and len(parts) > most):
                raise ValueError(f"{len(parts)} parts")
            return kind(*map(sympy.sympify, parts), evaluate=False)

        return build

    def bits(part: Any) -> int:
        """A bound of the digits that a part could come to where it is evaluated."""
        if part.is_Rational:
            return int(max(abs(part.p), part.q)).bit_length()
        if part.is_Pow:
            return bits(part.base) * largest(part.exp)
        return 1 + sum(map(bits, part.args))

    def largest(exponent: Any) -> int:
        return max((int(max(abs(n.p), n.q)) for n in exponent.atoms(sympy.Rational)), default=1)

    def power(base: Any, exponent: Any) -> Any:
        built = keep(sympy.Pow, 2, 2)(base, exponent)
        if bits(built) > LARGEST_POWER:
            raise ValueError("the power is too large")
        return built

    def ratio(p: Any, q: Any) -> Any:
        if type(p) is not int or type(q) is not int or q == 0:
            raise ValueError("a ratio is of two integers")
        return sympy.Rational(p, q)

    return {
        "add": keep(sympy.Add, 2, None),
        "mul": keep(sympy.Mul, 2, None),
        "pow": power,
        "floor": keep(sympy.floor, 1, 1),
        "ceiling": keep(sympy.ceiling, 1, 1),
        "mod": keep(sympy.Mod, 2, 2),
        "min": keep(sympy.Min, 2, None),
        "max": keep(sympy.Max, 2, None),
        "abs": keep(sympy.Abs, 1, 1),
        "log": keep(sympy.log, 1, 1),
        "gcd": gcd,
        "ratio": ratio,
    }
