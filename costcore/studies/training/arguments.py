"""The arguments of a training ledger: whole numbers that may be written as 15.6e12, and shares."""

from __future__ import annotations

from fractions import Fraction
from math import isfinite


def whole(value: object, name: str) -> int:
    """Return a positive integer, which may be written as a float without a fraction: ``3.8e25`` is 38 * 10**24.

    Raises:
        TypeError: if it is not a number.
        ValueError: if it is not positive, or not whole.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a whole number (got {value!r})")
    number = Fraction(repr(value)) if isfinite(value) else Fraction(0)  # as it is written, not as it is stored
    if number <= 0 or number.denominator != 1:
        raise ValueError(f"{name} must be a positive whole number (got {value!r})")
    return int(number)


def check_share(value: object, name: str) -> float:
    """Return a share of at least 0 and less than 1.

    Raises:
        TypeError: if it is not a number.
        ValueError: if it is out of range.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a share such as 0.1 (got {value!r})")
    if not 0 <= value < 1:
        raise ValueError(f"{name} must be at least 0 and less than 1 (got {value!r})")
    return float(value)
