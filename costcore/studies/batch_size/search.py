"""The largest batch whose peak fits, found with few captures."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from costcore.analyses.memory.envelope import Envelope
from costcore.errors import CostError

MAX_GUESSES = 6
"""So many guesses follow the lines of the envelope; after them the range of batches is halved."""

MAX_BATCH = 2**40
"""A batch that no device has memory for."""


def largest_batch(peak_of: Callable[[int], int], envelope: Envelope, room: int) -> int:
    """Return the largest batch whose peak is at most ``room``; 0 if that of one sample is more.

    The peak of the batch and that of the next one are asked for, so that both are certain, also if the envelope is
    only approximate. In between it is assumed that a larger batch does not need less.

    Args:
        peak_of: returns the peak of a batch, in bytes.
        envelope: the peak of every batch, exact or approximate.
        room: the largest peak that fits, in bytes.

    Raises:
        CostError: if the peak does not grow with the batch.
    """
    low, high = 0, MAX_BATCH
    ratio = Fraction(1)
    attempt = 0
    while high - low > 1:
        batch = min(max(_guess(envelope, room, ratio, attempt, low, high), low + 1), high - 1)
        peak = peak_of(batch)
        low, high = (batch, high) if peak <= room else (low, batch)
        ratio = Fraction(max(peak, 1), max(envelope.peak(batch), 1))
        attempt += 1
    if high == MAX_BATCH:
        raise CostError(f"a batch of {low} fits: the peak does not grow with the batch")
    return low


def _guess(envelope: Envelope, room: int, ratio: Fraction, attempt: int, low: int, high: int) -> int:
    """Return the batch to try next.

    Args:
        envelope: the peak of every batch, exact or approximate.
        room: the largest peak that fits, in bytes.
        ratio: the last peak divided by that of the envelope.
        attempt: the number of batches tried so far.
        low: the largest batch that fits so far.
        high: the smallest one that does not.
    """
    guess = envelope.largest(int(room / ratio)) if room > 0 else 0
    if guess is None:
        raise CostError("the peak does not grow with the batch: do the inputs have a batch dimension?")
    if attempt < MAX_GUESSES:
        return guess
    return (low + high) // 2 if high < MAX_BATCH else 2 * low
