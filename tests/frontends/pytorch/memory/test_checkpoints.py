"""Steps of gradient accumulation, and modules of a class under activation checkpointing."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import Tensor, nn

from costcore import Report, estimate

from .networks import MEASURED, NETWORKS, OPTIMIZERS

ACCUMULATED = [row for row in MEASURED if row.mode == "accum2_adamw"]


@pytest.mark.parametrize("row", ACCUMULATED, ids=lambda row: row.network)
def test_the_last_micro_batch_has_the_measured_peak_of_two(row):
    """The measured run of two micro-batches starts without gradients; before its last one they are base.

    It drops outputs and loss before the step of the optimizer, which an estimate holds: 32 x 10 numbers and one of the
    mlp, whose peak is in that step.
    """
    make, shape, dtype = NETWORKS[row.network]
    net = make()
    gradients = sum(4 * parameter.numel() for parameter in net.parameters())
    memory = estimate(net, (shape, dtype), memory=True, optimizer=OPTIMIZERS[row.mode], step="accumulated").memory
    held = 4 * (32 * 10 + 1) if row.network == "mlp" else 0
    assert memory.base == row.base + gradients
    assert 0 <= row.base + row.peak + held - memory.peak <= 8


class Block(nn.Module):
    """Two layers that keep two results of 64 numbers per sample for their backward pass, and return a tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, x: Tensor, *, scale: float) -> tuple[Tensor, Tensor]:
        y = self.b(torch.sigmoid(self.a(x) * scale).sigmoid())
        return y, y


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x, _ = block(x, scale=2.0)
        return x


def recomputed(report: Report) -> Counter[str]:
    return Counter(call.layer.op for call in report.calls if call.phase == "recompute")


def test_a_checkpointed_block_keeps_its_input_only():
    """A tensor of 256 samples has 65,536 bytes. Each of four blocks keeps the results of both sigmoids, its output is
    the input of the next one, and what the last returns is an output. A checkpoint keeps 5,056 bytes, the state of the
    random generator. Its recomputation stops at the last result that is needed, before linear ``b``."""
    plain = estimate(Net(), (256, 64), memory=True, backward=True)
    checkpointed = estimate(Net(), (256, 64), memory=True, backward=True, checkpoint="Block")
    assert plain.memory.saved == 65_536 * (4 * 2 + 3)
    assert checkpointed.memory.saved == 65_536 * 3 + 4 * 5_056
    assert {call.phase for call in checkpointed.calls} == {"forward", "backward", "recompute"}
    assert recomputed(checkpointed)["linear"] == 4
    assert checkpointed.memory.peak < plain.memory.peak


class Layer(nn.Module):
    """A layer with a switch of its own, as those of Transformers."""

    gradient_checkpointing = False

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        if self.gradient_checkpointing:
            return self._gradient_checkpointing_func(self.linear, x).sigmoid()
        return self.linear(x).sigmoid()


@pytest.mark.parametrize("training", [True, False])
def test_the_switch_of_a_layer_is_used_in_training(training):
    net = nn.Sequential(Layer(), Layer()).train(training)
    report = estimate(net, (2, 8), memory=True, backward=True, checkpoint="Layer")
    assert ("sigmoid" in recomputed(report)) is not training
    assert not any(vars(layer).get("gradient_checkpointing") for layer in net)


@pytest.mark.parametrize(
    ("option", "error", "message"),
    [
        ("Blok", ValueError, "unknown class of modules in checkpoint 'Blok' .* Did you mean 'Block'"),
        (Block, TypeError, "checkpoint must be the name of a class of modules"),
    ],
)
def test_invalid_options_are_refused(option, error, message):
    with pytest.raises(error, match=message):
        estimate(Net(), (2, 64), backward=True, checkpoint=option)
