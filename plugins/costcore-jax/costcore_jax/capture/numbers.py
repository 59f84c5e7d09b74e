"""Arithmetic on literals: sizes, counts and scales that a function computes while it is traced."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .values import Value

FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "add": operator.add,
    "clamp": lambda low, x, high: min(max(x, low), high),
    "eq": operator.eq,
    "ge": operator.ge,
    "gt": operator.gt,
    "le": operator.le,
    "lt": operator.lt,
    "max": max,
    "min": min,
    "mul": operator.mul,
    "ne": operator.ne,
    "neg": operator.neg,
    "sqrt": math.sqrt,
    "sub": operator.sub,
}

PASSED_ON = frozenset(("broadcast_in_dim", "convert_element_type", "copy", "reshape", "squeeze", "stop_gradient"))
"""Primitives whose output is their input everywhere."""


def number_of(primitive: str, inputs: Sequence[Value], dtype: str) -> Any:
    """Return the number that a primitive makes of literals; None if it is unknown.

    Args:
        primitive: its name.
        inputs: its inputs.
        dtype: the dtype of its output.
    """
    numbers = [value.number for value in inputs]
    if not numbers or any(not isinstance(number, (bool, int, float)) for number in numbers):
        return None
    if primitive in PASSED_ON:
        return numbers[0] if "int" not in dtype else int(numbers[0])
    if primitive == "div" and "int" not in dtype and numbers[1]:
        return numbers[0] / numbers[1]
    if primitive == "sqrt" and numbers[0] < 0:
        return None
    return FUNCTIONS[primitive](*numbers) if primitive in FUNCTIONS else None
