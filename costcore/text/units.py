"""Unit prefixes (``K``, ``M``, ``G``, ``T``) and exact rounding."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from costcore.messages import unknown
from costcore.numbers.dims import Dim, is_symbolic
from costcore.numbers.symbolic import as_text

PREFIXES = ("", "K", "M", "G", "T")
UNITS = (None, *PREFIXES[1:], "auto", "autoaligned")
"""Values of the argument ``unit``."""

BASES = {"flops": 1000, "bytes": 1024}
"""The factor between two prefixes, by kind of amount."""


def check_unit(unit: object) -> None:
    """Check that ``unit`` is one of :data:`UNITS`.

    Raises:
        ValueError: if it is not.
    """
    if unit not in UNITS:
        raise ValueError(unknown("unit", unit, UNITS))


def check_digits(n_digits: object) -> int:
    """Return the number of digits after the decimal point; 10 for None.

    Raises:
        TypeError: if ``n_digits`` is neither an integer nor None.
        ValueError: if it is not between 0 and 10.
    """
    if n_digits is None:
        return 10
    if not isinstance(n_digits, int) or isinstance(n_digits, bool):
        raise TypeError(f"n_digits must be an integer from 0 to 10, or None for 10 (got {n_digits!r})")
    if not 0 <= n_digits <= 10:
        raise ValueError(f"n_digits must be between 0 and 10 (got {n_digits})")
    return n_digits


def prefix_for(values: Iterable[Dim], kind: str) -> str:
    """Return the largest prefix with which the largest value is at least 1; symbolic values are ignored."""
    largest = max((abs(v) for v in values if not is_symbolic(v)), default=0)
    chosen = ""
    for power, prefix in enumerate(PREFIXES):
        if largest >= BASES[kind] ** power:
            chosen = prefix
    return chosen


def scaled(value: Dim, prefix: str, kind: str, n_digits: int, fixed: bool = False) -> str:
    """Return ``value`` in units of ``prefix``, rounded to ``n_digits`` (half to even) in exact arithmetic.

    Args:
        value: an integer, or a symbolic expression, which is divided by the prefix but not rounded.
        prefix: one of :data:`PREFIXES`.
        kind: ``flops`` (powers of 1000) or ``bytes`` (powers of 1024).
        n_digits: digits after the decimal point.
        fixed: keep trailing zeros, and write zero as ``0``.
    """
    if is_symbolic(value):
        scale = BASES[kind] ** PREFIXES.index(prefix)
        return as_text(value) if scale == 1 else f"({as_text(value)})/{scale}"
    if not prefix:
        return str(value)
    exact = Fraction(value) if isinstance(value, float) else value  # of a row that was read
    return rounded(Fraction(exact, BASES[kind] ** PREFIXES.index(prefix)), n_digits, fixed)


def rounded(value: Fraction, n_digits: int, fixed: bool = False) -> str:
    """Return a fraction in decimal digits, rounded half to even; ``fixed`` as for :func:`scaled`."""
    if fixed and not value:
        return "0"
    units = round(value * 10**n_digits)
    digits = f"{abs(units):0{n_digits + 1}d}"
    whole, decimals = (digits[:-n_digits], digits[-n_digits:]) if n_digits else (digits, "")
    if not fixed and n_digits:
        decimals = decimals.rstrip("0") or "0"
    sign = "-" if units < 0 else ""
    return f"{sign}{whole}.{decimals}" if decimals else f"{sign}{whole}"
