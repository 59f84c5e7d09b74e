"""The caching allocator on sequences whose segments and blocks are worked out by hand from its published rules."""

from __future__ import annotations

import json

import pytest

from tests.core.analyses.memory.graphs import memory_of
from tests.core.traces import Block, MemoryLedger

KIB, MIB = 2**10, 2**20


def ledger_of(*steps):
    """Return the ledger of requests: a size is allocated, a negative number frees the n-th request, from 1."""
    born, died, sizes = [], {}, []
    for event, step in enumerate(steps, 1):
        if step > 0:
            sizes.append(step)
            born.append(event)
        else:
            died[-step] = event
    blocks = [
        Block(i, nbytes, "temporary", born[i - 1], died.get(i), 0, (nbytes,), "uint8")
        for i, nbytes in enumerate(sizes, 1)
    ]
    return MemoryLedger(tuple(blocks), (0,) * len(steps))


def figures(*steps, **settings):
    made = memory_of(ledger_of(*steps)).allocator("cuda", **settings)
    return made.allocated, made.reserved


@pytest.mark.parametrize(
    ("nbytes", "divisions", "size"),
    [
        (1, 0, 512),
        (512, 0, 512),
        (513, 0, 1024),
        (4 * MIB, 0, 4 * MIB),
        (1200, 1, 1536),  # 3 * 512
        (1200, 4, 1536),  # at most 4 * 512: multiples of 512 as without
        (2049, 4, 2560),  # between 2,048 and 4,096 in steps of 512
        (5 * MIB, 4, 5 * MIB),  # between 4 and 8 MiB in steps of 1 MiB
        (5 * MIB + 1, 4, 6 * MIB),
        (7 * MIB + 1, 4, 8 * MIB),
        (8 * MIB, 4, 8 * MIB),
        (5 * MIB, 2, 6 * MIB),  # in steps of 2 MiB
    ],
)
def test_requests_are_rounded(nbytes, divisions, size):
    assert figures(nbytes, roundup_power2_divisions=divisions)[0] == size


