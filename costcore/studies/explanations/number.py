"""Read a number as people print it: ``4.14G``, ``8.2 GOPS``, ``4.1e9``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from costcore.messages import short_repr

MAX_LENGTH = 60
"""The maximum number of characters of a number with its unit."""

POWERS = {"": 0, "k": 3, "K": 3, "thousand": 3, "M": 6, "million": 6, "G": 9, "B": 9, "billion": 9}
POWERS |= {"T": 12, "trillion": 12, "P": 15, "E": 18}
"""The power of ten that a prefix or word stands for."""

UNITS = re.compile(
    r"(fl|b)?ops?|macs?|m(ul)?-?adds?|mult(iply)?-?adds?|mul(t|s|ts)?|fmas?|params?|parameters|operations",
    re.IGNORECASE,
)
"""The units that may follow a number."""

RATE = re.compile(r"(/|p)s(ec(onds?)?)?$", re.IGNORECASE)

_NUMBER = re.compile(
    r"(?P<digits>\d[\d,_']*(?:\.\d*)?|\.\d+)(?:[eE](?P<exponent>[+-]?\d{1,3}))?\s*"
    r"(?P<prefix>thousand|million|billion|trillion|[kKMGTPE](?!A[Cc]|ac|Add|ADD|[Uu][Ll][Tt])|B(?![Oo][Pp]))?\s*"
    r"(?P<word>[A-Za-z][A-Za-z/ -]*)?"
)


@dataclass(frozen=True)
class PrintedNumber:
    """A number as it was printed, and the values that print so.

    Attributes:
        text: the text.
        value: the value.
        half: half a unit of its last digit.
        digits: the number of its significant digits.
        word: the unit behind it, ``FLOPs``; empty if there is none.
    """

    text: str
    value: Fraction
    half: Fraction
    digits: int
    word: str = ""

    @property
    def low(self) -> Fraction:
        """The smallest value that is rounded to it."""
        return self.value - self.half

    @property
    def high(self) -> Fraction:
        """The largest value that is rounded to it."""
        return self.value + self.half

    def rounds(self, amount: int | Fraction) -> bool:
        """Return whether an amount is printed as this number if it is rounded."""
        return self.low <= amount <= self.high

    def cuts(self, amount: int | Fraction) -> bool:
        """Return whether an amount is printed as this number if its other digits are cut off."""
        return self.value <= amount < self.value + 2 * self.half


def read_number(number: str | int | float, digits: int | None = None) -> PrintedNumber:
    """Return a printed number.

    Args:
        number: a text with an optional prefix and unit, ``"4.14 GFLOPs"``, or a number. An int is exact unless
            ``digits`` is given; of a float, all digits behind its last one that is not 0 are taken as unknown.
        digits: the significant digits; default: those that are written.

    Raises:
        TypeError, ValueError: if it is not a positive number.
    """
    if isinstance(number, bool) or not isinstance(number, (str, int, float)):
        raise TypeError(f"a number to explain must be a text such as '4.14G', or a number (got {short_repr(number)})")
    text = str(number) if isinstance(number, str) else repr(number)
    if len(text) > MAX_LENGTH:
        raise ValueError(f"a number to explain has {len(text)} characters (expected at most {MAX_LENGTH})")
    match = _NUMBER.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{short_repr(number)} is not a number (expected digits, a prefix and a unit: 4.14 GFLOPs)")
    written = re.sub(r"[,_']", "", match["digits"])
    scale = Fraction(10) ** (POWERS[match["prefix"] or ""] + int(match["exponent"] or 0))
    value = Fraction(Decimal(written)) * scale
    if value <= 0:
        raise ValueError(f"{short_repr(number)} is not positive; only amounts above 0 can be explained")
    word = (match["word"] or "").strip()
    if word and not UNITS.fullmatch(word):
        if RATE.search(word):
            raise ValueError(f"{short_repr(number)} is a rate, operations per second; only amounts can be explained")
        raise ValueError(
            f"{short_repr(number)} has an unknown unit {word!r} (expected FLOPs, MACs, MAdds, OPs or params)"
        )
    return PrintedNumber(text.strip(), value, *_precision(number, written, value, scale, digits), word)


def _precision(
    number: str | int | float, written: str, value: Fraction, scale: Fraction, digits: int | None
) -> tuple[Fraction, int]:
    """Return half a unit of the last digit, and the number of significant digits."""
    order = len(str(int(value))) if value >= 1 else 1
    if digits is None and isinstance(number, float):
        digits = len(str(int(value)).rstrip("0")) if value == int(value) else len(written.replace(".", "").lstrip("0"))
    if digits is not None:
        if isinstance(digits, bool) or not isinstance(digits, int) or digits < 1:
            raise ValueError(f"digits must be at least 1 (got {digits!r})")
        return Fraction(10) ** (order - digits) / 2, digits
    decimals = len(written.partition(".")[2])
    significant = written.replace(".", "").lstrip("0")
    return scale / Fraction(10) ** decimals / 2, max(1, len(significant))
