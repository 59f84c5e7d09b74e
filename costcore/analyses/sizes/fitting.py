"""Fit a formula to every integer of a network, and check the formulas at other sizes.

Along each symbol, an integer is a constant, affine, a rounded quotient or a square (:class:`AxisFit`). Products of
these forms, with exact coefficients, give its formula (:class:`Fit`). Calculators compute the costs of the symbolic
calls. All formulas and costs are verified at held-out points.

A *form* is a combination of functions of one symbol. A *profile* is a sequence of values up to an affine function, so
that integers with equal profiles share a form.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import combinations, islice, product
from math import gcd, lcm, prod
from random import Random
from typing import Any, NamedTuple

from costcore.analyses.sizes.capture import (
    FIRST,
    Limits,
    NamedInputs,
    OtherOperatorsError,
    Point,
    Samples,
    amounts_of,
    assumed_above,
    common_columns,
    folded,
    how_to_state,
    multiple_that_works,
    note_of,
    start,
    with_integers,
)
from costcore.counting import Pricer
from costcore.errors import CostError
from costcore.numbers import Dim, Evaluation, as_dim, floor_div, is_symbolic, minimum, symbol_of
from costcore.trace.call import Call, ModuleCall, notes_in_sizes
from costcore.trace.run import Run
from costcore.trace.trace import KEPT_REPETITIONS, CallCost, Trace

# From captures to a symbolic run.


UNROLLED = 8
"""The divisor of last sizes for a network with unrolled loops, which runs more calls at larger sizes."""

LEFT_OUT = "calls without cost that run at some sizes only are left out: n_layers does not count them"
"""The note if free calls run at some sizes only, such as a slice that PyTorch omits if it takes the whole axis."""


def trace_in_sizes(
    inputs: NamedInputs, capture: Callable[[Any], Trace], pricer: Pricer, limits: Sequence[Limits]
) -> Trace:
    """Return the run of a network with symbolic sizes.

    The network is captured at integer sizes. An exact expression is fitted to every dimension and integer attribute,
    and the calculators compute the costs from these. Then all expressions and costs are checked at further sizes.

    Args:
        inputs: the inputs, with names in their shapes.
        capture: returns the run on integer inputs.
        pricer: computes the costs.
        limits: the limits of every symbol.

    Raises:
        CostError: if the network fails at a size or runs other operators at other sizes, or if a dimension has no
            formula or differs from its formula at a further size.
    """
    try:
        return _trace_in_sizes(Samples(inputs, capture), limits, pricer)
    except OtherOperatorsError:
        # Fold unrolled loops: with ids if possible, and from longer loops if short ones differ.
        nearer = [each if each.is_stated else each.nearer(UNROLLED) for each in limits]
        from_short, from_long = (
            [each.from_at_least(low) for each in nearer] for low in (KEPT_REPETITIONS, FIRST["sequence"])
        )
        for tried, keeps_ids in ((from_short, True), (from_long, True), (nearer, False), (from_long, False)):
            try:
                return _trace_in_sizes(Samples(inputs, _folding(capture, keeps_ids)), tried, pricer)
            except CostError as error:
                if not keeps_ids and not isinstance(error, OtherOperatorsError):
                    raise
        raise


def _folding(capture: Callable[[Any], Trace], keeps_ids: bool) -> Callable[[Any], Trace]:
    return lambda inputs: folded(capture(inputs), keeps_ids)


def _trace_in_sizes(samples: Samples, limits: Sequence[Limits], pricer: Pricer) -> Trace:
    base, limits = start(samples, limits)
    fit = _fitted(samples, base, limits)
    ends = ends_of(samples, fit, limits)
    held_out = held_out_points(samples, fit, ends)
    trace, rows = symbolic_trace(samples, fit, pricer)
    verify(samples, fit, zip(rows, trace, strict=True), held_out)
    names = ", ".join(samples.symbols)
    above = assumed_above(samples, trace)
    made = f"formulas in {names}: from {len(fit.points)} captures, checked at {len(held_out)} further points"
    left_out = [LEFT_OUT] * (samples.has_further_calls or len(rows) < len(samples.trace))
    notes = notes_in_sizes(trace.run.notes, trace.calls)
    run = replace(
        trace.run,
        notes=(*notes, made, *exceptions(samples.symbols, limits, ends), *map(note_of, above), *left_out),
        assumptions=tuple(each for each in samples.assumed if each not in {found for found, *_ in above}),
    ).recording(ranges=dict(zip(samples.symbols, ends, strict=True)), assumed_above=tuple(above))
    return Trace(trace.records, run)


def _fitted(samples: Samples, base: Point, limits: Sequence[Limits]) -> Fit:
    try:
        return Fit(samples, base, limits)
    except CostError as error:
        for position, symbol in enumerate(samples.symbols):
            nearby = (*base[:position], base[position] + 1, *base[position + 1 :])
            if nearby in samples.failed and (step := multiple_that_works(samples, base, position)):
                advice = f'It runs alike at multiples of {step}: write "{step}*{symbol}" in place of "{symbol}".'
                raise CostError(f"{str(error).rstrip('.')}. {advice}") from error
        raise


MOST_TOGETHER = 4
"""With more symbols than this, products have at most two symbols."""


class Formula(NamedTuple):
    """A sum of products; each product has at most one term per symbol.

    Attributes:
        factors: the coefficient of each product, a tuple of pairs (position of a symbol, term).
    """

    factors: dict[tuple[tuple[int, Term], ...], Fraction]

    def at(self, point: Point) -> Fraction:
        """Return the value at a point."""
        return sum(
            (factor * prod(term.at(point[i]) for i, term in terms) for terms, factor in self.factors.items()),
            Fraction(0),
        )

    def of(self, symbols: Sequence[str]) -> Dim:
        """Return the formula as an int or a sympy expression."""
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
        limits: the limits of every symbol.

    Attributes:
        points: the points to which the formulas are fitted.

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
        """Fit all formulas, to the points captured so far and to points at which several symbols vary."""
        for point in self._corners():
            self._samples.at(point)
        self.points = list(self._samples.points)
        for columns in common_columns([self._samples.points[point] for point in self.points]):
            for values in columns or ():
                self.formula(values)

    def formula(self, values: tuple[int, ...]) -> Formula:
        """Return the formula of an integer with these values at :attr:`points`."""
        if values not in self._formulas:
            self._formulas[values] = self._formula(values)
        return self._formulas[values]

    def completed_columns(self, row: int, position: int, size: int) -> list[tuple[int, ...]] | None:
        """Complete the columns of a row that is missing at one size, from constant or equal columns.

        None if a column is neither constant nor equal to a column with a formula.

        Args:
            row: the row.
            position: the position of the symbol.
            size: the value of the symbol at which the row is missing.
        """
        kept = [i for i, point in enumerate(self.points) if point[position] != size]
        known = {tuple(values[i] for i in kept): values for values in self._formulas}
        columns = []
        for values in zip(*(self._samples.points[self.points[i]][row] or () for i in kept), strict=True):
            constant = values[:1] * len(self.points) if len(set(values)) == 1 else None
            columns.append(constant or known.get(values))
        return None if None in columns else [each for each in columns if each is not None]

    def _corners(self) -> list[Point]:
        # Coefficients of products need points at which several symbols differ from the base.
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
        # As many sizes besides the base as the longest form has terms.
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


# Candidate forms of one dimension along one symbol.


MOST_COMPARED = 200
"""The maximum number of forms per profile that are compared to choose the next size."""


def profile_of(values: Sequence[int]) -> tuple[int, ...]:
    """Return the differences from the first value, divided by their gcd; zeros for a constant."""
    first, *others = values
    rises = [value - first for value in others]
    divisor = gcd(*rises) or 1
    return (0, *(rise // divisor for rise in rises))


class Forms:
    """All forms that fit one profile so far, from the simplest family with such a form.

    Args:
        sizes: the sizes of the symbol at which the values are known.
        profile: see :func:`profile_of`.
        known: forms along other symbols, which are preferred within a family.
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
        """Return the forms that also fit at one more size.

        Args:
            size: the size.
            profile: the profile including this size, as its last value.
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
        # If no form fits, try the next family.
        self.forms = self.fitting(forms)
        while self._has_no_form and self._family + 1 < len(families()):
            self._family += 1
            self.forms = self.fitting(families()[self._family])
        if self._family > ONE_TERM:
            last, first = self.first_step
            self.forms = (self.fitting(long_steps(first)) if first - last == 1 else {}) or self.forms
        self.forms = {form: self.forms[form] for form in self.forms if form in self._known} or self.forms

    @property
    def _has_no_form(self) -> bool:
        # A period above MOST_PERIOD does not count: long periods are searched later.
        return all(self._family == ONE_TERM and form[0].period > MOST_PERIOD for form in self.forms)

    @property
    def is_waiting(self) -> bool:
        """Whether a long period may fit, but the size of the first step is not known exactly."""
        if self._family <= ONE_TERM or self._skips_long:
            return False
        last, first = self.first_step
        values = [self._values[size] for size in sorted(self._values)]
        return first - last > 1 and (values == sorted(values) or values == sorted(values, reverse=True))

    @property
    def first_step(self) -> tuple[int, int]:
        """The last size with the initial value, and the first size with another value."""
        sizes = sorted(self._values)
        first = next(i for i, size in enumerate(sizes) if self._values[size] != self._values[sizes[0]])
        return sizes[first - 1], sizes[first]

    def skip_long_steps(self) -> None:
        """Do not search long periods, because the network fails at the sizes that would locate the first step."""
        self._skips_long = True

    def fitting(self, forms: Iterable[Form]) -> dict[Form, tuple[Fraction, ...]]:
        """Return the forms that fit, with the coefficients of their terms."""
        found = ((form, coefficients(form, self._values)) for form in forms)
        return {form: factors for form, factors in found if factors is not None}

    @property
    def is_decided(self) -> bool:
        """Whether at most one form fits."""
        return len(self.forms) <= 1

    def compared(self) -> Compared:
        """Return the forms with integer coefficients (times one common denominator), to choose the next size."""
        step, start = max(1, len(self.forms) // MOST_COMPARED), next(iter(self._values))
        chosen = list(islice(self.forms.items(), 0, None, step))
        denominator = lcm(*(b.denominator for _, factors in chosen for b in factors))
        found: Compared = []
        for form, factors in chosen:
            terms = [(int(b * denominator), term) for term, b in zip(form, factors, strict=True)]
            found.append((-sum(b * term.at(start) for b, term in terms), [(b, *term) for b, term in terms]))
        return found


Compared = list[tuple[int, list[tuple[int, int, int, int]]]]
"""Forms as a constant and (coefficient, period, offset, power) of each term; the value is 0 at the first size."""


def most_equal(compared: Compared, size: int) -> int:
    """Return the size of the largest group of forms that have the same value at a size."""
    values = [
        constant + sum([b * ((size + offset) // period) ** power for b, period, offset, power in terms])
        for constant, terms in compared
    ]
    return max(Counter(values).values())


def next_size(undecided: Iterable[Forms], candidates: Iterable[int], is_open: Callable[[int], bool]) -> int | None:
    """Return the size that best separates the forms of all profiles; None if no size separates any.

    Args:
        undecided: profiles with several forms.
        candidates: the sizes to choose from.
        is_open: returns whether a size can be chosen.
    """
    profiles = [forms.compared() for forms in undecided]
    best, least = None, sum(map(len, profiles))
    for size in filter(is_open, candidates):
        left = sum(most_equal(compared, size) for compared in profiles)
        if left < least:
            best, least = size, left
    return best


# Terms: constant, affine, rounded quotients, and squares of these.


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
        """Return the term as a sympy expression."""
        return floor_div(symbol_of(symbol) + self.offset, self.period) ** self.power


SIZE = Term()

MOST_PERIOD = 128
"""The maximum period of a rounded quotient in :func:`families`."""

LONGEST_PERIOD = 4096
"""The maximum period in :func:`long_steps`; long periods come from chains of strides."""

Form = tuple[Term, ...]
"""The terms of one symbol in a dimension, without the constant."""


def coefficients(form: Form, profile: Mapping[int, int]) -> tuple[Fraction, ...] | None:
    """Return the coefficients with which a form, plus a constant, gives these values by size.

    None if there are no such coefficients, or if they are not unique.
    """
    if len(form) == 1:
        return _single_term_factor(form[0], profile)
    (start, first), *others = profile.items()
    at_start = [term.at(start) for term in form]
    return _two_term_factors(
        [(*(term.at(size) - t for term, t in zip(form, at_start, strict=True)), v - first) for size, v in others]
    )


def _single_term_factor(term: Term, profile: Mapping[int, int]) -> tuple[Fraction] | None:
    # Fast path: the first other value rejects nearly all terms.
    (start, first), *_ = profile.items()
    other = next(size for size, value in profile.items() if value != first)
    at_start = term.at(start)
    run, rise = term.at(other) - at_start, profile[other] - first
    if not run or any((value - first) * run != rise * (term.at(size) - at_start) for size, value in profile.items()):
        return None
    return (Fraction(rise, run),)


def _two_term_factors(rises: Sequence[Sequence[int]]) -> tuple[Fraction, Fraction] | None:
    for i, (x1, y1, v1) in enumerate(rises):
        for x2, y2, v2 in rises[i + 1 :]:
            if determinant := x1 * y2 - x2 * y1:
                a, b = v1 * y2 - v2 * y1, x1 * v2 - x2 * v1
                fits = all(v * determinant == a * x + b * y for x, y, v in rises)
                return (Fraction(a, determinant), Fraction(b, determinant)) if fits else None
    return None


def without_constant(form: Form, values: Mapping[int, int]) -> Form:
    """Move the constant of a form with one term into its offset: ``s // 2 - 1`` becomes ``(s - 2) // 2``.

    This is possible if the constant is an integer multiple of the coefficient; otherwise the form stays.
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
"""The index of the last family with forms of one term."""


