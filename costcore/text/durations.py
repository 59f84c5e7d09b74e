"""Durations as text: seconds with a unit that suits their size."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from costcore.text.units import rounded

UNITS_OF_TIME = (("s", 1), ("ms", 1000), ("µs", 10**6), ("ns", 10**9))
"""The units and how many of them are a second."""

_DURATION = r"([0-9]+(?:\.[0-9]+)?)\s*(s|ms|µs|us|ns)"


UNKNOWN = "unknown"
"""The text of a duration that is None."""


def duration(seconds: float | None, n_digits: int = 3, fixed: bool = False) -> str:
    """Return a duration in the unit that suits it, ``1.25 ms``; ``unknown`` for None."""
    if seconds is None:
        return UNKNOWN
    name, per_second = unit_of_time([seconds])
    return f"{rounded(Fraction(seconds) * per_second, n_digits, fixed)} {name}"


def parse_duration(value: object, name: str) -> float:
    """Return the seconds that a number of seconds or a string such as ``"5 ms"`` stands for.

    Args:
        value: the duration.
        name: its name in messages.

    Raises:
        TypeError: if ``value`` is neither a number nor a string.
        ValueError: if it is not positive, or a string of another form.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise TypeError(f'{name} must be a number of seconds or a string such as "5 ms" (got {value!r})')
    match = re.fullmatch(_DURATION, value.strip()) if isinstance(value, str) else None
    if isinstance(value, str) and match is None:
        raise ValueError(f'{name} must be a number of seconds or a string such as "5 ms" (got {value!r})')
    seconds = float(match[1]) / dict(UNITS_OF_TIME)[match[2].replace("us", "µs")] if match else float(value)
    if not 0 < seconds < float("inf"):
        raise ValueError(f"{name} must be positive (got {value!r})")
    return seconds


def unit_of_time(values: Sequence[float]) -> tuple[str, int]:
    """Return the largest unit in which the largest value is at least 1, and how many of it are a second."""
    largest = max(values, default=0)
    return next((unit for unit in UNITS_OF_TIME if largest * unit[1] >= 1), UNITS_OF_TIME[-1 if largest else 0])


def durations(values: Sequence[Any], unit: str | None, n_digits: int, fixed: bool) -> tuple[str, list[str]]:
    """Return the unit of a column of durations, and its cells.

    Args:
        values: seconds; None for an unknown one, an empty string for one that does not apply.
        unit: None for exact seconds, ``auto`` for one unit per cell; otherwise the column has one unit.
        n_digits: digits after the decimal point.
        fixed: keep trailing zeros.
    """
    numbers = [value for value in values if isinstance(value, (int, float))]
    name, per_second = ("s", 1) if unit is None else unit_of_time(numbers)

    def cell(value: Any) -> str:
        if not isinstance(value, (int, float)):
            return UNKNOWN if value is None else ""
        if unit is None:
            return repr(value)
        return (
            duration(value, n_digits, fixed)
            if unit == "auto"
            else rounded(Fraction(value) * per_second, n_digits, fixed)
        )

    return "" if unit == "auto" else name, [*map(cell, values)]
