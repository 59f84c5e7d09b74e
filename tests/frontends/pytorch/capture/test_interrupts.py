"""Ctrl-C at every line of entering and leaving a hook, and what an estimate enters, leaves nothing behind."""

from __future__ import annotations

import gc
import signal
import sys
import threading

import pytest
import torch
from torch import nn

from costcore import ComputationalCostHook, estimate
from costcore.trace.interrupts import HeldInterrupts, InterruptSafe
from tests.frontends.pytorch.runs import state_of_torch

ENDS = tuple(
    function.__code__ for each in (ComputationalCostHook, InterruptSafe) for function in (each.__enter__, each.__exit__)
)
NET, X = nn.Linear(4, 3), torch.ones(2, 4)


@pytest.fixture(autouse=True)
def _python_handles_interrupts():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class InterruptAt:
    """A trace function that presses Ctrl-C at one line of entering or leaving a context, or of what that calls.

    The first line of ``__exit__`` is left out: nothing that Python runs can come before it.
    """

    def __init__(self, number, deepest):
        self.number, self.deepest = number, deepest
        self.depth = self.seen = 0

    def __call__(self, frame, event, arg):
        if not self.depth and frame.f_code not in ENDS:
            return None
        self.depth += 1
        self.seen -= frame.f_code in ENDS[1::2]
        return self.inside

    def inside(self, frame, event, arg):
        if event == "return":
            self.depth -= 1
        elif event == "line" and self.depth <= self.deepest:
            self.seen += 1
            if self.seen == self.number:
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)
        return self.inside


def hooked():
    with ComputationalCostHook(frontends=["pytorch"]):
        NET(X)


def run(action, number, deepest):
    """Run an action; return whether it has a line of this number, at which Ctrl-C ended it."""
    pressed, tracer = InterruptAt(number, deepest), sys.gettrace()
    sys.settrace(pressed)
    try:
        action()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(tracer)
    assert pressed.seen < number
    return False


@pytest.mark.parametrize(
    ("action", "depths"),
    [
        (hooked, ((7, 15), (1000, 100))),  # first without the lines of a session, which has a lock
        (lambda: estimate(NET, (2, 4)), ((5, 40),)),
    ],
    ids=["hook", "estimate"],
)
def test_ctrl_c_at_any_line_of_entering_and_leaving(action, depths):
    run(action, 10**9, 1)
    before = state_of_torch(), gc.isenabled(), NET.training, torch.get_rng_state().tolist()
    for deepest, least in depths:
        number = 1
        while run(action, number, deepest):
            assert (state_of_torch(), gc.isenabled(), NET.training, torch.get_rng_state().tolist()) == before, number
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
            number += 1
        assert number > least


def test_the_second_interrupt_is_not_held():
    held = HeldInterrupts()
    held.hold()
    signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    held.release()  # nothing is left to raise


def test_a_handler_of_the_program_is_called_once():
    seen = []
    signal.signal(signal.SIGINT, lambda *_: seen.append("program"))
    held = HeldInterrupts()
    held.hold()
    held.hold()
    signal.raise_signal(signal.SIGINT)
    assert seen == []
    held.release()
    held.release()
    assert seen == ["program"]


def test_other_threads_and_ignored_interrupts_are_left_alone():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with ComputationalCostHook(frontends=["pytorch"]):
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    found = []

    def hold():
        held = HeldInterrupts()
        held.hold()
        found.append(signal.getsignal(signal.SIGINT))
        held.release()

    thread = threading.Thread(target=hold)
    thread.start()
    thread.join()
    assert found == [signal.SIG_IGN]
