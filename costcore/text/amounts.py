"""Amounts of a cost, parsed and formatted: ``4.1G``, ``100 MiB``, ``1,024``."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from costcore.numbers.dims import MOST_DIGITS, is_symbolic
from costcore.numbers.symbolic import as_text
from costcore.text.durations import duration
from costcore.text.units import BASES, PREFIXES, prefix_for, scaled

_AMOUNT = r"([0-9][0-9_]*(?:\.[0-9]+)?)\s*([KMGT]?)(i?)(B?)"
_PERCENT = r"([0-9]+(?:\.[0-9]+)?)\s*%"


def parse_bytes(value: object, name: str) -> int:
    """Return the bytes that an integer or a string such as ``"24 GiB"`` stands for; see :func:`parse_amount`.

    Args:
        value: the amount.
        name: its name in messages.
    """
    return parse_amount(value, name, "bytes")


def parse_amount(value: object, name: str, kind: str = "flops") -> int:
    """Return the amount that an integer or a string such as ``"4.1G"`` stands for, rounded down.

    Args:
        value: the amount.
        name: its name in messages.
        kind: ``bytes``, or any other kind of amount. The prefixes of FLOPs, MACs and parameters (``K M G T``) are
            powers of 1000. Bytes with a prefix need a unit: the prefix of ``MiB`` is a power of 1024, that of ``MB``
            of 1000.

    Raises:
        TypeError: if ``value`` is neither a whole number nor a string.
        ValueError: if it is negative, or a string of another form.
    """
    is_bytes = kind == "bytes"
    example = '"100 MiB" or "100 MB"' if is_bytes else '"4.1G"'
    malformed = f"{name} must be an integer or a string such as {example} (got {value!r})"
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value == value // 1:
        if value < 0:
            raise ValueError(f"{name} cannot be negative (got {value})")
        return int(value)
    if not isinstance(value, str):
        raise TypeError(malformed)
    match = re.fullmatch(_AMOUNT, value.strip())
    if match is None:
        raise ValueError(malformed)
    number, prefix, binary, unit = match.groups()
    if len(number) > MOST_DIGITS:
        raise ValueError(f"{name}: a number of {len(number)} digits is too large (expected at most {MOST_DIGITS})")
    if bool(unit) != (is_bytes and bool(prefix or unit)) or (binary and not (prefix and unit)):
        raise ValueError(malformed)
    base = 1024 if binary else 1000
    return int(Fraction(number.replace("_", "")) * base ** PREFIXES.index(prefix))


def parse_percent(value: object) -> Fraction | None:
    """Return the fraction that a string such as ``"1.5%"`` stands for (0.015); None if it is not a percentage."""
    match = re.fullmatch(_PERCENT, value.strip()) if isinstance(value, str) else None
    return Fraction(match[1]) / 100 if match else None


def parse_rate(value: str | None, name: str) -> float | None:
    """Return the price of an hour that a string such as ``"2.10/h"`` or ``"2.10"`` stands for; None stays None.

    Raises:
        ValueError: if it has another form, or is not positive.
    """
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(?:\s*/\s*h)?", value.strip()) if value is not None else None
    if value is not None and (match is None or not float(match[1])):
        raise ValueError(f"{name} must be a price of an hour, such as 2.10/h (got {value!r})")
    return None if match is None else float(match[1])


def exact(value: Any, signed: bool = False) -> str:
    """Return a whole number with separated thousands, or an expression as text; with a plus sign if ``signed``."""
    text = as_text(value) if is_symbolic(value) else f"{value:,}"
    return _plus(value, signed) + text


def readable(value: Any, kind: str, n_digits: int = 3, signed: bool = False) -> str:
    """Return ``value`` rounded, in units of the largest fitting prefix: ``4.112 G``, ``97.492 MiB``, ``1.5 ms``.

    Args:
        value: a number, or an expression.
        kind: ``bytes``, ``duration`` and ``seconds`` (seconds), ``ratio``, or any other kind of amount.
        n_digits: digits after the decimal point.
        signed: whether a plus sign precedes a positive number.
    """
    if kind in ("duration", "seconds"):
        return _plus(value, signed) + ("-" if value < 0 else "") + duration(abs(value), n_digits)
    if isinstance(value, float):
        return f"{_plus(value, signed)}{value:.{n_digits}f}"
    base = kind if kind == "bytes" else "flops"
    prefix = prefix_for([value], base)
    unit = f"{prefix}iB" if kind == "bytes" and prefix else "B" if kind == "bytes" else prefix
    if is_symbolic(value) or value % BASES[base] ** PREFIXES.index(prefix) == 0:
        n_digits = 0
    return f"{_plus(value, signed)}{scaled(value, prefix, base, n_digits)} {unit}".rstrip()


def _plus(value: Any, signed: bool) -> str:
    """Return the plus sign of a signed value; empty for zero and for text that starts with a minus sign."""
    return "+" if signed and value != 0 and not as_text(value).startswith("-") else ""
