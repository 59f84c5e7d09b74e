"""The values of every symbol at which a network is captured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from costcore.analyses.sizes.inputs import NamedInputs

SMALLEST = 2
"""Sizes of 0 and 1 are special: axes of one element are broadcast, and tensors of them are contiguous in any order."""

FIRST = {"batch": SMALLEST, "image": 64, "sequence": 16}
"""The first size that is tried: of the first axis of a shape, of an axis of a shape of four or more, of any other."""

LAST = {"batch": 512, "image": 2048, "sequence": 4096}
"""The last size at which formulas are checked if the user states no range."""

LAST_COMPUTED = {"batch": 8, "image": 256, "sequence": 256}
"""The same for a model that computes values at every size."""

LEAST = 4
"""The least distance of the last size from the first if the user states no range."""


class Limits(NamedTuple):
    """The values of a symbol among which sizes are chosen.

    Attributes:
        low: the first.
        high: the last.
        smallest: the smallest at which formulas are wanted.
        is_stated: whether the user stated them; otherwise a model that fails on small or on large sizes changes them.
    """

    low: int
    high: int
    smallest: int
    is_stated: bool

    def nearer(self, times: int) -> Limits:
        """Return the limits with a last size that is so many times smaller."""
        return self._replace(high=max(self.low + LEAST, self.high // times))

    def from_at_least(self, low: int) -> Limits:
        """Return the limits from a first size, if the user stated none: short loops are special."""
        low = self.low if self.is_stated else max(self.low, low)
        return self._replace(low=low, high=max(self.high, low + LEAST))


def limits_of(
    inputs: NamedInputs, ranges: Mapping[str, tuple[int, int]], last: Mapping[str, int] = LAST
) -> list[Limits]:
    """Return the limits of every symbol.

    Args:
        inputs: the inputs.
        ranges: the smallest and the largest value by symbol, where the user stated them.
        last: the last sizes of all other symbols, :data:`LAST` or :data:`LAST_COMPUTED`.
    """
    return [
        _stated(*ranges[symbol]) if symbol in ranges else _default(inputs, symbol, last) for symbol in inputs.symbols
    ]


def _stated(low: int, high: int) -> Limits:
    return Limits(low if high <= SMALLEST else max(low, SMALLEST), high, low, True)


def _default(inputs: NamedInputs, symbol: str, last: Mapping[str, int]) -> Limits:
    """Return limits that suit the axes of which the symbol is the size."""
    uses = [axis for axis in inputs.axes if symbol in inputs.symbols_of(axis.size)]
    if any(use.axis == 0 for use in uses):
        use = "batch"
    else:
        use = "image" if any(each.rank >= 4 for each in uses) else "sequence"
    ones = dict.fromkeys(inputs.symbols, 1)
    rises = [inputs.value(each.size, {**ones, symbol: 2}) - inputs.value(each.size, ones) for each in uses]
    step = max(1, *rises)
    low = max(SMALLEST, FIRST[use] // step)
    return Limits(low, max(low + LEAST, last[use] // step), 1, False)


def how_to_state(symbols: Iterable[str]) -> str:
    """Return how the user states the range of symbols."""
    ranges = ", ".join(f'"{symbol}": (smallest, largest)' for symbol in symbols)
    return f"ranges={{{ranges}}} in estimate, or Dim(name, smallest, largest) in place of a name"
