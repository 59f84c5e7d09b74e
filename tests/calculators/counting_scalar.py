"""A scalar that counts its operations, to compare the definition of an operator with its formula.

A test writes the definition as plain loops over small numpy object arrays and counts its operations::

    def mean(x):                       # x: array of CountingScalar
        return total(x) / len(x)

    assert count(mean, (5,)) == Operations(add=4, div=1)

The counting convention:

* ``+ - abs`` and negation are ``add``, ``*`` is ``mul``, ``/ // %`` are ``div``, ``**`` is ``special``.
* ``< <= > >= == !=`` are ``cmp`` and return a plain bool, so ``max(a, b)`` and ``a if a > b else c`` are one ``cmp``.
  If both branches are computed, write ``select(a > b, c, d)``, which adds nothing to its comparison;
  ``select(condition, c, d)`` with a given condition is itself one ``cmp``.
* Bit operations and rounding (``math.floor``, ``math.ceil``, ``round``, ``math.trunc``) are ``cmp``.
* :func:`exp`, :func:`log`, :func:`sqrt` ... are one ``special`` each, also as ``np.exp`` on an array.
* ``fma`` is only an explicit :func:`fma` or :func:`dot`: ``a * b + c`` is ``mul`` and ``add``.
* Operations among plain Python numbers count nothing: index arithmetic and constants cost nothing.
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


class CountingScalar:
    """A float that counts its operations by class, in a Counter that it shares with other scalars."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: float, counts: Counter[str]) -> None:
        self.value = value
        self.counts = counts

    def record(self, kind: str, value: float) -> CountingScalar:
        """Count one operation of ``kind`` on this scalar, and return its result ``value`` as a scalar."""
        self.counts[kind] += 1
        return CountingScalar(value, self.counts)

    def __repr__(self) -> str:
        return f"CountingScalar({self.value})"


def value_of(number: Any) -> Any:
    """Return the plain value of a :class:`CountingScalar`, or a plain number itself."""
    return number.value if isinstance(number, CountingScalar) else number


def _binary(
    kind: str, function: Callable[[Any, Any], Any]
) -> tuple[Callable[..., CountingScalar], Callable[..., CountingScalar]]:
    def forward(self: CountingScalar, other: Any) -> CountingScalar:
        return self.record(kind, function(self.value, value_of(other)))

    def backward(self: CountingScalar, other: Any) -> CountingScalar:
        return self.record(kind, function(value_of(other), self.value))

    return forward, backward


def _unary(kind: str, function: Function) -> Callable[..., CountingScalar]:
    return lambda self, *_: self.record(kind, function(self.value))


def _comparison(function: Callable[[Any, Any], Any]) -> Callable[[CountingScalar, Any], bool]:
    return lambda self, other: bool(self.record("cmp", function(self.value, value_of(other))).value)


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
    setattr(CountingScalar, f"__{_name}__", _forward)
    setattr(CountingScalar, f"__r{_name}__", _backward)
for _name, (_kind, _value) in _UNARY.items():
    setattr(CountingScalar, f"__{_name}__", _unary(_kind, _value))
for _name, _compare in _COMPARISON.items():
    setattr(CountingScalar, f"__{_name}__", _comparison(_compare))


def special(function: Callable[..., float]) -> Callable[..., Any]:
    """Return a function of plain floats as one ``special`` on scalars; nan outside its domain."""

    def evaluate(*arguments: Any) -> Any:
        owner = next((a for a in arguments if isinstance(a, CountingScalar)), None)
        try:
            value = function(*map(value_of, arguments))
        except ValueError:
            value = math.nan
        return value if owner is None else owner.record("special", value)

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
    setattr(CountingScalar, _name, globals()[_name])  # numpy's functions on object arrays call these methods


def fma(a: Any, b: Any, c: Any) -> Any:
    """Return ``a * b + c`` as one fused operation."""
    owner = next((n for n in (a, b, c) if isinstance(n, CountingScalar)), None)
    value = value_of(a) * value_of(b) + value_of(c)
    return value if owner is None else owner.record("fma", value)


def dot(a: Iterable[Any], b: Iterable[Any], start: Any = None) -> Any:
    """Return a dot product: with a ``start`` n fma, without one 1 mul and n - 1 fma."""
    for p, q in zip(a, b, strict=True):
        start = p * q if start is None else fma(p, q, start)
    return start


def select(condition: Any, a: Any, b: Any) -> Any:
    """Return ``a`` if the condition holds, else ``b``: one ``cmp`` unless it is a counted comparison.

    The result is a scalar if a or b is one.
    """
    if isinstance(condition, CountingScalar):
        condition = condition.record("cmp", condition.value).value
    owner = next((n for n in (a, b) if isinstance(n, CountingScalar)), None)
    value = value_of(a if condition else b)
    return value if owner is None else CountingScalar(value, owner.counts)


def maximum(a: Any, b: Any) -> Any:
    """Return the larger of two as a scalar: one ``cmp``."""
    return select(a > b, a, b)


def minimum(a: Any, b: Any) -> Any:
    """Return the smaller of two as a scalar: one ``cmp``."""
    return select(a < b, a, b)


def total(values: Iterable[Any]) -> Any:
    """Return the sum of n values: n - 1 add."""
    return reduce(lambda a, b: a + b, values)


def largest(values: Iterable[Any]) -> Any:
    """Return the maximum of n values: n - 1 cmp."""
    return reduce(lambda a, b: b if b > a else a, values)


def counting_array(shape: Sequence[int], counts: Counter[str]) -> Any:
    """Return an object array of distinct scalars in (0, 1); a bare scalar for the shape ``()``."""
    array = np.empty(tuple(shape), dtype=object)
    for i, index in enumerate(np.ndindex(array.shape)):
        array[index] = CountingScalar((i + 1) / (array.size + 1), counts)
    return array[()]


def run(definition: Callable[..., Any], *shapes: Sequence[int]) -> tuple[Any, Operations]:
    """Return the result of ``definition`` on one array of scalars per shape, and its operations."""
    counts: Counter[str] = Counter()
    result = definition(*(counting_array(shape, counts) for shape in shapes))
    return result, Operations(**counts)


def count(definition: Callable[..., Any], *shapes: Sequence[int]) -> Operations:
    """Return the operations of ``definition`` on one array of scalars per shape."""
    return run(definition, *shapes)[1]


class _Names(dict[str, Any]):
    """The names of a definition; an unknown name is a function of one ``special``."""

    def __missing__(self, name: str) -> Any:
        return special(lambda *_: math.nan)


def execute(definition: str, **arguments: Any) -> Any:
    """Return the value of a definition of a calculator's table, such as ``"x / (1 + exp(-x))"``.

    ``"s = 1 + x; s * s"`` names an intermediate result. ``where(c, a, b)``, ``min`` and ``max`` of two are one ``cmp``,
    ``fma`` is one fma. Functions of this module keep their meaning, other functions are one ``special``. ``fmod`` is a
    ``div``; functions that change single bits of a float (``copysign``, ``nextafter``) are a ``cmp``; ``imag`` counts
    nothing.
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
    """Return the value of a definition on scalars, and its operations; attributes are constants.

    Operands are ``"x"`` (the scalar 0.5), or have a value, ``"x=-1.5"``.
    """
    counts: Counter[str] = Counter()
    given = (operand.partition("=") for operand in operands)
    arguments = {name: CountingScalar(float(value or 0.5), counts) for name, _, value in given}
    result = execute(definition, **arguments, **settings)
    return value_of(result), Operations(**counts)
