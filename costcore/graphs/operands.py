"""What rows read of a node that has its operands in order, as the argument ``inputs``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costcore.translate import Arguments, Source


def given(a: Arguments, position: int) -> Any:
    """Return an operand by its position; None if it is absent."""
    inputs = a["inputs"]
    return inputs[position] if position < len(inputs) else None


def operand(position: int) -> Source:
    """Return a source for an operand by its position; None if it is absent."""
    return lambda a: given(a, position)


X: Mapping[str, Source] = {"x": operand(0)}
XS: Mapping[str, Source] = {"x*": lambda a: [value for value in a["inputs"] if value is not None]}