@pytest.mark.parametrize(
    ("steps", "allocated", "reserved"),
    [
        ((1,), 512, 2 * MIB),
        ((MIB,), MIB, 2 * MIB),  # the largest small request
        ((MIB, MIB, 1), 2 * MIB + 512, 4 * MIB),  # two of 1 MiB fill a segment
        ((MIB + 1,), MIB + 512, 20 * MIB),  # large: rounded to 1 MiB + 512
        ((8 * MIB, 8 * MIB), 16 * MIB, 20 * MIB),
        # 20 - 8 - 8 = 4 MiB are left: too few for 6, which takes a second segment.
        ((8 * MIB, 8 * MIB, 6 * MIB), 22 * MIB, 40 * MIB),
        # A rest of exactly 1 MiB is not split off, so that the third block is 4 MiB; one of 1.5 MiB is.
        ((8 * MIB, 8 * MIB, 3 * MIB), 20 * MIB, 20 * MIB),
        ((8 * MIB, 8 * MIB, 5 * MIB // 2), 16 * MIB + 5 * MIB // 2, 20 * MIB),
        ((10 * MIB,), 10 * MIB, 10 * MIB),  # 10 MiB and more get a segment of their own, in multiples of 2 MiB
        ((11 * MIB,), 12 * MIB, 12 * MIB),  # whose rest of 1 MiB is not split off
        ((21 * MIB + 512,), 22 * MIB, 22 * MIB),
        # Segments are kept: 12 MiB are reused for 11, unsplit, and for 4, split into 4 and 8.
        ((12 * MIB, -1, 11 * MIB), 12 * MIB, 12 * MIB),
        ((12 * MIB, -1, 4 * MIB, 8 * MIB), 12 * MIB, 12 * MIB),
        # Small and large pools do not share: what 12 MiB leave is not for 512 bytes.
        ((12 * MIB, -1, 512), 12 * MIB, 14 * MIB),
        # Best fit: 6 MiB take the hole of 6, not that of 8 before it; the next 8 fit as well.
        ((8 * MIB, 2 * MIB, 6 * MIB, 2 * MIB, -1, -3, 6 * MIB, 8 * MIB), 18 * MIB, 20 * MIB),
        # Neighbours are joined: two holes of 6 MiB hold 12; with a block between them they do not.
        ((6 * MIB, 6 * MIB, 6 * MIB, -1, -2, 12 * MIB), 18 * MIB, 20 * MIB),
        ((6 * MIB, 6 * MIB, 6 * MIB, -1, -3, 12 * MIB), 18 * MIB, 32 * MIB),
    ],
)
def test_segments_by_hand(steps, allocated, reserved):
    assert figures(*steps) == (allocated, reserved)


def test_what_lives_before_the_run_comes_first():
    blocks = (
        Block(1, 4 * MIB, "parameter", 0, None, -1, (), "float32"),
        Block(2, MIB, "temporary", 1, 2, 0, (), "float32"),
        Block(3, 16 * MIB, "temporary", 2, None, 0, (), "float32"),
    )
    made = memory_of(MemoryLedger(blocks, (0, 0))).allocator()
    # In one event both blocks live: 4 + 1 + 16. The rest of the first segment, 16 MiB, fits the last block.
    assert (made.requested, made.allocated, made.reserved) == (21 * MIB, 21 * MIB, 22 * MIB)
    assert [(segment.nbytes, segment.is_small, segment.event) for segment in made.segments] == [
        (20 * MIB, False, 0),
        (2 * MIB, True, 1),
    ]


def test_blocks_above_the_split_size_stay_whole():
    # 64 MiB are kept; 30 MiB may not take them, as they would have to be split.
    assert figures(64 * MIB, -1, 30 * MIB, max_split_size=32 * MIB) == (64 * MIB, 94 * MIB)
    # A request that is itself above the limit takes a block that is larger by less than 20 MiB, and all of it.
    assert figures(64 * MIB, -1, 50 * MIB, max_split_size=32 * MIB) == (64 * MIB, 64 * MIB)
    assert figures(72 * MIB, -1, 50 * MIB, max_split_size=32 * MIB) == (72 * MIB, 122 * MIB)


def test_segments_that_expand():
    # Pages of 20 MiB for large blocks, 2 MiB for small ones; the rest is split off from 512 bytes on.
    assert figures(12 * MIB, expandable_segments=True) == (12 * MIB, 20 * MIB)
    assert figures(12 * MIB, 30 * MIB, expandable_segments=True) == (42 * MIB, 60 * MIB)
    assert figures(MIB, MIB, 512, expandable_segments=True) == (2 * MIB + 512, 4 * MIB)
    # 30 MiB take the free end, 8 of 20, and 22 more: two pages. Freed, all 60 are one piece again.
    assert figures(12 * MIB, 30 * MIB, -1, -2, 60 * MIB, expandable_segments=True) == (60 * MIB, 60 * MIB)
    # A hole is preferred to the end of the segment, which can grow: 4 MiB take the hole of 12, not the last 8.
    steps = (12 * MIB, 20 * MIB, -1, 4 * MIB, 8 * MIB, 8 * MIB)
    assert figures(*steps, expandable_segments=True) == (40 * MIB, 40 * MIB)


def test_larger_segments():
    assert figures(9 * MIB, large_segment_size=32 * MIB) == (9 * MIB, 32 * MIB)


@pytest.mark.parametrize(
    ("policy", "settings", "error", "message"),
    [
        ("cudo", {}, ValueError, r"unknown allocator 'cudo' \(expected cuda\)"),
        ("cuda", {"split": 3}, TypeError, "unknown setting of the allocator 'split'"),
        ("cuda", {"roundup_power2_divisions": 3}, ValueError, "a power of two"),
        ("cuda", {"max_split_size": 20 * MIB}, ValueError, "more bytes than large_segment_size"),
        ("cuda", {"large_segment_size": 3 * MIB}, ValueError, "multiple of 2 MiB"),
    ],
)
def test_mistakes(policy, settings, error, message):
    with pytest.raises(error, match=message):
        memory_of(MemoryLedger()).allocator(policy, **settings)


def test_figures_of_a_report():
    memory = memory_of(ledger_of(8 * MIB, 3 * KIB, -1))
    made = memory.allocator("cuda", roundup_power2_divisions=2)
    found = json.loads(json.dumps(made.to_dict()))
    assert found["figures"]["reserved"]["value"] == 22 * MIB
    assert {key: value for key, value in found.items() if key not in ("title", "figures", "tables", "remarks")} == {
        "policy": "cuda",
        "requested": 8 * MIB + 3 * KIB,
        "allocated": 8 * MIB + 3 * KIB,
        "reserved": 22 * MIB,
        "n_segments": 2,
        "settings": {
            "roundup_power2_divisions": 2,
            "max_split_size": None,
            "expandable_segments": False,
            "large_segment_size": 20 * MIB,
        },
    }
    assert made.describe() == (
        "allocator cuda: 8.003 MiB allocated for 8.003 MiB of tensors, 22 MiB reserved in 2 segments; workspace of "
        "kernels is not included"
    )
    empty = memory_of(MemoryLedger()).allocator()
    assert (empty.requested, empty.allocated, empty.reserved, empty.least_memory, empty.segments) == (0, 0, 0, 0, [])


@pytest.mark.parametrize(
    ("steps", "allocated", "reserved", "least"),
    [
        ((30, -1, 40), 40, 70, 40),  # the segment of 30 MiB is given back
        ((30, 40), 70, 70, 70),  # both are in use
        ((12, 14, -1, 20), 34, 46, 34),  # that of 12 is given back, that of 14 is in use
        ((64, -1, 16, 56), 72, 120, 120),  # 16 MiB are in use in the segment of 64
        ((64, -1, 16, -2, 56), 64, 64, 64),  # the rest of 64 joins with the free 16
        ((64, -1, 16, 56, -2, -3, 80), 80, 200, 120),  # 120 MiB for 16 and 56, then both segments are given back
        ((30, -1, 40, 8), 48, 70, 60),  # so that 8 MiB need a segment of 20; before, they are a part of that of 30
        ((1, -1, 30), 30, 32, 30),  # also one of 2 MiB of the pool of small blocks
    ],
)
def test_segments_are_given_back_when_the_device_is_full(steps, allocated, reserved, least):
    made = memory_of(ledger_of(*(step * MIB if step > 0 else step for step in steps))).allocator()
    assert (made.allocated, made.reserved, made.least_memory) == (allocated * MIB, reserved * MIB, least * MIB)
