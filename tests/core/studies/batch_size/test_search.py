"""The search for the largest batch, and the terms of the limit."""

from __future__ import annotations

from fractions import Fraction

import pytest

from costcore import CostError
from costcore.analyses.memory.allocator import Envelope
from costcore.studies.batch_inputs import largest_batch, make_limit


class Peaks:
    """The peak of a batch by a function, and the batches that were asked for."""

    def __init__(self, function):
        self.function = function
        self.asked = []

    def __call__(self, batch):
        self.asked.append(batch)
        return self.function(batch)


def test_exact_lines_need_two_captures():
    peaks = Peaks(lambda batch: max(200, 100 + 7 * batch))
    assert largest_batch(peaks, Envelope([(200, 0), (100, 7)]), 1000) == 128  # 100 + 7 * 128 = 996
    assert peaks.asked == [128, 129]


@pytest.mark.parametrize("room", [0, 99, 100, 106, 107, 108, 150, 5_000, 10**6, 10**9])
@pytest.mark.parametrize(
    "function",
    [
        lambda b: 100 + 7 * b,
        lambda b: 100 + 7 * b + b * b,  # a product of all pairs of samples
        lambda b: -(-(100 + 9 * b) // 512) * 512,  # rounded by an allocator
        lambda b: 100 + 7 * b + (1000 if b > 17 else 0),  # another algorithm for larger batches
        lambda b: 100 + b // 3,
    ],
    ids=["line", "square", "rounded", "jump", "slow"],
)
def test_the_answer_fits_and_the_next_batch_does_not(function, room):
    """The envelope is the line 100 + 7 B, whatever the peak is."""
    peaks = Peaks(function)
    batch = largest_batch(peaks, Envelope([(100, 7)]), room)
    assert batch == 0 or function(batch) <= room
    assert function(batch + 1) > room
    assert len(peaks.asked) == len(set(peaks.asked)) <= 50


def test_a_peak_that_does_not_grow():
    with pytest.raises(CostError, match="do the inputs have a batch dimension"):
        largest_batch(lambda batch: 100, Envelope([(100, 0)]), 100)
    with pytest.raises(CostError, match="the peak does not grow with the batch"):
        largest_batch(lambda batch: 100, Envelope([(100, 1)]), 1000)
    assert largest_batch(lambda batch: 100, Envelope([(100, 0)]), 99) == 0


def test_the_terms_of_a_limit():
    limit = make_limit("1 GiB", "24 MiB", "1000 MB", 0.25)
    # 1,073,741,824 - 25,165,824 - 1,000,000,000 = 48,576,000, of which the peak may be 1 / 1.25.
    assert limit.room == 38_860_800
    assert limit.needed(38_860_800) == 2**30
    assert limit.needed(38_860_801) > 2**30
    assert limit.describe() == (
        "1 GiB - context 24 MiB - workspace 953.67 MiB = 46.33 MiB for tensors, fragmentation 25 %"
    )
    assert make_limit("1 GiB").describe().startswith("1 GiB - context 500 MiB (assumed) - workspace 0 B")


def test_a_decimal_share_is_exact():
    assert make_limit(1100, 0, 0, 0.1).room == 1000  # 1100 / 1.1 in binary numbers is 999.99…
    assert make_limit(1100, 0, 0, 0.1).fragmentation == Fraction(1, 10)


def test_what_exceeds_the_memory_leaves_no_room():
    assert make_limit("100 MiB").room == -400 * 2**20


@pytest.mark.parametrize(
    ("terms", "error", "message"),
    [
        (("24 G",), ValueError, "memory must be an integer or a string such as \"100 MiB\""),
        ((None,), TypeError, "memory must be an integer"),
        ((-1,), ValueError, "memory cannot be negative"),
        (("24 GiB", "a lot"), ValueError, "context must be an integer"),
        (("24 GiB", 0, 0, -0.1), ValueError, "fragmentation must be a share of the peak"),
        (("24 GiB", 0, 0, "5%"), ValueError, "fragmentation must be a share of the peak"),
        (("24 GiB", 0, 0, 0, "gpu"), ValueError, "unknown allocator 'gpu' \\(expected tensors, cuda\\)"),
    ],
)  # fmt: skip
def test_invalid_terms(terms, error, message):
    with pytest.raises(error, match=message):
        make_limit(*terms)
