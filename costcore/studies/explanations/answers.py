"""The answers to the question what a number counts, as data, and how likely one is by chance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor

from costcore.studies.explanations.known import Hint
from costcore.studies.explanations.number import PrintedNumber
from costcore.studies.explanations.readings import ANOTHER_NETWORK, Base, Reading

MOST_CHANCE = 0.05
"""How many random numbers near a number may have a reading as plausible, as a part of all, for it to decide."""

NEAR = Fraction(1, 50)
"""The distance of the numbers that are compared with a number, as a part of it."""

MOST_DIGITS = 12
"""The most digits that are tried until they decide."""

FEW_DIGITS = 2
"""With so many digits, all readings of a tool or of plain MACs are equally likely."""


@dataclass(frozen=True)
class Answer:
    """One or several conventions that give the same value, with equal changes and price.

    Attributes:
        value: the value before rounding.
        price: how far-fetched it is; see :data:`costcore.studies.explanations.readings.PRICES`.
        readings: the readings, the most usual first.
    """

    value: Fraction
    price: int
    readings: tuple[Reading, ...]


@dataclass(frozen=True)
class ExplanationData:
    """Why somebody printed a number for a network, as data.

    Attributes:
        number: the number as it was printed.
        macs: the MACs of the network.
        answers: the readings that give the number, best first, all of them.
        nearest: the three readings nearest to it, if none gives it.
        coincidence: the part of the numbers with as many digits, within 2 % of this one, that have a reading as
            plausible as the best one.
        digits_needed: the digits at which a reading as plausible is no coincidence; None if 12 do not suffice.
        hints: known facts about this number and network.
    """

    number: PrintedNumber
    macs: int
    answers: tuple[Answer, ...]
    nearest: tuple[Reading, ...]
    hints: tuple[Hint, ...]
    coincidence: float = 0.0
    digits_needed: int | None = None

    @property
    def decides(self) -> bool:
        """Whether the best reading is more than a coincidence; plain MACs of the network may be a more likely one."""
        if self.is_another_network:
            return False
        return self.coincidence <= MOST_CHANCE * (2 if self.answers[0].price == 0 else 1)

    @property
    def best(self) -> Reading | None:
        """The best reading, which need not be right (:attr:`decides`); None if another network is more plausible."""
        return None if self.is_another_network else self.answers[0].readings[0]

    @property
    def is_another_network(self) -> bool:
        """Whether no reading is more likely than that the number belongs to another network."""
        return not self.answers or self.answers[0].price >= ANOTHER_NETWORK

    @property
    def likely(self) -> tuple[Answer, ...]:
        """The answers between which the digits of the number do not decide."""
        if not self.answers:
            return ()
        most = self.answers[0].price
        if self.number.digits <= FEW_DIGITS:
            most = max(1, most)
        return tuple(answer for answer in self.answers if answer.price <= most)

    @property
    def is_ambiguous(self) -> bool:
        """Whether the digits do not suffice to decide between several readings, or between one and a coincidence."""
        return len(self.likely) > 1 or not (self.is_another_network or self.decides)


# How likely a reading by chance is: the density of readings around a number


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
    if chance <= MOST_CHANCE:
        return chance, number.digits
    for digits in range(number.digits + 1, MOST_DIGITS + 1):
        finer = replace(number, half=number.half / 10 ** (digits - number.digits), digits=digits)
        if _explained(tried, others, finer, price) <= MOST_CHANCE:
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
