"""The upper envelope of lines, by hand."""

from __future__ import annotations

import pytest

from costcore.analyses.memory.allocator import Envelope, difference, envelope_of
from tests.core.traces import Block, MemoryLedger

LINES = ((100, 5), (90, 10), (60, 15), (0, 20), (100, 0))
"""100 + 5 B is the highest at B = 1, with 105. 90 + 10 B and 100 + 5 B meet at 2, 60 + 15 B and 90 + 10 B at 6, and
0 + 20 B and 60 + 15 B at 12. 100 + 0 B is never the highest."""


def test_every_line_holds_from_where_it_meets_the_one_before():
    envelope = Envelope(LINES)
    assert envelope.lines == [(1, 100, 5), (2, 90, 10), (6, 60, 15), (12, 0, 20)]
    # 100 + 5, 90 + 50, 90 + 60 = 60 + 90, 60 + 105, 60 + 165, 60 + 180 = 240
    assert [envelope.peak(batch) for batch in (1, 5, 6, 7, 11, 12)] == [105, 140, 150, 165, 225, 240]


def test_a_line_that_is_the_highest_between_two_batches_only_is_not_listed():
    # 7 + 4 B meets 12 + 0 B at 1.25, and 0 + 8 B at 1.75: the bytes are 12, 11 and 8 at 1, and 12, 15 and 16 at 2.
    assert Envelope([(12, 0), (7, 4), (0, 8)]).lines == [(1, 12, 0), (2, 0, 8)]


def test_the_lines_from_a_batch_on():
    envelope = Envelope(LINES)
    assert envelope.lines_from(2) == [(2, 90, 10), (6, 60, 15), (12, 0, 20)]
    assert envelope.lines_from(7) == [(7, 60, 15), (12, 0, 20)]
    assert envelope.lines_from(1) == envelope.lines


@pytest.mark.parametrize("batch", range(1, 40))
def test_the_peak_is_the_highest_of_all_lines(batch):
    assert Envelope(LINES).peak(batch) == max(nbytes + per_sample * batch for nbytes, per_sample in LINES)


@pytest.mark.parametrize(
    ("nbytes", "batch"),
    [(104, 0), (105, 1), (109, 1), (110, 2), (149, 5), (150, 6), (239, 11), (240, 12), (259, 12), (2000, 100)],
)
def test_the_largest_batch(nbytes, batch):
    assert Envelope(LINES).largest(nbytes) == batch


def test_what_does_not_depend_on_the_batch_can_be_too_much():
    # 200 bytes whatever the batch, although 100 + 20 B has room for four samples.
    assert Envelope([(200, 0), (100, 20)]).largest(180) == 0
    assert Envelope([(200, 0), (100, 20)]).largest(200) == 5


def test_a_peak_that_does_not_grow_has_no_largest_batch():
    assert Envelope([(200, 0)]).largest(200) is None
    assert Envelope([(200, 0)]).largest(199) == 0


def ledger(batch, more=0, calls=(0, 1, 1)):
    """A weight of 100 bytes and an input of 4 B; call 0 makes 16 B, call 1 makes 8 B + 50 and frees the result of 0."""
    blocks = (
        Block(1, 100, "parameter", 0, None, -1, (25,), "float32"),
        Block(2, 4 * batch, "input", 0, None, -1, (batch,), "float32"),
        Block(3, 16 * batch, "temporary", 1, 3, 0, (batch, 4), "float32"),
        Block(4, 8 * batch + 50 + more, "output", 2, None, 1, (batch, 2), "float32"),
    )
    return MemoryLedger(blocks, calls)


def test_two_ledgers_give_the_line_of_every_event():
    # Live bytes: 100 + 4 B, 100 + 20 B, 150 + 28 B, 150 + 12 B. The third is the highest for every batch.
    assert difference(ledger(2), ledger(3)) == ""
    envelope = envelope_of(ledger(2), ledger(3), 2)
    assert envelope.lines == [(1, 150, 28)]
    assert envelope.peak(1000) == max(ledger(1000).live()) == 28_150


def test_events_that_differ_are_found():
    assert "3 times, the other 2 times" in difference(ledger(2), ledger(3, calls=(0, 1)))
    assert difference(ledger(2), ledger(3, more=7)) == ""  # only sizes differ
    first = ledger(2)
    changed = first._replace(blocks=(*first.blocks[:2], first.blocks[2]._replace(died=None), first.blocks[3]))
    assert difference(first, changed) == "they differ in the block of shape (2, 4) in one and (2, 4) in the other"
    assert difference(first, first._replace(blocks=first.blocks[:3])) == "one has more blocks than the other"
