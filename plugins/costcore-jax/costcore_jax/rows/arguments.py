"""Sources of operands and attributes: the inputs, the outputs and the parameters of an equation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from costcore.translate import Arguments, Row, Source

from ..capture.dims import dim_of
from ..capture.values import Value


def operand(index: int) -> Callable[[Arguments], Any]:
    """Return a source for the input of that number; None if there is none."""
    return lambda a: a["inputs"][index] if index < len(a["inputs"]) else None


def output(index: int) -> Callable[[Arguments], Value]:
    """Return a source for the output of that number."""

    def read(a: Arguments) -> Value:
        value: Value = a["outputs"][index]
        return value

    return read


def sizes(name: str) -> Callable[[Arguments], Any]:
    """Return a source for a parameter that is a list of sizes."""
    return lambda a: None if a.get(name) is None else tuple(map(dim_of, a[name]))


def axes(name: str) -> Callable[[Arguments], Any]:
    """Return a source for a parameter that is an axis, or a list of axes."""
    return lambda a: tuple(map(int, a[name])) if isinstance(a[name], (tuple, list)) else int(a[name])


X: Mapping[str, Source] = {"x": operand(0)}
XS: Mapping[str, Source] = {"x*": "inputs"}


def row(primitive: str, op: str, inputs: Mapping[str, Source] = X, **attrs: Source) -> Row:
    """Return the row of a primitive."""
    return Row(f"jax::{primitive}", op, inputs, attrs)


def constant(value: Any) -> Callable[[Arguments], Any]:
    """Return a source for a value that does not depend on the arguments."""
    return lambda a: value


def is_bool(a: Arguments) -> bool:
    """Return whether the first input is bool."""
    return bool(a["inputs"][0].dtype == "bool")
