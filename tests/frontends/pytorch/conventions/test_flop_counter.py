"""The conventions ``torch…`` equal what FlopCounterMode of the installed PyTorch counts, in training and without."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from costcore import estimate
from tests.frontends.pytorch.conventions.programs import PROGRAMS

pytestmark = pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13), reason="the rules are those of PyTorch 2.13 and later"
)


def counted(build, inputs, device, trains):
    """Return what the tool counts on a device, with a backward pass of every output in training."""
    network = build().train(trains).to(device)
    with torch.set_grad_enabled(trains), FlopCounterMode(display=False) as mode:
        outputs = network(*[x.to(device) for x in inputs])
        if trains:
            outputs.abs().sum().backward()
    return mode.get_total_flops()


MODES = {"torch": ("meta", True), "torch-cpu": ("cpu", True), "torch-cpu-no-grad": ("cpu", False)}


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_convention_counts_what_the_tool_does(name):
    build, inputs = PROGRAMS[name]
    reports = {trains: estimate(build().train(trains), inputs, backward=trains) for trains in (True, False)}
    for convention, (device, trains) in MODES.items():
        expected = counted(build, inputs, device, trains)
        assert reports[trains].under(convention).total == expected, convention


def test_there_are_a_hundred_programs():
    assert len(PROGRAMS) >= 100
