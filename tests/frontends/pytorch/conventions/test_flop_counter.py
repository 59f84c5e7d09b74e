"""The conventions ``torch…`` equal what FlopCounterMode of the installed PyTorch counts, in training and without."""

from __future__ import annotations

import pytest
import torch
from torch import nn
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


def encoder(rate=0.0):
    return nn.TransformerEncoderLayer(16, 2, 32, rate, batch_first=True)


FROZEN = {
    "attention": (lambda: nn.MultiheadAttention(16, 2, batch_first=True), "", 3),
    "layer": (encoder, "", 1),
    "attention of a layer": (encoder, "self_attn", 1),
    "two layers": (lambda: nn.TransformerEncoder(encoder(), 2), "", 1),
    "attention of two layers": (lambda: nn.TransformerEncoder(encoder(), 2), "layers.1.self_attn", 1),
    "behind a trained layer": (lambda: nn.Sequential(nn.Linear(16, 16), encoder()), "1", 1),
    "before a trained layer": (lambda: nn.Sequential(encoder(), nn.Linear(16, 16)), "0", 1),
    "in train mode": (lambda: nn.Sequential(encoder(0.1).train(), nn.Linear(16, 16)), "0", 1),
}


@pytest.mark.parametrize("name", FROZEN)
def test_attention_of_which_nothing_needs_a_gradient_is_fused(name):
    build, path, n_inputs = FROZEN[name]
    network = build()
    if name != "in train mode":
        network.eval()
    network.get_submodule(path).requires_grad_(False)
    x = torch.randn(2, 5, 16)
    with FlopCounterMode(display=False) as mode:
        network(*[x] * n_inputs)
    report = estimate(network, (x,) * n_inputs if n_inputs > 1 else x)
    assert report.under("torch-cpu").total == mode.get_total_flops()
