"""How many experts are read, pairs of windows, the least time of a pass, and its table, by hand."""

from __future__ import annotations

from fractions import Fraction
from io import StringIO
from math import isclose

import pytest

from costcore.studies.serving.phase import PhaseTime, least_time, pairs_before
from costcore.studies.serving.report import COLUMNS, Row, serving_table
from costcore.studies.serving.tallies import Experts, expected_experts, fewest_experts, not_expected, not_needed
from tests.core.analyses.timing.toy_device import find_device


@pytest.mark.parametrize(
    ("experts", "chosen", "tokens", "expected"),
    [
        (8, 2, 1, 2),
        (8, 2, 2, Fraction(7, 2)),  # 8 (1 - (3/4)^2) = 8 * 7/16
        (4, 4, 3, 4),
        (2, 1, 64, 2 * (1 - Fraction(1, 2**64))),
        (2, 1, (1 << 20) + 1, 2),
        (2**20, 1, 1 << 20, 2**20 * (1 - Fraction(float(1 - Fraction(1, 2**20)) ** 2**20))),
    ],
)
def test_each_token_chooses_its_experts(experts, chosen, tokens, expected):
    assert expected_experts(experts, chosen, tokens) == expected


def test_a_third_of_many_tokens_has_few_digits():
    """(2/3)^64 is a fraction of 64 factors of 3; (2/3)^65 is the double next to it, whose denominator is a power of 2.

    They differ by less than a part in 10^15.
    """
    exact, rounded = (expected_experts(3, 1, tokens) for tokens in (64, 65))
    assert exact == 3 * (1 - Fraction(2, 3) ** 64)
    assert rounded.denominator & (rounded.denominator - 1) == 0
    assert isclose(3 - rounded, 3 * (2 / 3) ** 65, rel_tol=1e-15)


def test_bits_of_experts_that_are_not_read():
    """3 calls, 8 experts of 10 bits each. 6 rows of 3 tokens: 2 experts per token, at most 6 experts.

    Expected are 8 (1 - (3/4)^3) = 8 * 37/64 = 37/8: 6 - 37/8 = 11/8 of 8 experts are not. If all tokens choose the
    same 2, then 4 of 8 are not.
    """
    call = Experts("moe", 80, 8, 6, 3)
    assert fewest_experts(call, 3) == 2
    assert not_expected(call, 3) == Fraction(3 * 80 * 11, 8 * 8)
    assert not_needed(call, 3) == 3 * 80 * 4 // 8
    many = call._replace(rows=20)  # of 10 tokens: at most all 8, and 5 rows of 2 tokens are 3 experts each, rounded up
    assert fewest_experts(many, 10) == 2 and not_needed(many, 10) == 3 * 80 * 6 // 8
    assert fewest_experts(call._replace(rows=5), 2) == 3
    assert fewest_experts(call._replace(rows=50), 2) == 8


def test_the_larger_of_arithmetic_and_bytes_binds():
    l4 = find_device("l4")
    rate, memory = l4.matrix_rate("bfloat16"), 1e9 * l4.memory.dram_gbs
    time = least_time("l4", "bfloat16", macs=10**9, nbytes=10**9, tokens=4, least=5 * 10**8)
    assert time.compute_seconds == 2e9 / rate
    assert (time.memory_seconds, time.least_memory_seconds) == (1e9 / memory, 5e8 / memory)
    assert (time.binds, time.bound_seconds, time.least_seconds) == ("memory", 1e9 / memory, 5e8 / memory)
    assert time.tokens_per_second == 4 / time.bound_seconds
    assert time.cached_share == max(size for _, size, _ in l4.levels()) / 10**9


@pytest.mark.parametrize(
    ("times", "binds", "bound", "least", "words"),
    [
        ((3.0, 2.0, 1.0, 0.1), "compute", 3, 3, []),
        ((2.0, 2.0, 2.0, 0.1), "memory", 2, 2, []),
        ((0.5, 2.0, 1.0, 0.1), "memory", 2, 1, ["with experts"]),
        ((None, 0.25, 0.25, 0.1), "memory", 0.25, 0.25, ["the peak of it"]),
        ((3.0, 2.0, 2.0, 0.25), "compute", 3, 3, ["caches of it hold 25% of"]),
        ((3.0, 2.0, 2.0, 2.5), "compute", 3, 3, ["caches of it hold 100% of"]),
    ],
)
def test_what_a_bound_says(times, binds, bound, least, words):
    compute, memory, fewest, share = times
    time = PhaseTime("it", compute, memory, 6, share, fewest)
    assert (time.binds, time.bound_seconds, time.least_seconds) == (binds, bound, least)
    assert time.tokens_per_second == 6 / bound
    assert len(time.remarks) == 1 + len(words)
    assert all(remark.startswith(word) for remark, word in zip(time.remarks[1:], words, strict=True))


@pytest.mark.parametrize("window", [None, 1, 2, 3, 5, 8, 20])
@pytest.mark.parametrize(("new", "past"), [(1, 0), (4, 0), (3, 2), (2, 7), (5, 5)])
def test_pairs_of_a_window(new, past, window):
    """Token t of all, counted from 0, sees itself and those before it, no more than the window has."""
    assert pairs_before(new, past, window) == sum(min(t + 1, window or 99) for t in range(past, past + new))


def test_a_table_for_people_has_giga_and_milliseconds():
    row = Row("l4", "decode", 4, 1.25e9, 26_000_000_000, 1_500_000_000, 3.456, "memory", 0.0917, 0.09, 43.6, 7)
    tables = [serving_table([row]), serving_table([row._replace(price_per_million=0.12345, sequences=None)])]
    stream = StringIO()
    tables[1].write(stream, "csv", None, None)
    assert [column.key for column in tables[0].columns] == [
        column.key for column in COLUMNS if column.key != "price_per_million"
    ]
    assert stream.getvalue().splitlines()[1] == "l4,decode,4,1.25,26.00,1.50,3.46,memory,91.70,44,0.1235,"
