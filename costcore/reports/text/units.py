"""Numbers for people: prefixes and exact rounding."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from costcore.dims import Dim, is_symbolic
from costcore.symbolic import written

PREFIXES = ("", "K", "M", "G", "T")
UNITS = (None, *PREFIXES[1:], "auto", "autoaligned")
"""What ``unit=`` accepts."""

BASES = {"flops": 1000, "bytes": 1024}


def check_unit(unit: object) -> None:
    """Refuse an unknown unit.

    Raises:
        ValueError: naming the known ones.
    """
    if unit not in UNITS:
        known = ", ".join(repr(u) for u in UNITS)
        raise ValueError(f"unit={unit!r} is not known; accepted are {known}")


def check_digits(n_digits: object) -> int:
    """Digits after the decimal point; None stands for 10.

    Raises:
        TypeError: for anything but an int or None.
        ValueError: outside 0 to 10.
    """
    if n_digits is None:
        return 10
    if not isinstance(n_digits, int) or isinstance(n_digits, bool):
        raise TypeError(f"n_digits must be an int from 0 to 10 or None (10), got {n_digits!r}")
    if not 0 <= n_digits <= 10:
        raise ValueError(f"n_digits must lie between 0 and 10, got {n_digits}")
    return n_digits


def prefix_for(values: Iterable[Dim], kind: str) -> str:
    """The prefix under which the largest of ``values`` is at least 1; symbols are left out."""
    largest = max((abs(v) for v in values if not is_symbolic(v)), default=0)
    chosen = ""
    for power, prefix in enumerate(PREFIXES):
        if largest >= BASES[kind] ** power:
            chosen = prefix
    return chosen


def scaled(value: Dim, prefix: str, kind: str, n_digits: int, fixed: bool = False) -> str:
    """``value`` under ``prefix``, rounded to ``n_digits`` (half to even) without passing through a float.

    Args:
        value: an int, or an expression, which is printed as it is.
        prefix: one of :data:`PREFIXES`.
        kind: ``flops`` (powers of 1000) or ``bytes`` (powers of 1024).
        n_digits: digits after the decimal point.
        fixed: keep trailing zeros, and write nothing at all as ``0``.
    """
    if is_symbolic(value):
        scale = BASES[kind] ** PREFIXES.index(prefix)
        return written(value) if scale == 1 else f"({written(value)})/{scale}"
    if not prefix:
        return str(value)
    return rounded(Fraction(value, BASES[kind] ** PREFIXES.index(prefix)), n_digits, fixed)


def rounded(value: Fraction, n_digits: int, fixed: bool = False) -> str:
    """A fraction in decimal digits, rounded half to even."""
    if fixed and not value:
        return "0"
    units = round(value * 10**n_digits)
    digits = f"{abs(units):0{n_digits + 1}d}"
    whole, decimals = (digits[:-n_digits], digits[-n_digits:]) if n_digits else (digits, "")
    if not fixed and n_digits:
        decimals = decimals.rstrip("0") or "0"
    sign = "-" if units < 0 else ""
    return f"{sign}{whole}.{decimals}" if decimals else f"{sign}{whole}"
