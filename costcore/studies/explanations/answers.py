"""The answers to the question what a number counts, as data."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from costcore.studies.explanations.known import Hint
from costcore.studies.explanations.number import PrintedNumber
from costcore.studies.explanations.readings import ANOTHER_NETWORK, Reading

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
        hints: known facts about this number and network.
    """

    number: PrintedNumber
    macs: int
    answers: tuple[Answer, ...]
    nearest: tuple[Reading, ...]
    hints: tuple[Hint, ...]

    @property
    def best(self) -> Reading | None:
        """The best reading; None if the number rather belongs to another network."""
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
        """Whether the digits do not suffice to decide between several readings."""
        return len(self.likely) > 1
