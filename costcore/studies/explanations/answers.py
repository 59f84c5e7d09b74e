"""The answers to the question what a number counts, as data."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from costcore.studies.explanations.known import Hint
from costcore.studies.explanations.number import PrintedNumber
from costcore.studies.explanations.readings import ANOTHER_NETWORK, Reading

MOST_COINCIDENCE = 0.05
"""How many random numbers near a number may have a reading as plausible, as a part of all, for it to decide."""

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
        return self.coincidence <= MOST_COINCIDENCE * (2 if self.answers[0].price == 0 else 1)

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
