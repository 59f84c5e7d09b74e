"""Dimensions, symbolic expressions and attributes as plain JSON values, and back. No text is ever evaluated."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from costcore.errors import CostError
from costcore.messages import short_repr
from costcore.numbers.dims import Dim, is_symbolic
from costcore.reports.serialization.expression_parts import (
    MOST_DENOMINATOR_BITS,
    Part,
    build,
    builders,
    checked,
    load_sympy,
    number,
    product,
    symbol,
)

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
"""The assumptions of most symbols. All assumptions of any other symbol are written."""

_TAGS = ("expr", "float", "complex", "list", "map")
"""Keys of the objects that represent attribute values that JSON does not have."""


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
        keys: the keys of symbols that are declared already.

    Attributes:
        symbols: name and assumptions of each symbol encoded so far, by the key that stands for it in the file.
        tables: the layers and the costs, each of which is written once.
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
        """Return the key of a symbol: its name, with a number if another symbol has the same name."""
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
        to_entry: returns the entry of an object; called once per object, which must outlive this one.

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

    Every method takes ``where``, the location in the file that error messages state.

    Args:
        symbols: name and assumptions of the symbols of the file, by key.

    Attributes:
        tables: the layers and the costs of the file.
        parameters: the parameters that it declares.
        n_calls: the number of its calls, and ``n_module_calls`` that of its module calls.
    """

    def __init__(self, symbols: Mapping[str, tuple[str, Mapping[str, bool]]]) -> None:
        self._declared = symbols
        self.tables: dict[str, Sequence[Any]] = {}
        self.parameters: Mapping[int, Dim] = {}
        self.n_calls = self.n_module_calls = 0
        self._symbols: dict[str, Part] = {}
        self._numbers: dict[int, Part] = {}
        self._built: dict[tuple[object, ...], Part] = {}
        """The expressions by function and the ids of their operands: equal parts are one object."""
        self._shapes: dict[tuple[int, ...], tuple[Dim, ...]] = {}
        self._denominator = 1

    @property
    def keys(self) -> dict[Any, str]:
        """The key of each symbol that occurred so far."""
        return {part.value: key for key, part in self._symbols.items()}

    def dim(self, value: Any, where: str) -> Dim:
        """Return the dimension that :meth:`Encoder.dim` encoded.

        Raises:
            CostError: if it is not one, or larger than that of a network.
        """
        if type(value) is int:
            return value
        return self._in_total(self._part(value, where, value), where).value

    def shape(self, sizes: Iterable[Any], where: str) -> tuple[Dim, ...]:
        """Return dimensions whose product is not larger than that of a network.

        Raises:
            CostError: if it is, or one of them is not a dimension.
        """
        parts = [self._part(size, where, size) for size in sizes]
        key = tuple(map(id, parts))
        if key not in self._shapes:
            shape = tuple([part.value for part in parts])
            try:
                self._in_total(checked(product(parts)), where)
            except ValueError as error:
                raise CostError(f"{where}: {short_repr(list(shape))} is not a shape: {error}") from error
            self._shapes[key] = shape
        return self._shapes[key]

    def _in_total(self, part: Part, where: str) -> Part:
        """Check that sums of amounts have a denominator that is not too large, and return the amount."""
        if part.denominator != 1:
            self._denominator = math.lcm(self._denominator, part.denominator)
            if self._denominator.bit_length() > MOST_DENOMINATOR_BITS:
                raise CostError(f"{where}: the file contains too many different denominators")
        return part

    def _part(self, value: Any, where: str, whole: Any) -> Part:
        """Return a part of an expression, with its bounds; ``whole`` is the expression, for messages."""
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
