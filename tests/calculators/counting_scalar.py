"""A number that counts what is done to it: runs an operator's definition, so that a formula can be held against it.

A test writes the definition as plain loops over small numpy object arrays, and asks what it took::

    def mean(x):                       # x: array of Number
        return total(x) / len(x)

    assert count(mean, (5,)) == Operations(add=4, div=1)

What counts as what (COUNTING.md, principles 2 and 3):

* ``+ - abs`` and negation are ``add``, ``*`` is ``mul``, ``/ // %`` are ``div``, ``**`` is ``special``;
* ``< <= > >= == !=`` are ``cmp`` and give a plain bool, so ``max(a, b)`` and ``a if a > b else c`` are one ``cmp``;
  where both branches are computed write ``select(a > b, c, d)``, which adds nothing to its comparison, while
  ``select(condition, c, d)`` with a condition that is given is itself one ``cmp``;
* bit operations and rounding (``math.floor``, ``math.ceil``, ``round``, ``math.trunc``) is ``cmp``;
* :func:`exp`, :func:`log`, :func:`sqrt` ... are one ``special`` each, also as ``np.exp`` on an array;
* ``fma`` is only what the definition calls so, by :func:`fma` or :func:`dot`: ``a * b + c`` is ``mul`` and ``add``;
* plain Python numbers count nothing among themselves: index arithmetic and constants are free.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from costcore.ir import Operations

Function = Callable[[Any], Any]


class Number:
    """A float whose operations are counted, by kind, into the :class:`collections.Counter` it shares with others."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: float, counts: Counter[str]) -> None:
        self.value = value
        self.counts = counts

    def did(self, kind: str, value: float) -> Number:
        """The result ``value`` of one operation of ``kind`` on this number."""
        self.counts[kind] += 1
        return Number(value, self.counts)

    def __repr__(self) -> str:
        return f"Number({self.value})"


def value_of(number: Any) -> Any:
    """The plain value of a :class:`Number`, or of a plain number."""
    return number.value if isinstance(number, Number) else number


def _binary(kind: str, function: Callable[[Any, Any], Any]) -> tuple[Callable[..., Number], Callable[..., Number]]:
    def forward(self: Number, other: Any) -> Number:
        return self.did(kind, function(self.value, value_of(other)))

    def backward(self: Number, other: Any) -> Number:
        return self.did(kind, function(value_of(other), self.value))

    return forward, backward


def _unary(kind: str, function: Function) -> Callable[..., Number]:
    return lambda self, *_: self.did(kind, function(self.value))


def _comparison(function: Callable[[Any, Any], Any]) -> Callable[[Number, Any], bool]:
    return lambda self, other: bool(self.did("cmp", function(self.value, value_of(other))).value)


_BINARY: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "add": ("add", lambda a, b: a + b),
    "sub": ("add", lambda a, b: a - b),
    "mul": ("mul", lambda a, b: a * b),
    "truediv": ("div", lambda a, b: a / b),
    "floordiv": ("div", lambda a, b: a // b),
    "mod": ("div", lambda a, b: a % b),
    "pow": ("special", lambda a, b: a**b),
    "and": ("cmp", lambda a, b: int(a) & int(b)),
    "or": ("cmp", lambda a, b: int(a) | int(b)),
    "xor": ("cmp", lambda a, b: int(a) ^ int(b)),
    "lshift": ("cmp", lambda a, b: int(a) << int(b)),
    "rshift": ("cmp", lambda a, b: int(a) >> int(b)),
}
_UNARY: dict[str, tuple[str, Function]] = {
    "neg": ("add", lambda a: -a),
    "abs": ("add", abs),
    "invert": ("cmp", lambda a: ~int(a)),
    "floor": ("cmp", math.floor),
    "ceil": ("cmp", math.ceil),
    "trunc": ("cmp", math.trunc),
    "round": ("cmp", round),
}
_COMPARISON: dict[str, Callable[[Any, Any], bool]] = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}
for _name, (_kind, _function) in _BINARY.items():
    _forward, _backward = _binary(_kind, _function)
    setattr(Number, f"__{_name}__", _forward)
    setattr(Number, f"__r{_name}__", _backward)
for _name, (_kind, _value) in _UNARY.items():
    setattr(Number, f"__{_name}__", _unary(_kind, _value))
for _name, _compare in _COMPARISON.items():
    setattr(Number, f"__{_name}__", _comparison(_compare))


def special(function: Callable[..., float]) -> Callable[..., Any]:
    """``function``, a function of plain floats, as one ``special`` on numbers; not a number outside its domain."""

    def evaluate(*arguments: Any) -> Any:
        owner = next((a for a in arguments if isinstance(a, Number)), None)
        try:
            value = function(*map(value_of, arguments))
        except ValueError:
            value = math.nan
        return value if owner is None else owner.did("special", value)

    return evaluate


