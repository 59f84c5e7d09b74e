"""The forms of all dimensions along one symbol, from as few captures as possible."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from costcore.analyses.sizes.alignment import OtherOperatorsError
from costcore.analyses.sizes.limits import Limits, how_to_state
from costcore.analyses.sizes.profiles import Forms, next_size, profile_of
from costcore.analyses.sizes.samples import Point, Samples, common_columns
from costcore.analyses.sizes.terms import MOST_PERIOD, Form
from costcore.errors import CostError

NEAR = (0, 1, 2, 3)
"""Distances from the first size of a symbol at which the network is always captured."""

MOST_LISTED = 6
"""The maximum number of values of a dimension in a message."""

FAR = (2 * MOST_PERIOD + 1, MOST_PERIOD, MOST_PERIOD // 2, MOST_PERIOD // 4)
"""Distances of another size; the first at which the network runs is taken."""


class AxisFit:
    """The forms of all dimensions along one symbol.

    Args:
        samples: the runs.
        base: the point from which only this symbol varies.
        position: the position of the symbol.
        limits: its values.
        known: forms that dimensions have along other symbols.

    Attributes:
        forms: the form of every profile, see :func:`~costcore.analyses.sizes.profiles.profile_of`.
        sizes: the sizes of the symbol at which the network was captured, in the order of the captures.

    Raises:
        CostError: if no form fits a dimension; names the first such call.
    """

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
        """Return the first sizes of the symbol, and one far away, at which the network is captured."""
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
        """Capture the network at a size, at which it may fail if no range has it."""
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
        """Capture the network until every profile has one form, or none, or no size decides."""
        while undecided := [forms for forms in self._found.values() if not forms.is_decided]:
            size = next_size(undecided, self._candidates(undecided), self._is_open)
            if size is None:
                return
            self._add(size)

    def _add(self, size: int) -> bool:
        """Capture the network at a size; return whether it runs there."""
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