@cache
def families() -> tuple[Sequence[Form], ...]:
    """Return the forms to try, in groups from simple to complex.

    Single quotients include the period ``MOST_PERIOD + 1``, to tell the period ``MOST_PERIOD`` from longer ones.
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
    """Yield quotients with long periods that step at size ``first``."""
    return ((Term(period, -first % period),) for period in range(MOST_PERIOD + 1, LONGEST_PERIOD + 1))


# All dimensions along one symbol, from as few captures as possible.


NEAR = (0, 1, 2, 3)
"""Offsets from the first size of a symbol that are always captured."""

MOST_LISTED = 6
"""The maximum number of values of a dimension in a message."""

FAR = (2 * MOST_PERIOD + 1, MOST_PERIOD, MOST_PERIOD // 2, MOST_PERIOD // 4)
"""Offsets to try in order until the network runs at one of them."""


class AxisFit:
    """The forms of all dimensions along one symbol.

    Args:
        samples: the runs.
        base: the first point; only this symbol varies.
        position: the position of the symbol.
        limits: its limits.
        known: forms along other symbols.

    Attributes:
        forms: the form of every profile; see :func:`profile_of`.
        sizes: the captured sizes of the symbol, in order of capture.

    Raises:
        CostError: if a dimension has no form; names the first such call.
    """

    sizes: list[int]

    def __init__(
        self, samples: Samples, base: Point, position: int, limits: Limits, known: Iterable[Form] = ()
    ) -> None:
        self._samples = samples
        self._base = base
        self._position = position
        self._known = tuple(known)
        self._limits = limits
        self.sizes = self._first_sizes()
        self.forms: dict[tuple[int, ...], Form] = {}
        self._found: dict[tuple[int, ...], Forms] = {}
        self._fit()

    def _first_sizes(self) -> list[int]:
        low, high = self._limits.low, self._limits.high
        near = [low + step for step in NEAR if low + step <= high]
        for size in near:
            self._samples.at(self.point(size))
        if self._limits.is_stated:
            return list(dict.fromkeys((*near, high)))
        *others, nearest = (min(low + step, high) for step in FAR)
        far = next((size for size in others if self._is_captured(size)), nearest)
        return list(dict.fromkeys((*near, far)))

    def _is_captured(self, size: int) -> bool:
        # The network may fail here, unless the user gave the range.
        try:
            self._samples.at(self.point(size))
        except OtherOperatorsError:
            raise
        except CostError:
            if self._limits.is_stated:
                raise
            return False
        return True

    def point(self, size: int) -> Point:
        """Return the point with another size of the symbol."""
        return (*self._base[: self._position], size, *self._base[self._position + 1 :])

    def _fit(self) -> None:
        self._found = {profile: Forms(self.sizes, profile, self._known) for profile in self._profiles()}
        self._decide()
        while waiting := next((each for each in self._found.values() if each.is_waiting), None):
            if not self._add(sum(waiting.first_step) // 2):
                waiting.skip_long_steps()
            self._decide()
        terms = {term: None for each in self._found.values() for form in each.forms for term in form}
        squares = (term._replace(power=2) for term in [*terms])
        pairs = [*combinations(dict.fromkeys((*terms, *squares)), 2)]
        for each in self._found.values():
            each.forms = each.forms or each.fitting(pairs)
        self._decide()
        for profile, forms in self._found.items():
            if not forms.forms:
                raise CostError(self._unexplained(profile))
            self.forms[profile] = next(iter(forms.forms))

    def _decide(self) -> None:
        while undecided := [forms for forms in self._found.values() if not forms.is_decided]:
            size = next_size(undecided, self._candidates(undecided), self._is_open)
            if size is None:
                return
            self._add(size)

    def _add(self, size: int) -> bool:
        if not self._is_captured(size):
            return False
        self.sizes.append(size)
        self._found = {
            profile: self._found[profile_of(profile[:-1])].extended(size, profile) for profile in self._profiles()
        }
        return True

    def _profiles(self) -> list[tuple[int, ...]]:
        rows = [self._samples.at(self.point(size)) for size in self.sizes]
        found = (profile_of(values) for columns in common_columns(rows) for values in set(columns or ()))
        return list(dict.fromkeys(found))

    def _is_open(self, size: int) -> bool:
        return size not in self.sizes and self.point(size) not in self._samples.failed

    def _candidates(self, undecided: Iterable[Forms]) -> Iterable[int]:
        low, high = self._limits.low, self._limits.high
        yield from range(low, min(high, low + 2 * MOST_PERIOD) + 1)
        for forms in undecided:
            long = (form[0].period for form in forms.forms if form[0].period > MOST_PERIOD)
            yield from (size for period in long if (size := forms.first_step[1] + period) <= high)

    def _unexplained(self, profile: tuple[int, ...]) -> str:
        rows = [self._samples.at(self.point(size)) for size in self.sizes]
        base = self._samples.base
        assert base is not None
        symbol = self._samples.symbols[self._position]
        narrower = f"State a range in which there is one: {how_to_state([symbol])}."
        for record, columns in zip(base.trace, common_columns(rows), strict=False):
            for values in columns or ():
                if profile_of(values) == profile:
                    pairs = sorted(zip(self.sizes, values, strict=True))
                    listed = pairs if len(pairs) <= MOST_LISTED else [*pairs[: MOST_LISTED - 1], pairs[-1]]
                    found = ", ".join(f"{value} at {size}" for size, value in listed)
                    return (
                        f"no formula in {symbol} was found for a size of {record.call.name} (module "
                        f"{record.call.module!r}), which is {found}. {narrower}"
                    )
        return f"no formula in {symbol} was found for the inputs of a module. {narrower}"


# Exact linear equations.


def solve(rows: Sequence[Sequence[int]], values: Sequence[int]) -> list[Fraction] | None:
    """Return the unique ``x`` with ``rows · x == values``; None if there is no such ``x``, or several."""
    width = len(rows[0])
    matrix = [[*map(Fraction, row), Fraction(value)] for row, value in zip(rows, values, strict=True)]
    for column in range(width):
        pivot = next((i for i in range(column, len(matrix)) if matrix[i][column]), None)
        if pivot is None:
            return None
        matrix[column], matrix[pivot] = matrix[pivot], matrix[column]
        scale = matrix[column][column]
        matrix[column] = [entry / scale for entry in matrix[column]]
        for i, row in enumerate(matrix):
            if i != column and row[column]:
                factor = row[column]
                matrix[i] = [a - factor * b for a, b in zip(row, matrix[column], strict=True)]
    if any(row[width] for row in matrix[width:]):
        return None
    return [row[width] for row in matrix[:width]]


# Verification at held-out points.


RANDOM_POINTS = 3
"""The number of random held-out points, in addition to the ends of the ranges."""

SEED = 1
"""The fixed seed of the random points."""

Ends = list[tuple[int, int]]


def ends_of(samples: Samples, fit: Fit, limits: Sequence[Limits]) -> Ends:
    """Return the smallest and largest value of every symbol at which the formulas are checked.

    They are the ends of the range from the user. Without a range, the largest is halved while the network fails, and
    the smallest is the first of 1, 2, 3 at which the formulas hold. For a loop it may be up to 5: its first steps may
    be special, and only three or more equal steps are folded.

    Raises:
        CostError: if the network runs other operators at the largest value.
    """
    highs = [_largest(samples, *each) for each in zip(limits, fit.axes, strict=True)]
    small = [_smallest(samples, fit, *each) for each in zip(limits, fit.axes, strict=True)]
    lows = small if _holds(samples, fit, tuple(small)) else [each.low for each in limits]
    return list(zip(lows, highs, strict=True))


def exceptions(symbols: Sequence[str], limits: Sequence[Limits], ends: Ends) -> list[str]:
    """Return a note for each symbol whose formulas do not hold at the minimum of its range."""
    return [
        f"the network is special at {symbol}={each.smallest}: its formulas hold from {low}"
        for symbol, each, (low, _) in zip(symbols, limits, ends, strict=True)
        if each.is_stated and low > each.smallest
    ]


def _smallest(samples: Samples, fit: Fit, limits: Limits, axis: AxisFit) -> int:
    is_loop = samples.trace.run.unfolded is not None
    small = range(limits.smallest, min(2 * KEPT_REPETITIONS if is_loop else KEPT_REPETITIONS + 1, limits.low))
    return next((size for size in small if _holds(samples, fit, axis.point(size))), limits.low)


def _largest(samples: Samples, limits: Limits, axis: AxisFit) -> int:
    if limits.is_stated:
        return limits.high
    return next(size for size in _halved(limits.high, max(axis.sizes)) if _captures_at(samples, axis.point(size)))


def _halved(high: int, least: int) -> Iterator[int]:
    while high > least:
        yield high
        high //= 2
    yield least


def _captures_at(samples: Samples, point: Point) -> bool:
    try:
        samples.at(point)
    except OtherOperatorsError:
        raise
    except CostError:
        return False
    return True


def _holds(samples: Samples, fit: Fit, point: Point) -> bool:
    try:
        _verify_sizes(samples, fit, [point])
    except CostError:
        samples.forget(point)
        return False
    return True


def held_out_points(samples: Samples, fit: Fit, ends: Ends) -> list[Point]:
    """Capture the points at which formulas are checked, and return them.

    They are the ends of all ranges, and random points between them. With several symbols, they include the points at
    which all symbols have their second or third size: these tell ``(a + b) // 2`` from ``a // 2 + (b + 1) // 2``.

    Raises:
        CostError: if the network fails at one of these points.
    """
    random = Random(SEED)
    points = [tuple(low for low, _ in ends), tuple(high for _, high in ends)]
    points += [tuple(_log_uniform(low, high, random) for low, high in ends) for _ in range(RANDOM_POINTS)]
    points += [tuple(axis.sizes[: step + 1][-1] for axis in fit.axes) for step in (1, 2)]
    for point in points:
        samples.at(point)
    return [point for point in samples.points if point not in fit.points]


def _log_uniform(low: int, high: int, random: Random) -> int:
    # All orders of magnitude are equally likely.
    return round(math.exp(random.uniform(math.log(max(low, 1)), math.log(max(high, 1)))))


def verify(samples: Samples, fit: Fit, records: Iterable[tuple[int, CallCost]], points: Sequence[Point]) -> None:
    """Check all formulas and costs against the runs at some points.

    Args:
        samples: the runs.
        fit: the formulas of their integers.
        records: the calls with formulas, each with its position in the first run.
        points: the points.

    Raises:
        CostError: for the first difference; names the call and the point.
    """
    _verify_sizes(samples, fit, points)
    records = list(records)
    for point in points:
        _verify_costs(samples, records, point)


def _verify_sizes(samples: Samples, fit: Fit, points: Sequence[Point]) -> None:
    if not points:
        return
    known = samples.columns(fit.points)
    checked: set[tuple[tuple[int, ...], tuple[int, ...]]] = set()
    for i, (at_points, columns) in enumerate(zip(samples.columns(points), known, strict=True)):
        if at_points is None or columns is None:
            continue
        for found, values in zip(at_points, columns, strict=True):
            if (found, values) in checked:
                continue
            checked.add((found, values))
            formula = fit.formula(values)
            for point, value in zip(points, found, strict=True):
                if formula.at(point) != value:
                    raise CostError(
                        f"a size of {samples.name(i)} has no formula: {formula.of(samples.symbols)} gives "
                        f"{formula.at(point)} at {samples.text(point)}, where it is {value}. State a range in which it "
                        f"holds: {how_to_state(samples.symbols)}."
                    )


def _verify_costs(samples: Samples, records: Sequence[tuple[int, CallCost]], point: Point) -> None:
    evaluate = Evaluation({symbol_of(name): value for name, value in zip(samples.symbols, point, strict=True)})
    found: dict[int, tuple[object, ...]] = {}
    at_point = samples.amounts_at(point)
    for row, record in records:
        amounts = at_point[row]
        if record.cost is None or amounts is None:
            continue
        if id(record.cost) not in found:
            found[id(record.cost)] = tuple(evaluate(a) if is_symbolic(a) else a for a in amounts_of(record.cost))
        if found[id(record.cost)] != amounts:
            raise CostError(
                f"the cost of {record.call.name} has no formula: its calculator gives {found[id(record.cost)]} at "
                f"{samples.text(point)}, where it is {amounts}"
            )


# The symbolic run.


def symbolic_trace(samples: Samples, fit: Fit, pricer: Pricer) -> tuple[Trace, list[int]]:
    """Return the first run with formulas for its integers, and the positions of the calls that are kept.

    If a free call is missing at exactly one size, its executions get a formula that is 0 there and 1 elsewhere. If it
    is missing at several sizes, it is removed, and its readers read its operand.
    """
    made: dict[tuple[int, ...], Dim] = {}

    def expressions(columns: Sequence[tuple[int, ...]]) -> list[Dim]:
        for values in columns:
            if values not in made:
                made[values] = fit.formula(values).of(samples.symbols)
        return [made[values] for values in columns]

    *rows, of_modules = samples.columns(fit.points)
    calls: dict[tuple[Any, ...], tuple[Call, tuple[Dim, ...]]] = {}
    ids: list[tuple[Dim, ...]] = []
    records: dict[int, CallCost] = {}
    names: dict[int, int] = {}
    for row, (record, columns) in enumerate(zip(samples.trace, rows, strict=True)):
        read = tuple(names.get(each, each) for each in record.call.inputs)
        present: Dim = 1
        if columns is None:
            where = samples.absence(row)
            columns = None if where is None else fit.completed_columns(row, *where)
            if where is None or columns is None:
                names.update(dict.fromkeys(record.call.outputs, read[0]) if read else {})
                continue
            present = minimum(1, (symbol_of(samples.symbols[where[0]]) - where[1]) ** 2)
        key = (id(record.call.layer), *columns)
        if key not in calls:
            calls[key] = with_integers(record.call, expressions(columns))
        call, of_call = calls[key]
        ids.append(of_call)
        records[row] = pricer(record.call._replace(layer=call.layer, inputs=read, times=call.times * present))
    run = _symbolic_run(samples.trace.run, expressions(of_modules or ()))
    if run.unfolded is not None:  # ids are only known if no free call was removed
        run = run.recording(unfolded=run.unfolded._replace(ids=tuple(ids)) if len(ids) == len(samples.trace) else None)
    trace = Trace(tuple(records.get(row, record) for row, record in enumerate(samples.trace)), run)
    return trace.only(records), [*records]


def _symbolic_run(run: Run, sizes: Sequence[Dim]) -> Run:
    left = iter(sizes)

    def with_sizes(shapes: Sequence[Sequence[Dim]]) -> tuple[tuple[Dim, ...], ...]:
        return tuple(tuple(next(left) for _ in shape) for shape in shapes)

    calls = [
        ModuleCall(call.module, call.parent, with_sizes(call.inputs), with_sizes(call.outputs))
        for call in run.module_calls
    ]
    return run.recording(module_calls=tuple(calls), returned=tuple(left) or run.returned)
