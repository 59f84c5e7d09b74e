"""Durations and costs of the last steps, and of all steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter_ns

from costcore.studies.meter.rates import NO_STEP, PassCost, sum_of

MOST_NEW = 1000
"""Number of steps after which they are added up."""

Step = tuple[int, PassCost]
"""Nanoseconds and cost of a step."""

Totals = tuple[int, int, PassCost]
"""Steps, nanoseconds and cost of several steps together."""


class StepLog:
    """Durations and costs of steps; the clock runs from the end of one step to the end of the next.

    Args:
        window: number of steps whose durations are kept.

    Attributes:
        untimed: cost of the steps that were left out because their duration says nothing.
    """

    def __init__(self, window: int) -> None:
        self._last: deque[Step] = deque(maxlen=window)
        self._new: list[Step] = []
        self._steps = 0
        self._nanoseconds = 0
        self._cost = self.untimed = NO_STEP
        self._not_counted = 0
        self._start = perf_counter_ns()

    def end_step(self, cost: PassCost) -> None:
        """End a step that cost this much, and begin the next one."""
        now = perf_counter_ns()
        self._new.append((now - self._start - self._not_counted, cost))
        self._start, self._not_counted = now, 0
        if len(self._new) == MOST_NEW:
            self._add_new()

    def _add_new(self) -> None:
        """Add the steps since the last time to the sums, many at once, which takes less time than one by one."""
        new, self._new = self._new, []
        self._last.extend(new)
        self._steps += len(new)
        self._nanoseconds += sum(spent for spent, _ in new)
        self._cost = sum_of((self._cost, *(cost for _, cost in new)))

    def leave_out_step(self, cost: PassCost) -> None:
        """End a step whose duration says nothing, because it was watched, and begin the next one."""
        self.untimed = sum_of((self.untimed, cost))
        self.restart()

    def restart(self) -> None:
        """Leave out the time since the last step."""
        self._start, self._not_counted = perf_counter_ns(), 0

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Leave the time inside the context out."""
        start = perf_counter_ns()
        try:
            yield
        finally:
            self._not_counted += perf_counter_ns() - start

    @property
    def last(self) -> Totals:
        """The last steps together."""
        self._add_new()
        steps = list(self._last)
        return len(steps), sum(spent for spent, _ in steps), sum_of(cost for _, cost in steps)

    @property
    def all(self) -> Totals:
        """All timed steps together."""
        self._add_new()
        return self._steps, self._nanoseconds, self._cost
