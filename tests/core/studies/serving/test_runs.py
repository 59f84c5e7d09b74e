"""In which ranges of lengths formulas are found, and when passes are captured instead."""

from __future__ import annotations

from fractions import Fraction

import pytest

from costcore.ir import BITS
from costcore.studies.serving.passes import LONGEST, LONGEST_LOOP, MOST_CAPTURED, Point, Runs
from costcore.studies.serving.tallies import StoredWeight, Widths
from tests.core.studies.serving.toy_decoder import ToyDecoder

pytestmark = pytest.mark.frontend("onnx")  # brings sympy
WIDTHS = Widths(16, Fraction(16), lambda _, tensor: StoredWeight(Fraction(16), BITS[tensor.dtype], 16))


class Counted(ToyDecoder):
    """A model that counts its passes."""

    passes = 0

    def record(self, *arguments):
        self.passes += 1
        return super().record(*arguments)


def runs(windows=(), **options):
    model = Counted(window=windows[0] if windows else None, **options)
    return model, Runs(model, WIDTHS, windows)


@pytest.mark.parametrize(
    ("phase", "length", "expected"),
    [
        ("prefill", 2, (1, 2)),
        ("prefill", 19, (3, 19)),
        ("prefill", 20, (20, 69)),  # of so many tokens the window leaves all, and of one more not
        ("prefill", 70, (70, 100)),
        ("prefill", 100, (70, 100)),
        ("prefill", 500, (70, 100)),  # a longer one is near the last range
        ("decode", 18, (2, 18)),  # with the new token these are 19
        ("decode", 19, (19, 68)),
        ("decode", 69, (69, 99)),
        ("decode", 1, (1, 1)),
        ("decode", 2, (2, 18)),
        ("extend", 99, (69, 99)),
        ("extend", 100, (69, 99)),
    ],
)
def test_windows_and_the_longest_sequence_end_ranges(phase, length, expected):
    """Windows of 3, 20 and 70 tokens, 100 positions; one of 1 and one of 300 end none."""
    _, found = runs((1, 3, 20, 70, 300), most_tokens=100)
    assert found._range(phase, length) == expected


@pytest.mark.parametrize(("state", "most", "longest"), [(0, None, LONGEST), (3, None, LONGEST_LOOP), (3, 99, 99)])
def test_lengths_at_which_formulas_are_checked(state, most, longest):
    assert (LONGEST, LONGEST_LOOP) == (1 << 15, 1 << 8)
    _, found = runs(state=state, most_tokens=most)
    assert found._range("prefill", 5) == (1, longest)
    assert found._range("decode", 5) == (1, longest - 1)


@pytest.mark.parametrize(("most", "reason"), [(9, ""), (8, "lengths from 1 to 8 are too few")])
def test_few_lengths_have_no_formulas(most, reason):
    """Of 9 lengths there are formulas; of 8 not."""
    model, found = runs(most_tokens=most)
    piece = found.piece("prefill", 3)
    assert (piece.reason, piece.tallies is None, model.passes == 0) == (reason, bool(reason), bool(reason))


def test_after_eight_passes_formulas_are_found():
    assert MOST_CAPTURED == 8
    model, found = runs(windows=(50,))
    _other, captured = runs(windows=(50,))
    for length in range(1, 9):
        found.at(Point(1, 1, length))
        found.at(Point(1, 1, length))
        assert model.passes == length  # each of them once
    found.at(Point(1, 1, 60))
    assert model.passes == 9  # beyond the window, where none was captured
    found.at(Point(1, 10, 0), last_only=True)
    found.at(Point(1, 2, 9))
    assert model.passes == 11  # of other phases
    found.at(Point(2, 1, 9))
    fitted = model.passes
    assert fitted > 12
    for batch, length in ((3, 11), (5, 48), (7, 9), (1, 1), (1, 48)):
        point = Point(batch, 1, length)
        assert found.at(point) == captured.at(point)
    assert model.passes == fitted
    found.at(Point(3, 1, 49))  # the window binds
    assert model.passes == fitted + 1


def test_passes_of_another_phase_do_not_count():
    model, found = runs()
    for tokens in range(1, 9):
        found.at(Point(1, tokens, 0))
    found.at(Point(1, 1, 5))
    found.at(Point(1, 9, 0), last_only=True)
    assert model.passes == 10


def test_passes_without_formulas_are_captured():
    model, found = runs(most_tokens=8)
    for length in range(1, 8):
        for batch in (1, 2):
            found.at(Point(batch, 1, length))
    assert model.passes == 14


def test_only_scores_of_the_last_token_have_formulas_of_their_own():
    _, found = runs()
    all_scores, last = (found.piece("prefill", 20, last_only) for last_only in (False, True))
    assert all_scores is found.piece("prefill", 90)
    assert all_scores is not last
    assert str(sum(tally.macs for tally in last.tallies.by_op.values()).expand()) == (
        "12*batch*tokens**2 + 192*batch*tokens + 78*batch"
    )
    assert last.ranges["tokens"] == (1, 4000)
