"""The peak of memory of any batch in closed form, from the ledgers of two batches.

If two runs make the same events, the bytes alive after event t of a run with batch B are ``c_t + d_t * B``. The peak is
the upper envelope of these lines: convex, and linear in pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import ceil
from typing import NamedTuple

from costcore.trace.memory_ledger import MemoryLedger


class Line(NamedTuple):
    """The bytes alive after one event: ``nbytes + per_sample * batch``.

    Attributes:
        start: the smallest batch from which on this event is the peak.
        nbytes: the bytes that do not depend on the batch.
        per_sample: the bytes per sample.
    """

    start: int
    nbytes: int
    per_sample: int

    def at(self, batch: int) -> int:
        """Return the bytes of a batch."""
        return self.nbytes + self.per_sample * batch


class Envelope:
    """The peak of every batch.

    Attributes:
        lines: the lines that are the highest for some batch, in order of the batch.

    Args:
        lines: pairs of the bytes that do not depend on the batch, and the bytes per sample; at least one.
    """

    def __init__(self, lines: Iterable[tuple[int, int]]) -> None:
        self.lines: Sequence[Line] = _upper(lines)

    def __repr__(self) -> str:
        terms = (f"{line.nbytes} + {line.per_sample} * batch from {line.start}" for line in self.lines)
        return f"<Envelope: {', '.join(terms)}>"

    def peak(self, batch: int) -> int:
        """Return the peak of a batch in bytes."""
        return max(line.at(batch) for line in self.lines)

    def lines_from(self, batch: int) -> list[Line]:
        """Return the lines that are the highest for some batch of at least ``batch`` samples."""
        ends = [*(line.start for line in self.lines[1:]), None]
        rows = zip(self.lines, ends, strict=True)
        return [Line(max(line.start, batch), *line[1:]) for line, end in rows if end is None or end > batch]

    def largest(self, nbytes: int) -> int | None:
        """Return the largest batch whose peak is at most ``nbytes``: 0 if none fits, None if all do."""
        ends = [(nbytes - line.nbytes) // line.per_sample for line in self.lines if line.per_sample > 0]
        if not ends:
            return None if self.lines[-1].nbytes <= nbytes else 0
        batch = min(ends)
        return batch if batch > 0 and self.peak(batch) <= nbytes else 0


def envelope_of(first: MemoryLedger, second: MemoryLedger, batch: int) -> Envelope:
    """Return the peak of every batch.

    Args:
        first: the ledger of a run with ``batch`` samples.
        second: the ledger of a run with ``batch + 1`` samples, with the same events.
        batch: at least 2, since some operators treat a single sample in another way.
    """
    pairs = zip(first.live(), second.live(), strict=True)
    return Envelope((low - (high - low) * batch, high - low) for low, high in pairs)


def difference(first: MemoryLedger, second: MemoryLedger) -> str:
    """Return how the events of two runs differ, as the end of a sentence; empty if they are the same."""
    if len(first.calls) != len(second.calls):
        return f"one allocates and frees memory {len(first.calls)} times, the other {len(second.calls)} times"
    pairs = zip(first.blocks, second.blocks, strict=False)
    for a, b in pairs:
        if (a.born, a.died, a.call, a.dtype) != (b.born, b.died, b.call, b.dtype):
            return f"they differ in the block of shape {a.shape} in one and {b.shape} in the other"
    return "" if len(first.blocks) == len(second.blocks) else "one has more blocks than the other"


def _upper(lines: Iterable[tuple[int, int]]) -> list[Line]:
    """Return the lines that are the highest of all for some batch of at least one sample."""
    highest: dict[int, int] = {}
    for nbytes, per_sample in lines:
        highest[per_sample] = max(highest.get(per_sample, nbytes), nbytes)
    hull: list[tuple[Fraction, int, int]] = []
    for per_sample in sorted(highest):
        nbytes, start = highest[per_sample], Fraction(1)
        while hull:
            start = Fraction(hull[-1][1] - nbytes, per_sample - hull[-1][2])
            if start > hull[-1][0]:
                break
            hull.pop()
            start = Fraction(1)
        hull.append((max(start, Fraction(1)), nbytes, per_sample))
    starts = [ceil(start) for start, _, _ in hull]
    ends = [*starts[1:], None]
    rows = zip(starts, ends, hull, strict=True)
    return [Line(start, nbytes, per) for start, end, (_, nbytes, per) in rows if end is None or start < end]
