"""Sizes at which a network is captured, and the formulas from there, of networks that are one function of sizes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from costcore import CostError, Trace
from costcore.analyses.sizes.capture import (
    LAST_COMPUTED,
    MOST_CAPTURES,
    Limits,
    NamedInputs,
    Samples,
    folded,
    limits_of,
    multiple_that_works,
)
from costcore.analyses.sizes.fitting import AxisFit, Fit
from tests.core.analyses.fusion.runs import Calls
from tests.core.traces import Run


class Runs:
    """A network with one dimension that is a function of the symbols, which runs at some points.

    Attributes:
        points: the dimension by the points at which it was captured, as a row of one integer.
        failed: the points at which it was tried in vain.
    """

    def __init__(self, symbols, function, runs=lambda *point: True):
        self.symbols = tuple(symbols)
        self.function = function
        self.runs = runs
        self.points = {}
        self.failed = {}
        self.base = SimpleNamespace(trace=[SimpleNamespace(call=SimpleNamespace(name="conv-1", module="body"))])

    def at(self, point):
        if not self.runs(*point):
            self.failed[point] = CostError(f"does not run at {point}")
            raise self.failed[point]
        return self.points.setdefault(point, [(self.function(*point),)])

    def named(self, point):
        return dict(zip(self.symbols, point, strict=True))


def axis(function, limits, runs=lambda size: True):
    return AxisFit(Runs("s", function, runs), (limits.low,), 0, limits)


FREE = Limits(16, 4096, 1, False)


@pytest.mark.parametrize(
    ("limits", "fails_from", "expected"),
    [
        (FREE, 9999, [16, 17, 18, 19, 16 + 257]),  # two of the longest period of 128, and one
        (FREE, 270, [16, 17, 18, 19, 16 + 128]),
        (FREE, 140, [16, 17, 18, 19, 16 + 64]),
        (FREE, 70, [16, 17, 18, 19, 16 + 32]),
        (FREE._replace(high=40), 9999, [16, 17, 18, 19, 40]),
        (FREE._replace(high=18), 9999, [16, 17, 18]),
        (Limits(5, 700, 5, True), 9999, [5, 6, 7, 8, 700]),
    ],
)
def test_a_network_is_captured_at_four_sizes_and_far_away(limits, fails_from, expected):
    found = axis(lambda size: 3 * size + 1, limits, lambda size: size < fails_from)
    assert found.sizes == expected


@pytest.mark.parametrize(("period", "offset"), [(2, 1), (127, 3), (128, 127), (4096, 5)])
def test_quotients_are_found_up_to_the_longest_period(period, offset):
    """From 128 on where the dimension first rises shows the period; in a range that has more."""
    found = axis(lambda size: (size + offset) // period, Limits(16, 9000, 16, True))
    (form,) = found.forms.values()
    (term,) = form
    assert (term.period, (term.offset - offset) % period, term.power) == (period, 0, 1)


def test_the_message_has_the_first_five_values_and_the_last_each_once():
    with pytest.raises(CostError, match=r"which is 8 at 2, 27 at 3, 64 at 4, 125 at 5, 27000 at 30\. "):
        axis(lambda size: size**3, Limits(2, 30, 2, True))
    with pytest.raises(CostError, match=r"which is 0 at 2, 0 at 3, 0 at 4, 0 at 5, 0 at 6, 17 at 100\. "):
        axis(lambda size: size // 7 + size // 31, Limits(2, 100, 2, True))


@pytest.mark.parametrize("step", [2, 3, 4, 7, 8, 14, 16, 32, 64, 128, 224, 256])
def test_a_multiple_at_which_the_network_runs_is_recommended(step):
    runs = Runs("ab", lambda a, b: b, lambda a, b: (b - 5) % step == 0)
    assert multiple_that_works(runs, (9, 5), 1) == step


def test_unusual_multiples_are_not_recommended():
    for step in (9, 100, 512):
        assert multiple_that_works(Runs("a", lambda a: a, lambda a, step=step: a % step == 0), (0,), 0) is None
    only_once = Runs("a", lambda a: a, lambda a: a in (0, 3, 7, 14))
    assert multiple_that_works(only_once, (0,), 0) == 7  # at 7 and 14, whereas 6 fails


def fit(symbols, function):
    samples = Runs(symbols, function)
    limits = [Limits(2, 8, 2, True)] * len(symbols)
    return Fit(samples, (2,) * len(symbols), limits), samples


def test_products_of_four_symbols_are_found():
    found, samples = fit("abcd", lambda a, b, c, d: 3 * a * b * c * d + b * c + 7)
    (values,) = {tuple(samples.points[point][0][0] for point in found.points)}
    assert str(found.formula(values).of(samples.symbols).expand()) == "3*a*b*c*d + b*c + 7"


def test_of_five_symbols_only_products_of_two_are_found():
    found, samples = fit("abcde", lambda a, b, c, d, e: a * b + c * e + d)
    values = tuple(samples.points[point][0][0] for point in found.points)
    assert str(found.formula(values).of(samples.symbols).expand()) == "a*b + c*e + d"
    assert max(sum(size != 2 for size in point) for point in found.points) == 2


def test_a_capture_beyond_the_limit_is_refused():
    calls = Calls()
    calls("relu", calls.given(2, 3))
    trace = Trace(calls.trace().records, Run())
    samples = Samples(NamedInputs(("s", 3)), lambda inputs: trace)
    for size in range(MOST_CAPTURES):
        samples.at((size,)) if size else samples.restart((size,))
    with pytest.raises(
        CostError, match=f"no formula was found with {MOST_CAPTURES} captures; use fewer symbols, or integers"
    ):
        samples.at((MOST_CAPTURES,))
    assert samples.count == MOST_CAPTURES
    samples.at((59,))  # which is known


@pytest.mark.parametrize(("length", "calls_left"), [(256, 256), (257, 2 * 257)])
def test_bodies_of_up_to_256_calls_are_folded(length, calls_left):
    calls = Calls()
    inputs = [calls.given(size) for size in range(1, length + 1)]
    for _ in range(2):
        for each in inputs:
            calls("relu", each)
    found = folded(calls.trace(), keeps_ids=False)
    assert len(found) == calls_left
    assert sum(call.times for call in found.calls) == 2 * length


@pytest.mark.parametrize(
    ("inputs", "expected", "computed"),
    [
        (("n", 3, 8, 8), (2, 512), (2, 8)),  # a batch
        ((1, 3, "n", 8), (64, 2048), (64, 256)),  # an axis of an image
        ((1, 3, "16*n", 8), (4, 128), (4, 16)),  # its multiples
        ((1, 3, "64*n", 8), (2, 32), (2, 6)),  # no size is below 2, and the last is at least 4 more than the first
        ((1, "n"), (16, 4096), (16, 256)),  # a sequence
        ((1, "n", 8), (16, 4096), (16, 256)),
        ((("n", 4), (1, 3, "n", 8)), (2, 512), (2, 8)),  # a batch somewhere is one everywhere
    ],
)
def test_limits_of_symbols_without_a_range(inputs, expected, computed):
    """As docs/formulas_in_sizes.md states them."""
    for last, (low, high) in ((None, expected), (LAST_COMPUTED, computed)):
        (found,) = limits_of(NamedInputs(inputs), {}, *([] if last is None else [last]))
        assert found == Limits(low, high, 1, False)


@pytest.mark.parametrize(
    ("given", "expected"),
    [((1, 50), Limits(2, 50, 1, True)), ((7, 50), Limits(7, 50, 7, True)), ((1, 2), Limits(1, 2, 1, True))],
)
def test_stated_limits_are_kept_but_sizes_of_one_are_left_for_later(given, expected):
    assert limits_of(NamedInputs(("n", 3)), {"n": given}) == [expected]


def test_limits_change_with_what_is_special():
    assert FREE.nearer(8) == FREE._replace(high=512)
    assert FREE.nearer(1000) == FREE._replace(high=20)  # 4 more than the first
    assert FREE.from_at_least(3) == FREE
    assert FREE._replace(high=18).from_at_least(17) == Limits(17, 21, 1, False)
    stated = Limits(2, 5, 2, True)
    assert stated.from_at_least(3) == stated._replace(high=6)
