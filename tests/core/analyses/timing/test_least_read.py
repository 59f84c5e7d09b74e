"""Bytes that formulas count several times and memory delivers once, in elements of four bytes."""

from __future__ import annotations

import pytest

from costcore import Report
from tests.core.analyses.fusion.runs import LEVELS, Calls
from tests.core.analyses.timing.toy_device import Memory, device

SLOW = device(peak={}, memory=Memory(4.0, ()))
"""A device without caches or peaks, whose memory moves an element of four bytes per nanosecond."""


def elements(calls, fusion="none"):
    """Elements that the calls move at least."""
    return Report(calls.trace()).time(SLOW, fusion=fusion, tf32=()).bound_seconds * 1e9


@pytest.mark.parametrize("fusion", LEVELS)
@pytest.mark.parametrize("times", [2, 3])
def test_a_value_that_is_several_operands_comes_once(fusion, times):
    calls = Calls()
    x = calls.given(1000)
    calls("concat", *[x] * times, shape=(1000 * times,), axis=0)
    assert elements(calls, fusion) == pytest.approx(1000 + 1000 * times)


def test_views_of_a_value_are_parts_of_it():
    calls = Calls()
    x = calls.given(100, 10)
    left, right = (calls("view", x, shape=(100, 5)) for _ in range(2))
    calls("add", left, right)
    assert elements(calls) == pytest.approx(500 + 500 + 500)
    calls("matmul", x, calls("view", x, shape=(10, 100)), shape=(100, 100))
    assert elements(calls) == pytest.approx(1500 + 1000 + 10000)


@pytest.mark.parametrize("fusion", LEVELS)
def test_a_lookup_needs_no_more_than_its_table(fusion):
    """2 rows of 8, looked up 600 times: 16 elements, 600 indices, and 4,800 written."""
    calls = Calls()
    index, table = calls.given(600), calls.given(2, 8, role="param")
    calls("embedding", index, table, shape=(600, 8))
    assert elements(calls, fusion) == pytest.approx(16 + 600 + 4800)
