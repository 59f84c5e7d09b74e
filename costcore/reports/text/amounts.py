"""Amounts of a cost as people write and read them: ``4.1G``, ``100 MiB``, ``1,024``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from costcore.dims import Dim, is_symbolic
from costcore.reports.text.units import BASES, PREFIXES, prefix_for, scaled
from costcore.symbolic import written

METRICS: Mapping[str, tuple[str, str]] = {
    "flops": ("FLOPs", "flops"),
    "macs": ("MACs", "flops"),
    "mread": ("bytes read", "bytes"),
    "mwrite": ("bytes written", "bytes"),
    "mrw": ("bytes read and written", "bytes"),
    "n_params": ("parameters", "flops"),
}
"""What is compared and limited: the key in reports, its words for people, and how it is scaled (:mod:`units`)."""

_AMOUNT = re.compile(r"([0-9][0-9_]*(?:\.[0-9]+)?)\s*([KMGT]?)(i?)(B?)")
_PERCENT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*%")


def parse_amount(value: object, metric: str) -> int:
    """The number that an int or a text like ``"4.1G"`` means for ``metric``, rounded down.

    FLOPs, MACs and parameters scale by 1000 (``K M G T``); bytes say by how much: ``MiB`` by 1024, ``MB`` by 1000.

    Raises:
        TypeError, ValueError: for anything else; says what is accepted.
    """
    is_bytes = METRICS[metric][1] == "bytes"
    accepted = 'an int or a text like "100 MiB", "100 MB"' if is_bytes else 'an int or a text like "4.1G"'
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value == value // 1:
        if value < 0:
            raise ValueError(f"{metric} cannot be negative, got {value}")
        return int(value)
    if not isinstance(value, str):
        raise TypeError(f"{metric} must be {accepted}, got {value!r}")
    match = _AMOUNT.fullmatch(value.strip())
    if match is None:
        raise ValueError(f"{metric} must be {accepted}, got {value!r}")
    number, prefix, binary, unit = match.groups()
    if bool(unit) != (is_bytes and bool(prefix or unit)) or (binary and not (prefix and unit)):
        raise ValueError(f"{metric} must be {accepted}, got {value!r}")
    base = 1024 if binary else 1000
    return int(Fraction(number.replace("_", "")) * base ** PREFIXES.index(prefix))


def parse_percent(value: object) -> Fraction | None:
    """The share that a text like ``"1.5%"`` means, as a fraction of 1; None where it is no percentage."""
    match = _PERCENT.fullmatch(value.strip()) if isinstance(value, str) else None
    return Fraction(match[1]) / 100 if match else None


def exact(value: Any, signed: bool = False) -> str:
    """A whole number with its thousands apart, or an expression as it is; a plus before it where ``signed``."""
    text = written(value) if is_symbolic(value) else f"{value:,}"
    return f"+{text}" if signed and value != 0 and not text.startswith("-") else text


def readable(value: Dim, metric: str, n_digits: int = 3, signed: bool = False) -> str:
    """``value`` with the prefix that suits it, ``4.112 G`` or ``97.492 MiB``."""
    kind = METRICS[metric][1]
    prefix = prefix_for([value], kind)
    unit = f"{prefix}iB" if kind == "bytes" and prefix else "B" if kind == "bytes" else prefix
    plus = "+" if signed and exact(value, signed).startswith("+") else ""
    if is_symbolic(value) or value % BASES[kind] ** PREFIXES.index(prefix) == 0:
        n_digits = 0
    return f"{plus}{scaled(value, prefix, kind, n_digits)} {unit}".rstrip()