exp, expm1, log, log1p, log2, log10 = map(special, (math.exp, math.expm1, math.log, math.log1p, math.log2, math.log10))
sqrt, erf, erfc, lgamma, power = map(special, (math.sqrt, math.erf, math.erfc, math.lgamma, math.pow))
sin, cos, tan, asin, acos, atan, atan2 = map(
    special, (math.sin, math.cos, math.tan, math.asin, math.acos, math.atan, math.atan2)
)
sinh, cosh, tanh, asinh, acosh, atanh = map(
    special, (math.sinh, math.cosh, math.tanh, math.asinh, math.acosh, math.atanh)
)
for _name in ("exp", "expm1", "log", "log1p", "log2", "log10", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh"):
    setattr(Number, _name, globals()[_name])  # numpy's functions on object arrays call these methods


def fma(a: Any, b: Any, c: Any) -> Any:
    """``a * b + c`` as one fused operation."""
    owner = next((n for n in (a, b, c) if isinstance(n, Number)), None)
    value = value_of(a) * value_of(b) + value_of(c)
    return value if owner is None else owner.did("fma", value)


def dot(a: Iterable[Any], b: Iterable[Any], start: Any = None) -> Any:
    """Dot product: onto ``start`` n fma, onto nothing 1 mul and n - 1 fma."""
    for p, q in zip(a, b, strict=True):
        start = p * q if start is None else fma(p, q, start)
    return start


def select(condition: Any, a: Any, b: Any) -> Any:
    """``a`` where the condition holds, else ``b``: one ``cmp``, unless ``condition`` is a comparison counted already.

    The result is a number where a or b is one.
    """
    if isinstance(condition, Number):
        condition = condition.did("cmp", condition.value).value
    owner = next((n for n in (a, b) if isinstance(n, Number)), None)
    value = value_of(a if condition else b)
    return value if owner is None else Number(value, owner.counts)


def maximum(a: Any, b: Any) -> Any:
    """The larger of two: one ``cmp``, and a number whichever it is."""
    return select(a > b, a, b)


def minimum(a: Any, b: Any) -> Any:
    """The smaller of two: one ``cmp``, and a number whichever it is."""
    return select(a < b, a, b)


def total(values: Iterable[Any]) -> Any:
    """The sum of n values: n - 1 add."""
    return reduce(lambda a, b: a + b, values)


def largest(values: Iterable[Any]) -> Any:
    """The maximum of n values: n - 1 cmp."""
    return reduce(lambda a, b: b if b > a else a, values)


def numbers(shape: Sequence[int], counts: Counter[str]) -> Any:
    """A numpy object array of numbers in (0, 1), all different; for the shape ``()`` a bare :class:`Number`."""
    array = np.empty(tuple(shape), dtype=object)
    for i, index in enumerate(np.ndindex(array.shape)):
        array[index] = Number((i + 1) / (array.size + 1), counts)
    return array[()]


def run(definition: Callable[..., Any], *shapes: Sequence[int]) -> tuple[Any, Operations]:
    """The result of ``definition`` on one array of numbers a shape, and what it took."""
    counts: Counter[str] = Counter()
    result = definition(*(numbers(shape, counts) for shape in shapes))
    return result, Operations(**counts)


def count(definition: Callable[..., Any], *shapes: Sequence[int]) -> Operations:
    """What ``definition`` takes on one array of numbers a shape, by kind."""
    return run(definition, *shapes)[1]


class _Names(dict[str, Any]):
    """What the words of a definition mean; a word that is told nowhere is a function of one ``special``."""

    def __missing__(self, name: str) -> Any:
        return special(lambda *_: math.nan)


def execute(definition: str, **arguments: Any) -> Any:
    """The value of a definition as calculators' tables have it, ``"x / (1 + exp(-x))"``.

    ``"s = 1 + x; s * s"`` names something computed once. ``where(c, a, b)``, ``min`` and ``max`` of two take a ``cmp``,
    ``fma`` is one; functions of this module mean what they do here, other functions take one ``special``; ``fmod`` is a
    ``div``, what changes single bits of a float (``copysign``, ``nextafter``) a ``cmp``, and ``imag`` takes nothing.
    """
    known = {name: globals()[name] for name in globals() if not name.startswith("_")}
    words = {"where": select, "max": maximum, "min": minimum, "floor": math.floor, "ceil": math.ceil, "round": round}
    more = {"trunc": math.trunc, "abs": abs, "pi": math.pi, "inf": math.inf, "imag": lambda x: x, "fmod": operator.mod}
    bits = {"copysign": operator.xor, "nextafter": operator.xor}
    names = _Names({**known, **words, **more, **bits, **arguments})
    *steps, result = definition.split("; ")
    for step in steps:
        name, expression = step.split(" = ", 1)
        names[name] = eval(expression, {"__builtins__": {}}, names)
    return eval(result, {"__builtins__": {}}, names)


def measure(definition: str, *operands: str, **settings: Any) -> tuple[Any, Operations]:
    """The value of a definition on numbers, and what it took; settings are constants.

    Operands are ``"x"`` (the number 0.5), or with their value ``"x=-1.5"``.
    """
    counts: Counter[str] = Counter()
    given = (operand.partition("=") for operand in operands)
    arguments = {name: Number(float(value or 0.5), counts) for name, _, value in given}
    result = execute(definition, **arguments, **settings)
    return value_of(result), Operations(**counts)
