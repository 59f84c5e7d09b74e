"""The words the tables are written in: where operands and settings of a function are found.

The arguments of a function are ``function``, the object that holds its settings, ``inputs``, its arrays in Chainer's
order, ``origin``, the function whose backward runs it (None in the forward pass), and, for a backward that no function
computes, ``gradients``, those of its outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import chainer
import numpy

from costcore.translate import Arguments, Row, Source

from ..arrays import is_array
from ..naming import PREFIX

ARGUMENTS = ("function", "inputs", "origin", "gradients")
"""All of them."""


def row(name: str, op: str | Callable[[Arguments], str], inputs: Mapping[str, Source], **attrs: Source) -> Row:
    """The row of one of Chainer's functions."""
    return Row(PREFIX + name, op, inputs, attrs)


def same_rows(ops: Mapping[str, str], inputs: Mapping[str, Source], **attrs: Source) -> Iterable[Row]:
    """Rows of functions that differ in nothing but their names: neutral by Chainer's."""
    return [row(name, op, inputs, **attrs) for name, op in ops.items()]


def at(index: int) -> Source:
    """The input of that number, where it is given."""
    return lambda args: args["inputs"][index] if index < len(args["inputs"]) else None


def named(*operands: str) -> Mapping[str, Source]:
    """The inputs in order, under these names."""
    return {operand: at(i) for i, operand in enumerate(operands)}


def gradient(index: int) -> Source:
    """The gradient of the output of that number, in a backward that no function computes, where it is given."""
    return lambda args: args["gradients"][index] if index < len(args["gradients"]) else None


X = named("x")
X0_X1 = named("x0", "x1")
ALL: Mapping[str, Source] = {"x*": "inputs"}


def setting(name: str) -> Source:
    """An attribute of the function: a setting, or an array it holds; None where it has none of that name."""
    return lambda args: getattr(args["function"], name, None)


def settings(*names: str) -> Source:
    """Several attributes as a tuple."""
    return lambda args: tuple(getattr(args["function"], name) for name in names)


def array(name: str) -> Source:
    """An array the function holds as an attribute, where it is one."""

    def held(args: Arguments) -> Any:
        value = getattr(args["function"], name, None)
        value = value.array if isinstance(value, chainer.Variable) else value
        return value if is_array(value) else None

    return held


def constant(value: Any) -> Source:
    """The same for every call."""
    return lambda args: value


def axis(args: Arguments) -> int | None:
    """The setting ``axis``, counted from the front."""
    return from_front(args["function"].axis, args["inputs"][0].ndim)


def axes(args: Arguments) -> tuple[int, ...]:
    """The setting ``axis`` as a tuple, counted from the front; all axes where it is None."""
    given, ndim = args["function"].axis, args["inputs"][0].ndim
    if given is None:
        return tuple(range(ndim))
    return tuple(i % ndim for i in (given if isinstance(given, tuple) else (given,)))


def from_front(given: int | None, ndim: int) -> int | None:
    """An axis counted from the front."""
    return None if given is None else given % max(ndim, 1)


def kernel_of(index: int) -> Source:
    """The spatial sizes of a weight: all but its first two."""
    return lambda args: tuple(args["inputs"][index].shape[2:])


def permutation(transposed: Callable[[Any, Any], Any]) -> Source:
    """Where the axes of the output come from, by doing to an array whose sizes number its axes what is done to x."""
    return lambda args: transposed(numpy.broadcast_to(0, range(args["inputs"][0].ndim)), args["function"]).shape
