"""Hints on input values: sizes, counts and conditions that inputs carry, and that the user did not give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from ..values.value import FLOATS, Value

MOST_NUMBERS = 8
"""A longer input is data, not a few sizes or factors; an example of a longer one is not written out."""


class InputHints:
    """The values of a walk that follow from input values the user may still give.

    Args:
        inputs: the inputs of the model by name.
    """

    def __init__(self, inputs: Mapping[str, Value] = MappingProxyType({})) -> None:
        self._sources: dict[Value, dict[str, str]] = {
            value: {name: _example(value)} for name, value in inputs.items() if _may_carry_numbers(value)
        }
        """An example for each input that a value follows from."""

    def __bool__(self) -> bool:
        return bool(self._sources)

    def propagate(self, inputs: Iterable[Value | None], outputs: Iterable[Value | None]) -> None:
        """Note that the outputs of a node follow from its inputs."""
        sources = self._sources_of(inputs)
        for value in outputs if sources else ():
            if value is not None and _may_carry_numbers(value):
                self._sources[value] = sources

    def argument(self, *values: Value | None) -> str:
        """Return the argument that would make the elements of ``values`` known; ``""`` if there is none."""
        shown = ", ".join(f"{name!r}: {example}" for name, example in self._sources_of(values).items())
        return f"inputs={{{shown}}}" if shown else ""

    def remedy(self, *values: Value | None) -> str:
        """Return the end of an assumption on elements of ``values``: which argument would make them known."""
        argument = self.argument(*values)
        return f"; give {argument}" if argument else ""

    def _sources_of(self, values: Iterable[Value | None]) -> dict[str, str]:
        return {name: example for value in values if value for name, example in self._sources.get(value, {}).items()}


def _may_carry_numbers(value: Value) -> bool:
    """Return True if an unknown value looks like a few sizes, places, factors or conditions."""
    if value.data is not None or value.shape is None or len(value.shape) > 1 or 0 in value.shape:
        return False
    is_short = all(isinstance(d, int) and d <= MOST_NUMBERS for d in value.shape)
    return value.dtype == "bool" or "int" in value.dtype or (value.dtype in FLOATS and is_short)


def _example(value: Value) -> str:
    """Return numbers as the user may give them."""
    one = "True" if value.dtype == "bool" else "9.0" if value.dtype in FLOATS else "9"
    (length,) = value.known_shape or (0,)
    shown = length if isinstance(length, int) and length <= MOST_NUMBERS else 2
    return f"[{', '.join([one] * shown)}]" if value.known_shape else one
