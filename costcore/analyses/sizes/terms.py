"""The forms that a dimension has along one symbol: constant, affine, rounded quotients, and squares of these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

from costcore.numbers.dims import floor_div
from costcore.numbers.expressions import symbol_of


class Term(NamedTuple):
    """The function ``((s + offset) // period) ** power`` of a symbol ``s``."""

    period: int = 1
    offset: int = 0
    power: int = 1

    def at(self, size: int) -> int:
        """Return its value."""
        value = (size + self.offset) // self.period
        return value if self.power == 1 else value**self.power

    def of(self, symbol: str) -> Any:
        """Return it as an expression of sympy."""
        return floor_div(symbol_of(symbol) + self.offset, self.period) ** self.power


SIZE = Term()
MOST_PERIOD = 128
"""The longest period of a rounded quotient that is looked for."""

LONGEST_PERIOD = 4096
"""The longest period that is looked for from the size at which a dimension first rises: a chain of strides."""

Form = tuple[Term, ...]
"""The functions of one symbol whose combination a dimension is, without the constant."""


def coefficients(form: Form, profile: Mapping[int, int]) -> tuple[Fraction, ...] | None:
    """Return the factor of every term if, with a constant, the terms give these values by size; else None.

    None is also returned if several factors do.
    """
    if len(form) == 1:
        return _of_line(form[0], profile)
    (start, first), *others = profile.items()
    at_start = [term.at(start) for term in form]
    return _of_plane(
        [(*(term.at(size) - t for term, t in zip(form, at_start, strict=True)), v - first) for size, v in others]
    )


def _of_line(term: Term, profile: Mapping[int, int]) -> tuple[Fraction] | None:
    """Return the factor of one term. Nearly all terms are refused by the first size whose value differs."""
    (start, first), *_ = profile.items()
    other = next(size for size, value in profile.items() if value != first)
    at_start = term.at(start)
    run, rise = term.at(other) - at_start, profile[other] - first
    if not run or any((value - first) * run != rise * (term.at(size) - at_start) for size, value in profile.items()):
        return None
    return (Fraction(rise, run),)


def _of_plane(rises: Sequence[Sequence[int]]) -> tuple[Fraction, Fraction] | None:
    for i, (x1, y1, v1) in enumerate(rises):
        for x2, y2, v2 in rises[i + 1 :]:
            if determinant := x1 * y2 - x2 * y1:
                a, b = v1 * y2 - v2 * y1, x1 * v2 - x2 * v1
                fits = all(v * determinant == a * x + b * y for x, y, v in rises)
                return (Fraction(a, determinant), Fraction(b, determinant)) if fits else None
    return None


def without_constant(form: Form, values: Mapping[int, int]) -> Form:
    """Return a form that gives values by size without a constant, if that of one term can: ``(s - 1) // 2``.

    For ``s // 2 - 1`` the constant -1 is a whole multiple of the factor 1, and moves into the term.
    """
    if len(form) != 1 or form[0].power != 1:
        return form
    (factor,) = coefficients(form, values) or (Fraction(0),)
    size, value = next(iter(values.items()))
    constant = value - factor * form[0].at(size)
    if not factor or constant % factor:
        return form
    (term,) = form
    return (term._replace(offset=term.offset + term.period * int(constant / factor)),)


ONE_TERM = 1
"""The last of the families whose forms have one term."""


@cache
def families() -> tuple[Sequence[Form], ...]:
    """Return the forms that are tried, the simplest first; forms of one sequence are as simple as each other.

    Alone, quotients have one period more than are looked for: sizes at which it differs from the longest show whether
    that one is meant or a longer one.
    """
    rounded = [Term(period, offset) for period in range(2, MOST_PERIOD + 1) for offset in range(period)]
    longer = (Term(MOST_PERIOD + 1, offset) for offset in range(MOST_PERIOD + 1))
    return (
        [(SIZE,)],
        [(term,) for term in (*rounded, *longer)],
        [(SIZE, Term(power=2))],
        [(SIZE, term) for term in rounded],
        [(term, term._replace(power=2)) for term in rounded],
    )


def long_steps(first: int) -> Iterator[Form]:
    """Return quotients of long periods that rise at one size."""
    return ((Term(period, -first % period),) for period in range(MOST_PERIOD + 1, LONGEST_PERIOD + 1))
