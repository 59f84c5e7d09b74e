"""The largest batch that fits, and what makes up its peak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from costcore.analyses.memory.envelope import Envelope, Line, difference, envelope_of
from costcore.analyses.memory.report import Memory
from costcore.errors import CostError
from costcore.ledger.caveats import remarks_on_mode
from costcore.studies.batch_size.captures import Captures
from costcore.studies.batch_size.limit import Limit
from costcore.studies.batch_size.search import largest_batch
from costcore.tables.answer import Answer, Figure
from costcore.tables.columns import BLOCKS
from costcore.tables.result import Result
from costcore.tables.table import Table
from costcore.text.amounts import readable
from costcore.text.table import Column
from costcore.text.values import Shown

FIRST = 2
"""The lines are those of this batch and the next: with a single sample some operators run in another way."""

_BATCH = Column("batch", "Batch", "count")


@dataclass(frozen=True, repr=False)
class LargestBatch(Result):
    """The largest batch that fits; 0 if one sample does not.

    Attributes:
        batch: the number of samples.
        peak: the peak of a run with this batch in bytes, captured; if it is 0, of the smallest batch that runs.
        next_peak: the peak with one more sample, which does not fit, captured; None if it cannot run.
        limit: the terms of the limit.
        memory: the memory of the run of which ``peak`` is.
        table: the peak by batch: powers of two, the largest batch, the next one, and what else was captured.
        of_batch: the peak of every batch of at least two samples in closed form, if ``is_closed_form``: from which
            batch on it is how many bytes, and how many more per sample. One sample can run in another way.
        is_closed_form: whether the peaks that were captured equal those of ``of_batch``. If they do not, every peak in
            the table was captured.
        notes: what was assumed, and how the batch was found if not in closed form.
    """

    batch: int
    peak: int
    next_peak: int | None
    limit: Limit
    memory: Memory
    table: Mapping[int, int]
    of_batch: Sequence[Line]
    is_closed_form: bool
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<LargestBatch {self.batch}: peak {self.peak} bytes, limit {self.limit.room} bytes>"

    def _answer(self) -> Answer:
        runs = f"batch {self.batch}" if self.batch else "the smallest batch that runs"
        none = "" if self.batch else "not even the smallest batch that runs fits"
        room = f"of {readable(self.limit.memory, 'bytes', 2)}"
        figures = [
            Figure("batch", "Largest batch", self.batch, "count", none),
            Figure("needed", f"Needed by {runs}", self._of_limit(self.needed), "bytes", room),
            Figure("peak", "Peak", self.peak, "bytes", self.memory.where),
        ]
        if self.next_peak is not None:
            needed = self.limit.needed(self.next_peak)
            excess = f"{readable(needed - self.limit.memory, 'bytes', 2)} too much"
            figures.append(Figure("next", f"Needed by batch {self.batch + 1}", self._of_limit(needed), "bytes", excess))
        kinds = [{"kind": kind, "nbytes": nbytes} for kind, nbytes in self.by_kind.items()]
        batches = [{"batch": batch, "nbytes": nbytes} for batch, nbytes in self.table.items()]
        tables = [
            Table("Alive at the peak", [BLOCKS["kind"], BLOCKS["nbytes"]], kinds, n_digits=2),
            Table("Peak by batch", [_BATCH, BLOCKS["nbytes"]], batches, n_digits=2),
        ]
        return Answer("Largest batch", figures, tables, [f"limit: {self.limit.describe()}", *self.notes], n_digits=2)

    def _of_limit(self, nbytes: int) -> Shown:
        return Shown(nbytes, readable(nbytes, "bytes", 2))

    @property
    def needed(self) -> int:
        """The memory that the run with this peak needs, with all other terms of the limit."""
        return self.limit.needed(self.peak)

    @property
    def by_kind(self) -> dict[str, int]:
        """The bytes of tensors that are alive at the peak, by what they are for."""
        return self.memory.by_kind

    def to_dict(self) -> dict[str, Any]:
        """Return all figures in plain JSON types."""
        return {
            **super().to_dict(),
            "batch": self.batch,
            "peak": self.peak,
            "next_peak": self.next_peak,
            "needed": self.needed,
            "limit": self.limit.to_dict(),
            "at": self.memory.at,
            "by_kind": self.by_kind,
            "saved": self.memory.saved,
            "table": {str(batch): peak for batch, peak in self.table.items()},
            "of_batch": [list(line) for line in self.of_batch],
            "is_closed_form": self.is_closed_form,
            "notes": list(self.notes),
        }


def find_largest(captures: Captures, limit: Limit) -> LargestBatch:
    """Return the largest batch of a model that fits.

    Raises:
        CostError: if the model fails on the batches that are tried, or its peak does not grow with the batch.
    """
    first, second = (captures.memory(batch) for batch in (FIRST, FIRST + 1))
    envelope, why_not = _envelope(first, second)
    notes = remarks_on_mode(captures.report(FIRST).trace)
    if why_not:
        notes.append(f"the peak has no closed form: of the runs with {FIRST} and {FIRST + 1} samples, {why_not}")

    def peak_of(batch: int) -> int:
        try:
            return limit.peak_of(captures.memory(batch))
        except CostError as error:
            if batch > 1:
                raise
            notes.append(str(error))
            return limit.room + 1

    batch = largest_batch(peak_of, envelope, limit.room)
    captured = dict(sorted(captures.memories.items()))
    is_closed_form = not why_not and all(
        memory.peak == envelope.peak(each) for each, memory in captured.items() if each >= FIRST
    )
    if not why_not and not is_closed_form:
        notes.append("the peak has no closed form: peaks that were captured differ from the lines of two runs")
    if not is_closed_form:
        notes.append(f"the batch was found by captures ({', '.join(map(str, captured))})")
    shown = captured.get(batch) or captured[min(captured)]
    assumptions = captures.report(max(batch, FIRST)).assumptions
    notes += dict.fromkeys(f"assumed: {assumption.what}" for assumption in assumptions)
    lines = envelope.lines_from(FIRST) if is_closed_form else []
    table = {each: limit.peak_of(memory) for each, memory in captured.items()}
    if is_closed_form and limit.allocator == "tensors":
        table |= {2**power: envelope.peak(2**power) for power in range(1, batch.bit_length())}
    next_peak = limit.peak_of(captured[batch + 1]) if batch + 1 in captured else None
    return LargestBatch(
        batch=batch,
        peak=limit.peak_of(shown),
        next_peak=next_peak,
        limit=limit,
        memory=shown,
        table=dict(sorted(table.items())),
        of_batch=lines,
        is_closed_form=is_closed_form,
        notes=(*notes, *shown.notes),
    )


def _envelope(first: Memory, second: Memory) -> tuple[Envelope, str]:
    """Return the peak by batch, and why it is approximate; empty if it is not."""
    why = difference(first.ledger, second.ledger)
    if not why:
        return envelope_of(first.ledger, second.ledger, FIRST), ""
    per_sample = max(second.peak - first.peak, 0)
    return Envelope([(first.peak - FIRST * per_sample, per_sample)]), why
