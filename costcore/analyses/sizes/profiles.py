"""What every dimension does along one symbol, and the next size, at which the possible forms differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import islice
from math import gcd

from costcore.analyses.sizes.terms import MOST_PERIOD, ONE_TERM, Form, coefficients, families, long_steps

MOST_COMPARED = 200
"""The maximum number of forms of one profile among which the next size decides."""


def profile_of(values: Sequence[int]) -> tuple[int, ...]:
    """Return the rises from the first value, divided by their greatest common divisor; zeros for a constant."""
    first, *others = values
    rises = [value - first for value in others]
    divisor = gcd(*rises) or 1
    return (0, *(rise // divisor for rise in rises))


class Forms:
    """The forms that fit all values of one profile so far, of the simplest family that has any.

    Args:
        sizes: sizes of the symbol at which the values are known.
        profile: see :func:`profile_of`.
        known: forms of other dimensions. One of them that fits is taken before any other of its family.
    """

    def __init__(self, sizes: Iterable[int], profile: tuple[int, ...], known: Iterable[Form] = ()) -> None:
        self._values = dict(zip(sizes, profile, strict=True))
        self._known = set(known)
        self._family, self._skips_long = 0, False
        self.forms: dict[Form, tuple[Fraction, ...]] = {}
        if any(profile):
            self._fit(families()[0])
        else:
            self.forms = {(): ()}

    def extended(self, size: int, profile: tuple[int, ...]) -> Forms:
        """Return the forms that fit one more size.

        Args:
            size: the size.
            profile: the profile with this size, the last.
        """
        sizes = (*self._values, size)
        if () in self.forms:
            return Forms(sizes, profile, self._known)
        new = Forms.__new__(Forms)
        new._values = dict(zip(sizes, profile, strict=True))
        new._known, new._family, new._skips_long, new.forms = self._known, self._family, self._skips_long, {}
        new._fit(self.forms)
        return new

    def _fit(self, forms: Iterable[Form]) -> None:
        """Keep those of the forms that fit; if none does, those of the next family of which some do."""
        self.forms = self.fitting(forms)
        while self._has_none and self._family + 1 < len(families()):
            self._family += 1
            self.forms = self.fitting(families()[self._family])
        if self._family > ONE_TERM:
            last, first = self.first_step
            self.forms = (self.fitting(long_steps(first)) if first - last == 1 else {}) or self.forms
        self.forms = {form: self.forms[form] for form in self.forms if form in self._known} or self.forms

    @property
    def _has_none(self) -> bool:
        """Whether no form of the present family fits, but for those of a period that is not looked for in it."""
        return all(self._family == ONE_TERM and form[0].period > MOST_PERIOD for form in self.forms)

    @property
    def is_waiting(self) -> bool:
        """Whether one long step may fit, once the size of the first rise is known."""
        if self._family <= ONE_TERM or self._skips_long:
            return False
        last, first = self.first_step
        values = [self._values[size] for size in sorted(self._values)]
        return first - last > 1 and (values == sorted(values) or values == sorted(values, reverse=True))

    @property
    def first_step(self) -> tuple[int, int]:
        """The last size that has the value of the smallest, and the first that has another."""
        sizes = sorted(self._values)
        first = next(i for i, size in enumerate(sizes) if self._values[size] != self._values[sizes[0]])
        return sizes[first - 1], sizes[first]

    def skip_long_steps(self) -> None:
        """Leave long steps out, as the network does not run at the sizes that would show the first."""
        self._skips_long = True

    def fitting(self, forms: Iterable[Form]) -> dict[Form, tuple[Fraction, ...]]:
        """Return those of some forms that fit, with the factors of their terms."""
        found = ((form, coefficients(form, self._values)) for form in forms)
        return {form: factors for form, factors in found if factors is not None}

    @property
    def is_decided(self) -> bool:
        """Whether at most one form is left."""
        return len(self.forms) <= 1

    def most_equal(self, size: int) -> int:
        """Return how many forms have the same value at a size, for the value that most have."""
        start = next(iter(self._values))
        return max(Counter(_rise(form, factors, start, size) for form, factors in self._compared()).values())

    def _compared(self) -> Iterable[tuple[Form, tuple[Fraction, ...]]]:
        step = max(1, len(self.forms) // MOST_COMPARED)
        return islice(self.forms.items(), 0, None, step)


def _rise(form: Form, factors: tuple[Fraction, ...], start: int, size: int) -> Fraction:
    return sum((b * (term.at(size) - term.at(start)) for term, b in zip(form, factors, strict=True)), Fraction(0))


def next_size(undecided: Iterable[Forms], candidates: Iterable[int], is_open: Callable[[int], bool]) -> int | None:
    """Return the size at which the forms of the profiles differ most; None if they differ nowhere.

    Args:
        undecided: profiles with several forms.
        candidates: sizes to choose from.
        is_open: whether a size can be chosen.
    """
    profiles = list(undecided)
    best, least = None, sum(len(list(profile._compared())) for profile in profiles)
    for size in filter(is_open, candidates):
        left = sum(profile.most_equal(size) for profile in profiles)
        if left < least:
            best, least = size, left
    return best
