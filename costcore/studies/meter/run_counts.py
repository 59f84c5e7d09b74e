"""The cost of steps that are counted while they run, once for each sequence of inputs."""

from __future__ import annotations

from collections.abc import Hashable

from costcore.api.hook import ComputationalCostHook
from costcore.reports.report import Report

Key = Hashable
"""The shapes of the inputs of a pass."""


class RunCounts:
    """Reports of whole steps by the sequence of inputs that the model was called with in them.

    A step is counted if no known sequence begins as it does. A step that begins as a known one and continues
    differently is seen too late; the next one that begins alike is counted.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Key, ...], Report] = {}
        self._beginnings: set[tuple[Key, ...]] = set()
        self._missed: set[Key] = set()
        self._sequence: tuple[Key, ...] = ()
        self._hook: ComputationalCostHook | None = None

    @property
    def is_counting(self) -> bool:
        """Whether the running step is counted."""
        return self._hook is not None

    def add(self, key: Key) -> None:
        """Note that a pass begins in the running step, and count the rest of the step if it is new."""
        self._sequence += (key,)
        is_new = key in self._missed or (key,) not in self._beginnings
        if self._hook is None and len(self._sequence) == 1 and is_new:
            hook = ComputationalCostHook(frontends=["pytorch"])
            hook.__enter__()
            self._hook = hook

    def end_step(self) -> Report | None:
        """Return the report of the step; None if nothing was added to it, or if it was seen too late."""
        sequence, self._sequence = self._sequence, ()
        if not sequence:
            return None
        if self._hook is not None:
            self._known[sequence] = self._ended()
            self._beginnings.update(sequence[: i + 1] for i in range(len(sequence)))
            self._missed.discard(sequence[0])
        elif sequence not in self._known:
            self._missed.add(sequence[0])
        return self._known.get(sequence)

    def _ended(self) -> Report:
        assert self._hook is not None
        hook, self._hook = self._hook, None
        hook.__exit__(None, None, None)
        return hook.report

    def close(self) -> None:
        """End the count of a running step without a report."""
        if self._hook is not None:
            self._ended()
