"""How likely it is that a number has an explanation by chance: the density of readings around it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil, floor

from costcore.studies.explanations.answers import MOST_COINCIDENCE
from costcore.studies.explanations.number import PrintedNumber
from costcore.studies.explanations.readings import Base, Reading

NEAR = Fraction(1, 50)
"""The distance of the numbers that are compared with a number, as a part of it."""

MOST_DIGITS = 12
"""The most digits that are tried until they decide."""


def coincidence(
    tried: Sequence[Base], others: Iterable[Reading], number: PrintedNumber, price: int
) -> tuple[float, int | None]:
    """Return which part of the numbers near a number has a reading of some price, and how many digits would decide.

    All numbers with as many digits within :data:`NEAR` are equally likely. Each reading explains one or two of them:
    the one to which its value is rounded, and if that is cheap enough, the one to which it is cut.

    Args:
        tried: the conventions that are tried.
        others: other readings.
        number: the number.
        price: the highest price.
    """
    others = [*others]
    chance = _explained(tried, others, number, price)
    if chance <= MOST_COINCIDENCE:
        return chance, number.digits
    for digits in range(number.digits + 1, MOST_DIGITS + 1):
        finer = replace(number, half=number.half / 10 ** (digits - number.digits), digits=digits)
        if _explained(tried, others, finer, price) <= MOST_COINCIDENCE:
            return chance, digits
    return chance, None


def _explained(tried: Iterable[Base], others: Iterable[Reading], number: PrintedNumber, price: int) -> float:
    step = 2 * number.half
    first, last = ceil(number.value * (1 - NEAR) / step), floor(number.value * (1 + NEAR) / step)
    printed = {k for k in _printed(tried, others, number, price, step) if first <= k <= last}
    return len(printed) / (last - first + 1)


def _printed(
    tried: Iterable[Base], others: Iterable[Reading], number: PrintedNumber, price: int, step: Fraction
) -> Iterator[int]:
    """Yield the numbers that readings explain, as multiples of the unit of the last digit."""
    for base in tried:
        if base.price > price:
            continue
        for reading in base.candidates(number, NEAR):
            if reading.price <= price:
                yield round(reading.value / step)
            if reading.price + base.price_of_cut <= price:
                yield floor(reading.value / step)
    yield from (round(reading.value / step) for reading in others if reading.price <= price)
