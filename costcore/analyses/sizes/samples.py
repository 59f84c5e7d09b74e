"""Runs of one network at several sizes, captured where they are needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from costcore.analyses.sizes.alignment import OtherOperatorsError, matched, text_of
from costcore.analyses.sizes.inputs import NamedInputs
from costcore.analyses.sizes.outline import Sample, amounts_of, integers_of, sample_of
from costcore.errors import CostError
from costcore.trace.call import Assumption
from costcore.trace.trace import CallCost, Trace

Point = tuple[int, ...]
"""A value for every symbol, in the order of the symbols."""

MOST_CAPTURES = 62
"""The maximum number of captures of one network."""


class Samples:
    """The runs of a network at the points that were captured so far.

    Args:
        inputs: the inputs with names in their shapes.
        capture: returns the run of the network on integer inputs.

    Attributes:
        points: the integers of every call that all runs have, by point: one row per call of the first run, None for a
            free call that not all runs have. The last row has the integers of the run as a whole.
    """

    def __init__(self, inputs: NamedInputs, capture: Callable[[Any], Trace]) -> None:
        self.symbols = inputs.symbols
        self._inputs = inputs
        self._capture = capture
        self.base: Sample | None = None
        self._base_at: Point = ()
        self.points: dict[Point, list[tuple[int, ...] | None]] = {}
        self._amounts: dict[Point, list[tuple[Any, ...] | None]] = {}
        self._further: set[Point] = set()
        self.failed: dict[Point, CostError] = {}
        self.assumed: dict[Assumption, set[Point]] = {}
        """What was assumed about data, and at which points."""

    @property
    def count(self) -> int:
        """How often the network was captured."""
        return len(self.points) + len(self.failed)

    def named(self, point: Point) -> dict[str, int]:
        """Return the values of a point by symbol."""
        return dict(zip(self.symbols, point, strict=True))

    def at(self, point: Point) -> list[tuple[int, ...] | None]:
        """Return the integers of the run at a point, and capture it first if necessary.

        Raises:
            CostError: if the network fails at this point, runs other operators there than at the first one, or would be
                captured more than :data:`MOST_CAPTURES` times.
        """
        if point in self.failed:
            raise self.failed[point]
        if point not in self.points:
            if self.count >= MOST_CAPTURES:
                raise CostError(f"no formula was found with {MOST_CAPTURES} captures; use fewer symbols, or integers")
            try:
                self.points[point] = self._sample(point)
            except CostError as error:
                self.failed[point] = error
                raise
        return self.points[point]

    def forget(self, point: Point) -> None:
        """Leave the run at a point out: the network is special there."""
        self.points.pop(point, None)
        self._further.discard(point)
        self.failed.setdefault(point, CostError(f"the network runs otherwise at {self.text(point)}"))

    def text(self, point: Point) -> str:
        """Return a point as text: ``batch=2, seq=16``."""
        return text_of(self.named(point))

    def restart(self, point: Point) -> None:
        """Make the run at a point the one that all others are compared with.

        Raises:
            CostError: if the network fails at this point.
        """
        self.base, self._base_at, self.points, self._amounts = None, point, {}, {}
        self._further.clear()
        self.at(point)

    def _sample(self, point: Point) -> list[tuple[int, ...] | None]:
        trace = self._capture(self._inputs.at(self.named(point)))
        sample = sample_of(trace)
        if self.base is None:
            self.base = sample
        matches = matched(self.base, sample, self.named(point), self.named(self._base_at))
        for assumption in trace.run.assumptions:
            self.assumed.setdefault(assumption, set()).add(point)
        if len(trace) > len(matches) - matches.count(None):
            self._further.add(point)
        self._amounts[point] = [None if i is None else _amounts(trace.records[i]) for i in matches]
        rows: list[tuple[int, ...] | None] = [None if i is None else sample.integers[i] for i in matches]
        of_run = integers_of(trace.run)
        if len(of_run) != len(integers_of(self.base.trace.run)):
            where, base_at = self.text(point), self.text(self._base_at)
            raise OtherOperatorsError(
                f"the network calls other modules, or returns another number of tensors, at {where} than at {base_at}"
            )
        return [*rows, of_run]

    @property
    def trace(self) -> Trace:
        """The first run."""
        assert self.base is not None
        return self.base.trace

    @property
    def has_further_calls(self) -> bool:
        """Whether the first run lacks free calls that another run has."""
        return bool(self._further)

    def name(self, row: int) -> str:
        """Return the name of a call of the first run, and its module."""
        if row == len(self.trace):
            return "the inputs or outputs of a module"
        call = self.trace.records[row].call
        return f"{call.name} in module {call.module!r}" if call.module else call.name

    def columns(self, points: Sequence[Point]) -> list[Columns | None]:
        """Return the columns at some points of the rows that all captured points have; None for all other rows."""
        everywhere = [None not in rows for rows in zip(*self.points.values(), strict=True)]
        rows_by_point = [self.at(point) for point in points]
        if not points:
            return [[] for _ in everywhere]
        return [
            columns if kept else None for columns, kept in zip(common_columns(rows_by_point), everywhere, strict=True)
        ]

    def amounts_at(self, point: Point) -> list[tuple[Any, ...] | None]:
        """Return the amounts of every call of the first run, in a run at a point; None for a call that it lacks."""
        return self._amounts[point]

    def absence(self, row: int) -> tuple[int, int] | None:
        """Return the position of the symbol, and its value, at which alone the runs lack a row; None if there is none.

        PyTorch takes no slice of a whole axis, such as that of all positions of a table.
        """
        lacking = {point for point, rows in self.points.items() if rows[row] is None}
        for where in enumerate(next(iter(lacking))):
            if lacking == {point for point in self.points if point[where[0]] == where[1]}:
                return where
        return None


Columns = list[tuple[int, ...]]
"""The values of every integer of a call, in the order of points."""


def common_columns(rows_by_point: Sequence[Sequence[tuple[int, ...] | None]]) -> list[Columns | None]:
    """Return the columns of every row that all points have; None for all others."""
    return [None if None in rows else list(zip(*rows, strict=True)) for rows in zip(*rows_by_point, strict=True)]


def _amounts(record: CallCost) -> tuple[Any, ...]:
    return () if record.cost is None else amounts_of(record.cost)
