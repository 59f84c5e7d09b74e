"""An expression for every integer of a network, from captures at chosen points."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, product
from math import prod
from typing import Any, NamedTuple

from costcore.analyses.sizes.axis import AxisFit
from costcore.analyses.sizes.limits import Limits
from costcore.analyses.sizes.linear import solve
from costcore.analyses.sizes.profiles import profile_of
from costcore.analyses.sizes.samples import Point, Samples, common_columns
from costcore.analyses.sizes.terms import Form, Term, without_constant
from costcore.errors import CostError
from costcore.numbers.dims import Dim, as_dim

MOST_TOGETHER = 4
"""With more symbols than this, no product of more than two of them is looked for."""


class Formula(NamedTuple):
    """A sum of products of terms, one term of each symbol at most.

    Attributes:
        factors: the factor of every product. A product is a tuple of (position of a symbol, term).
    """

    factors: dict[tuple[tuple[int, Term], ...], Fraction]

    def at(self, point: Point) -> Fraction:
        """Return its value."""
        return sum(
            (factor * prod(term.at(point[i]) for i, term in terms) for terms, factor in self.factors.items()),
            Fraction(0),
        )

    def of(self, symbols: Sequence[str]) -> Dim:
        """Return it as an integer or an expression of sympy."""
        total: Any = 0
        for terms, factor in self.factors.items():
            number: Any = factor.numerator
            if factor.denominator != 1:
                from sympy import Rational

                number = Rational(factor.numerator, factor.denominator)
            total = total + number * prod(term.of(symbols[i]) for i, term in terms)
        return as_dim(total)


class Fit:
    """The formulas of all integers of a network.

    Args:
        samples: the runs; more are captured.
        base: the first point.
        limits: the values of every symbol.

    Attributes:
        points: the points from which the formulas follow.

    Raises:
        CostError: if an integer has no formula.
    """

    def __init__(self, samples: Samples, base: Point, limits: Sequence[Limits]) -> None:
        self._samples = samples
        self._base = base
        self.axes: list[AxisFit] = []
        for position, each in enumerate(limits):
            known = dict.fromkeys(form for axis in self.axes for form in axis.forms.values())
            self.axes.append(AxisFit(samples, base, position, each, known))
        self.points: list[Point] = []
        self._formulas: dict[tuple[int, ...], Formula] = {}
        self.solve()

    def solve(self) -> None:
        """Find the formulas from all points captured so far, and from the corners of the axes."""
        for point in self._corners():
            self._samples.at(point)
        self.points = list(self._samples.points)
        for columns in common_columns([self._samples.points[point] for point in self.points]):
            for values in columns or ():
                self.formula(values)

    def formula(self, values: tuple[int, ...]) -> Formula:
        """Return the formula of an integer that has these values at :attr:`points`."""
        if values not in self._formulas:
            self._formulas[values] = self._formula(values)
        return self._formulas[values]

    def columns_but(self, row: int, position: int, size: int) -> list[tuple[int, ...]] | None:
        """Return the columns of a row that the runs lack at one size of a symbol; None if no other row shows them.

        Args:
            row: the row.
            position: the position of the symbol.
            size: its value at which the row is lacking.
        """
        kept = [i for i, point in enumerate(self.points) if point[position] != size]
        known = {tuple(values[i] for i in kept): values for values in self._formulas}
        columns = []
        for values in zip(*(self._samples.points[self.points[i]][row] or () for i in kept), strict=True):
            constant = values[:1] * len(self.points) if len(set(values)) == 1 else None
            columns.append(constant or known.get(values))
        return None if None in columns else [each for each in columns if each is not None]

    def _corners(self) -> list[Point]:
        """Return points at which several symbols have another size than at the base."""
        levels = [self._levels(axis) for axis in self.axes]
        together = len(levels) if len(levels) <= MOST_TOGETHER else 2
        corners = []
        for count in range(2, together + 1):
            for positions in combinations(range(len(levels)), count):
                for sizes in product(*(levels[i] for i in positions)):
                    point = list(self._base)
                    for i, size in zip(positions, sizes, strict=True):
                        point[i] = size
                    corners.append(tuple(point))
        return corners

    def _levels(self, axis: AxisFit) -> list[int]:
        """Return as many sizes, beside that of the base, as the longest form of a symbol has terms."""
        longest = max(map(len, axis.forms.values()), default=0)
        terms = {term for form in axis.forms.values() for term in form}
        ends = axis.sizes[0], max(axis.sizes)
        between = (s for s in axis.sizes if all(term.at(s) not in map(term.at, ends) for term in terms))
        return [ends[1], next(between, axis.sizes[1])][:longest]

    def _formula(self, values: tuple[int, ...]) -> Formula:
        if len(distinct := set(values)) == 1:
            return Formula({(): Fraction(*distinct)})
        by_point = dict(zip(self.points, values, strict=True))
        forms = [self._form(axis, by_point) for axis in self.axes]
        products = _products(forms, MOST_TOGETHER if len(forms) <= MOST_TOGETHER else 2)
        rows = [[prod(term.at(point[i]) for i, term in terms) for terms in products] for point in self.points]
        found = solve(rows, values)
        if found is None:
            raise CostError(f"no formula was found for a size that is {_listed(self._samples, by_point)}")
        return Formula({terms: factor for terms, factor in zip(products, found, strict=True) if factor})

    def _form(self, axis: AxisFit, by_point: dict[Point, int]) -> Form:
        values = [by_point[axis.point(size)] for size in axis.sizes]
        return without_constant(axis.forms[profile_of(values)], dict(zip(axis.sizes, values, strict=True)))


def _products(forms: Sequence[Form], most: int) -> list[tuple[tuple[int, Term], ...]]:
    choices = [[None, *((i, term) for term in form)] for i, form in enumerate(forms)]
    found = (tuple(each for each in chosen if each is not None) for chosen in product(*choices))
    return [terms for terms in found if len(terms) <= most]


def _listed(samples: Samples, by_point: dict[Point, int]) -> str:
    return "; ".join(f"{value} at {samples.named(point)}" for point, value in list(by_point.items())[:6])
