"""Sources of operands and attributes in the arguments of a Chainer function.

The arguments of a function are:

* ``function``: the function object, with its options as attributes;
* ``inputs``: its input arrays, in Chainer's order;
* ``origin``: the function whose backward pass runs this one; None in the forward pass;
* ``gradients``: the gradients of its outputs, only for a backward pass that no other function computes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy

from costcore.translate import Arguments, Row, Source

from ..arrays import PREFIX, array_of, is_array, running_function_requires_gradient

ARGUMENTS = ("function", "inputs", "origin", "gradients")
"""The names of all arguments."""


def row(name: str, op: str | Callable[[Arguments], str], inputs: Mapping[str, Source], **attrs: Source) -> Row:
    """Return the row of one of Chainer's own functions."""
    return Row(PREFIX + name, op, inputs, attrs)


def rows_by_name(ops: Mapping[str, str], inputs: Mapping[str, Source], **attrs: Source) -> Iterable[Row]:
    """Return the rows of functions that differ only in name: canonical operators by Chainer's names."""
    return [row(name, op, inputs, **attrs) for name, op in ops.items()]


def input_at(index: int) -> Source:
    """Read the input at a position; None if the function has fewer inputs."""
    return lambda args: args["inputs"][index] if index < len(args["inputs"]) else None


def operands(*names: str) -> Mapping[str, Source]:
    """Feed the inputs, in order, to the operands of these names."""
    return {name: input_at(i) for i, name in enumerate(names)}


def output_gradient(index: int) -> Source:
    """Read the gradient of the output at a position; None if it was not computed."""
    return lambda args: args["gradients"][index] if index < len(args["gradients"]) else None


X = operands("x")
X0_X1 = operands("x0", "x1")
DY = operands("dy")
X_DY = operands("x", "dy")
Y_DY = operands("y", "dy")
ALL_INPUTS: Mapping[str, Source] = {"x*": "inputs"}


def attribute(name: str) -> Source:
    """Read an attribute of the function object; None if it has none of that name."""
    return lambda args: getattr(args["function"], name, None)


def attributes(*names: str) -> Source:
    """Read several attributes of the function object as a tuple."""
    return lambda args: tuple(getattr(args["function"], name) for name in names)


def array_attribute(name: str) -> Source:
    """Read an attribute of the function object; None if it does not hold an array."""

    def read(args: Arguments) -> Any:
        value = array_of(getattr(args["function"], name, None))
        return value if is_array(value) else None

    return read


def with_saved_array(name: str) -> Callable[[Arguments, Sequence[Any]], Sequence[Any]]:
    """Return the outputs, and the array saved in an attribute if a backward pass can follow.

    The array is also an output of a function called with ``return_indices``.
    """

    def read(args: Arguments, outputs: Sequence[Any]) -> Sequence[Any]:
        function = args["function"]
        if getattr(function, "return_indices", False) or running_function_requires_gradient():
            return (*outputs, getattr(function, name, None))
        return outputs

    return read


def constant(value: Any) -> Source:
    """Return the same value for every call."""
    return lambda args: value


def axis(args: Arguments) -> int | None:
    """Read the attribute ``axis`` as a non-negative axis."""
    return non_negative_axis(args["function"].axis, args["inputs"][0].ndim)


def axes(args: Arguments) -> tuple[int, ...]:
    """Read the attribute ``axis`` as a tuple of non-negative axes; all axes if it is None."""
    given, ndim = args["function"].axis, args["inputs"][0].ndim
    if given is None:
        return tuple(range(ndim))
    return tuple(i % ndim for i in (given if isinstance(given, tuple) else (given,)))


def non_negative_axis(given: int | None, ndim: int) -> int | None:
    """Count an axis from the front; None stays None."""
    return None if given is None else given % max(ndim, 1)


WINDOW_2D: Mapping[str, Source] = {
    "kernel": attributes("kh", "kw"),
    "stride": attributes("sy", "sx"),
    "padding": attributes("ph", "pw"),
}
"""The sliding window of functions with two spatial dimensions."""


def pooling_attribute(name: str) -> Source:
    """Read an attribute, or an array, of the pooling function of this gradient."""
    return lambda args: array_of(getattr(args["function"].func, name))


def index_arrays(args: Arguments) -> list[Any]:
    """Return the arrays among the indices of ``x[...]``; a list of integers becomes an array."""
    return [
        numpy.asarray(index) if isinstance(index, list) else index
        for index in args["function"].slices
        if is_array(index) or isinstance(index, list)
    ]
