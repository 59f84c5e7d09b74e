"""Which calls of two runs of a network are the same: those that cost something in order, views by what they are."""

from __future__ import annotations

import pytest

from costcore.analyses.sizes.capture import OtherOperatorsError, matched, sample_of
from tests.core.analyses.fusion.runs import Calls


def run(*steps):
    """A run of operators by name, and of views by their two sizes."""
    calls = Calls()
    x = calls.given(1, 12)
    for step in steps:
        x = calls("view", x, shape=step) if isinstance(step, tuple) else calls(step, x)
    return sample_of(calls.trace(x))


A, B, C = (2, 6), (3, 4), (4, 3)


@pytest.mark.parametrize(
    ("base", "other", "expected"),
    [
        ((A, "relu", B), (A, "relu", B), [0, 1, 2]),
        ((A, B, C, "relu"), (A, B, "relu"), [0, 1, None, 2]),
        ((A, B, C, "relu"), (B, C, "relu"), [None, 0, 1, 2]),
        ((A, B, C, "relu"), (A, C, "relu"), [0, 1, None, 2]),  # from A to C is neither from A to B nor from B to C
        ((A, B, "relu"), (A, B, C, "relu"), [0, 1, 3]),
        (("exp", A, B, C, "relu", A), ("exp", A, B, "relu", A, B), [0, 1, 2, None, 3, 4]),
        ((A, "relu"), (B, B, "relu"), [0, 2]),  # no view has the same sizes: the first are the same
        ((A, "relu", A), ("relu",), [None, 0, None]),
    ],
)
def test_views_that_a_run_lacks(base, other, expected):
    """Numbers are the positions in the other run."""
    assert matched(run(*base), run(*other), {"n": 3}, {"n": 2}) == expected


@pytest.mark.parametrize(
    ("base", "other", "words"),
    [
        (("relu", "exp"), ("relu", "tanh"), "at n=2, m=5 call 2 of 2 is exp, at n=3, m=5 call 2 of 2 is tanh. "),
        ((A, "relu", "exp"), ("relu",), "at n=2, m=5 call 3 of 3 is exp, at n=3, m=5 it ends there. "),
        (("relu",), ("relu", B, "exp"), "at n=2, m=5 it ends there, at n=3, m=5 call 3 of 3 is exp. "),
    ],
)
def test_runs_of_other_operators(base, other, words):
    with pytest.raises(OtherOperatorsError) as raised:
        matched(run(*base), run(*other), {"n": 3, "m": 5}, {"n": 2, "m": 5})
    message = str(raised.value)
    assert message.startswith(f"the network runs other operators at other sizes: {words}")
    assert 'ranges={"n": (smallest, largest)} in estimate' in message  # of the size that differs
    assert message.endswith("If it pads to a multiple, write the size as one, such as '16*n'.")
