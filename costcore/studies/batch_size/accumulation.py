"""Gradient accumulation: the micro-batches that make up a larger batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from costcore.messages import short_repr
from costcore.studies.batch_size.captures import Captures
from costcore.studies.batch_size.coupling import couplings
from costcore.studies.batch_size.largest import FIRST, LargestBatch, find_largest
from costcore.studies.batch_size.limit import Limit
from costcore.tables.answer import Answer, Figure
from costcore.tables.result import Result


@dataclass(frozen=True, repr=False)
class Accumulation(Result):
    """The micro-batches that make up a global batch.

    Attributes:
        global_batch: samples per step of the optimizer, in all replicas.
        replicas: how many devices share a global batch, each with a copy of the model.
        micro_batch: samples per forward and backward pass; 0 if one sample does not fit.
        steps: passes per step of the optimizer in each replica; 0 if one sample does not fit.
        last: samples of the last pass, at most ``micro_batch``.
        even: the smallest micro-batch that takes as many passes: with it they are as equal as possible.
        peak: the peak of a micro-batch in bytes. From the second pass on, the gradients of the earlier ones are alive.
        limit: the terms of the limit.
        notes: what was assumed, and which layers couple the samples of a batch.
    """

    global_batch: int
    replicas: int
    micro_batch: int
    steps: int
    last: int
    even: int
    peak: int
    limit: Limit
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        passes = f"{self.steps} x {self.micro_batch}" if self.steps else "one sample does not fit"
        return f"<Accumulation of {self.global_batch}: {passes}, peak {self.peak} bytes>"

    def _answer(self) -> Answer:
        shared = f"in {self.replicas} replicas" if self.replicas > 1 else ""
        last = f"the last of {self.last}" if self.last != self.micro_batch else ""
        even = f"{self.steps} of at most {self.even} are as equal as possible" if self.even != self.micro_batch else ""
        none = "" if self.steps else "one sample does not fit"
        figures = [
            Figure("global_batch", "Global batch", self.global_batch, "count", shared),
            Figure("micro_batch", "Micro-batch", self.micro_batch, "count", none),
            Figure("steps", "Passes per step", self.steps, "count", "; ".join(filter(None, [last, even]))),
            Figure("peak", "Peak", self.peak, "bytes"),
        ]
        remarks = [f"limit: {self.limit.describe()}", *self.notes]
        return Answer("Gradient accumulation", figures, (), remarks, n_digits=2)

    def to_dict(self) -> dict[str, Any]:
        """Return all figures in plain JSON types."""
        names = ("global_batch", "replicas", "micro_batch", "steps", "last", "even", "peak")
        return {**super().to_dict(), **{name: getattr(self, name) for name in names}, "notes": list(self.notes)}


def accumulate(
    captures: Captures, limit: Limit, global_batch: int, replicas: int, largest: LargestBatch
) -> Accumulation:
    """Return the plan for a global batch.

    Args:
        captures: captures of training steps.
        limit: the terms of the limit.
        global_batch: samples per step of the optimizer.
        replicas: how many devices share them.
        largest: the largest batch without accumulation.

    Raises:
        CostError: if the model fails on the batches that are tried.
    """
    share = -(-global_batch // replicas)
    if largest.batch >= share:
        peak = limit.peak_of(captures.memory(share))
        return Accumulation(global_batch, replicas, share, 1, share, share, peak, limit, ())
    if not largest.batch:
        return Accumulation(global_batch, replicas, 0, 0, 0, 0, largest.peak, limit, ())
    found = find_largest(captures.with_options(step="accumulated"), limit)
    notes = (
        *couplings(captures.report(FIRST), captures.report(FIRST + 1)),
        *(f"micro-batch: {note}" for note in found.notes),
    )
    micro = found.batch
    if not micro:
        return Accumulation(global_batch, replicas, 0, 0, 0, 0, found.peak, limit, notes)
    steps = -(-share // micro)
    last, even = share - (steps - 1) * micro, -(-share // steps)
    return Accumulation(global_batch, replicas, micro, steps, last, even, found.peak, limit, notes)


def check_global_batch(global_batch: object, replicas: object) -> None:
    """Check the arguments of a plan.

    Raises:
        TypeError, ValueError: if one is not a positive integer, or there are more replicas than samples.
    """
    for name, value in (("global_batch", global_batch), ("replicas", replicas)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"{name} must be an integer (got {short_repr(value)})")
        if value < 1:
            raise ValueError(f"{name} must be at least 1 (got {value})")
    if replicas > global_batch:  # type: ignore[operator]
        raise ValueError(f"{replicas} replicas cannot share a global batch of {global_batch}")
