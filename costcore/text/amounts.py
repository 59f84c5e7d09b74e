"""Amounts as text, parsed and formatted: ``4.1G``, ``100 MiB``, ``1,024``, ``5 ms``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from costcore.errors import unknown
from costcore.numbers import MOST_DIGITS, Dim, as_text, is_symbolic

_AMOUNT = r"([0-9][0-9_]*(?:\.[0-9]+)?)\s*([KMGT]?)(i?)(B?)"

_LOWER = re.compile(r"([0-9._]+\s*)([kmgt])(i?)(b?)")
"""Bytes in lower case, ``24gb``, as people type them."""

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
    given = value.strip()
    if is_bytes and (typed := _LOWER.fullmatch(given)):
        given = f"{typed[1]}{typed[2].upper()}{typed[3]}{typed[4].upper()}"
    match = re.fullmatch(_AMOUNT, given)
    if match is None:
        raise ValueError(malformed)
    number, prefix, binary, unit = match.groups()
    if len(number) > MOST_DIGITS:
        raise ValueError(f"{name}: a number of {len(number)} digits is too large (expected at most {MOST_DIGITS})")
    if bool(unit) != (is_bytes and bool(prefix or unit)) or (binary and not (prefix and unit)):
        near = f". Did you mean '{number} {prefix}B' or '{number} {prefix}iB'?" if is_bytes and not unit else ""
        raise ValueError(malformed + near)
    base = 1024 if binary else 1000
    return int(Fraction(number.replace("_", "")) * base ** PREFIXES.index(prefix))


FEW_BYTES = 10_000
"""A typed number below it is more likely a part of a device name, or a number of gigabytes."""


def refuse_few_bytes(value: object, name: str, devices: Iterable[str] = ()) -> None:
    """Check that a typed memory size is not a small number without a unit.

    Args:
        value: the amount.
        name: its name in messages.
        devices: names of devices, for the suggestion.

    Raises:
        ValueError: if it is; the message suggests a device or gigabytes.
    """
    typed = value.strip() if isinstance(value, str) else ""
    if typed.isdecimal() and int(typed) < FEW_BYTES:
        near = [device for device in devices if device.endswith(typed)]
        raise ValueError(f"{name} {typed} is {int(typed):,} bytes. Did you mean {(near or [f'{typed} GB'])[0]!r}?")


def parse_memory(value: object, name: str) -> int:
    """Return the bytes of the memory of a device; see :func:`parse_bytes` and :func:`refuse_few_bytes`."""
    refuse_few_bytes(value, name)
    return parse_bytes(value, name)


def in_thousands(value: object) -> str:
    """Explain a size with a decimal prefix, ``256 KB = 256,000 B, 256 KiB = 262,144 B``; empty for other values."""
    typed = re.fullmatch(r"([0-9._]+)\s*([KMGT])B", value.strip().upper()) if isinstance(value, str) else None
    if typed is None:
        return ""
    each = (f"{typed[1]} {typed[2]}{unit}" for unit in ("B", "iB"))
    return "{} = {:,} B, {} = {:,} B".format(*(part for text in each for part in (text, parse_bytes(text, "size"))))


_COUNT = r"([0-9][0-9_,]*(?:\.[0-9]+)?(?:e[0-9]+)?)\s*([kmbgt]?)"

_POWERS = {"": 0, "k": 1, "m": 2, "b": 3, "g": 3, "t": 4}


def parse_count(value: str, name: str, base: int = 1000) -> int:
    """Return the whole number that ``"64"``, ``"1,000"``, ``"2e6"``, ``"1.5M"``, ``"300B"`` or ``"1T"`` stands for.

    Args:
        value: the number.
        name: its name in messages.
        base: the factor between two prefixes; 1024 for lengths of sequences, as a context of ``8k`` tokens is 8,192.

    Raises:
        ValueError: if it has another form, or is not whole.
    """
    match = re.fullmatch(_COUNT, value.strip().lower())
    number = Fraction(match[1].replace("_", "").replace(",", "")) * base ** _POWERS[match[2]] if match else None
    if number is None or number.denominator != 1:
        raise ValueError(f"{name} must be a whole number such as 64, 8k or 1.5M (got {value!r})")
    return int(number)


def parse_percent(value: object) -> Fraction | None:
    """Return the fraction that a string such as ``"1.5%"`` stands for (0.015); None if it is not a percentage."""
    match = re.fullmatch(_PERCENT, value.strip()) if isinstance(value, str) else None
    return Fraction(match[1]) / 100 if match else None


def parse_rate(value: str | None, name: str) -> float | None:
    """Return the price of an hour that a string such as ``"2.10/h"`` or ``"2.10"`` stands for; None stays None.

    Raises:
        ValueError: if it has another form, or is not positive.
    """
    match = re.fullmatch(r"[$€£]?([0-9]+(?:\.[0-9]+)?)(?:\s*/\s*h)?", value.strip()) if value is not None else None
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


def brief(value: Any, kind: str, signed: bool = False) -> str:
    """Return ``value`` as :func:`readable` does; large numbers of an expression are rounded: ``313.3 M*batch``."""
    text = readable(value, kind, signed=signed)
    if not is_symbolic(value):
        return text
    rounded = re.sub(r"(?<!\^)\b[0-9]{5,}\b", lambda number: short(int(number[0]), kind), text)
    return rounded.removesuffix(" B") if "iB" in rounded else rounded


SIGNIFICANT = 4
"""The digits of :func:`short`."""


def short(value: Any, kind: str, fixed: bool = False) -> str:
    """Return a number with four significant digits and the largest fitting prefix: ``324.3 MiB``, ``10.29 G``.

    Whole numbers without a prefix are exact.

    Args:
        value: a number, or an expression, which is not rounded.
        kind: ``bytes``, ``duration`` (seconds), ``ratio``, or any other kind of amount.
        fixed: keep trailing zeros.
    """
    if is_symbolic(value):
        return as_text(value)
    if kind == "duration":
        name, per_second = unit_of_time([abs(value)])
        return f"{significant(Fraction(value) * per_second, fixed)} {name}"
    if kind == "ratio" or isinstance(value, float):
        return significant(Fraction(value), fixed)
    base = kind if kind == "bytes" else "flops"
    prefix = prefix_for([value], base)
    unit = f"{prefix}iB" if kind == "bytes" and prefix else "B" if kind == "bytes" else prefix
    divided = Fraction(value, BASES[base] ** PREFIXES.index(prefix))
    return f"{significant(divided, fixed) if prefix else exact(value)} {unit}".rstrip()


def significant(value: Fraction, fixed: bool = False) -> str:
    """Return a number with four significant digits and separated thousands; ``fixed`` keeps trailing zeros."""
    size = abs(value)
    exponent = len(str(int(size))) - 1 if size >= 1 else int(f"{float(size):.3e}".partition("e")[2])
    digits = min(max(SIGNIFICANT - 1 - exponent, 0), 10)
    whole, _, decimals = rounded(value, digits).partition(".")
    if size >= 1 and digits and len(whole.lstrip("-")) > exponent + 1:  # 999.96 is 1,000
        digits -= 1
    decimals = decimals.ljust(digits, "0")[:digits] if fixed and value else decimals.rstrip("0")
    grouped = f"{int(whole):,}" if len(whole.lstrip("-")) > 3 else whole
    return f"{grouped}.{decimals}" if decimals else grouped


def _plus(value: Any, signed: bool) -> str:
    return "+" if signed and value != 0 and not as_text(value).startswith("-") else ""


# Prefixes (``K``, ``M``, ``G``, ``T``) and exact rounding.


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
    exact = Fraction(value) if isinstance(value, float) else value  # rows read from a file may have floats
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


# Durations: seconds with a unit that suits their size.


UNITS_OF_TIME = (("s", 1), ("ms", 1000), ("µs", 10**6), ("ns", 10**9))
"""The units and how many of them are a second."""

_DURATION = r"([0-9]+(?:\.[0-9]+)?)\s*(s|ms|µs|us|ns)"

UNKNOWN = "unknown"
"""The text of an unknown duration, None."""


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


def _unit_of_most(values: Sequence[float], n_digits: int) -> tuple[str, int]:
    # The unit of a total may be too large for its parts: if most would be 0.0, take the next smaller one.
    name, per_second = unit_of_time(values)
    parts = sorted(value for value in values if value)
    smaller = UNITS_OF_TIME[UNITS_OF_TIME.index((name, per_second)) + 1 :]
    if parts and smaller and parts[len(parts) // 2] * per_second * 10**n_digits < 0.5:
        return smaller[0]
    return name, per_second


def durations(values: Sequence[Any], unit: str | None, n_digits: int, fixed: bool) -> tuple[str, list[str]]:
    """Return the unit of a column of durations, and its cells.

    Args:
        values: seconds; None for an unknown one, an empty string for one that does not apply.
        unit: None for exact seconds, ``auto`` for one unit per cell; otherwise the column has one unit.
        n_digits: digits after the decimal point.
        fixed: keep trailing zeros.
    """
    numbers = [value for value in values if isinstance(value, (int, float))]
    name, per_second = ("s", 1) if unit is None else _unit_of_most(numbers, n_digits)

    def cell(value: Any) -> str:
        if not isinstance(value, (int, float)):
            return UNKNOWN if value is None else ""
        if unit is None:
            return repr(value)
        if unit == "auto":
            return duration(value, n_digits, fixed)
        whole, dot, decimals = rounded(Fraction(value) * per_second, n_digits, fixed).partition(".")
        return f"{int(whole):,}{dot}{decimals}" if len(whole) > 3 else f"{whole}{dot}{decimals}"

    return "" if unit == "auto" else name, [*map(cell, values)]


# Units of conventions: FLOPs, or for example ``MACs (fvcore)``.


def per_byte(unit: str) -> str:
    """Return the name of amounts per byte: ``FLOPs per byte``, ``MACs per byte``."""
    return f"{_without_convention(unit)} per byte"


def short_per_byte(unit: str) -> str:
    """Return the unit of amounts per byte: ``FLOP/B``, ``MAC/B``."""
    return f"{_without_convention(unit).removesuffix('s')}/B"


def _without_convention(unit: str) -> str:
    return unit.partition(" (")[0]


# Attributes and other values, as text and as plain JSON types.


class Formatted(NamedTuple):
    """A value with the text that people see.

    Attributes:
        value: the exact value, which data formats have.
        text: the text.
    """

    value: Any
    text: str


def attribute_text(value: Any) -> str:
    """Return the value of an attribute as text; a tuple of equal values, ``(3, 3)``, as one value, ``3``."""
    is_uniform = isinstance(value, tuple) and value and all(v == value[0] for v in value)
    return as_text(value[0] if is_uniform else value)


def jsonable(value: Any) -> Any:
    """Return ``value`` in plain JSON types: tuples as lists, expressions and all other types as text."""
    if isinstance(value, Formatted):
        return jsonable(value.value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {str(name): jsonable(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(item) for item in value]
    return as_text(value)
