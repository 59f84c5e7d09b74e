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


def test_blocks_by_their_paths_keep_the_results_of_operators():
    """With the results of the first linear layers, 65,536 bytes each, no product runs again; those of the second are
    the inputs of the next block, and an output."""
    plain, paths, operators, first = (
        estimate(Net(), (256, 64), memory=True, backward=True, checkpoint=modules)
        for modules in ("Block", "blocks.*", "blocks.*(save=addmm)", "blocks.*(save=addmm/2)")
    )
    assert first.memory.saved == operators.memory.saved
    assert recomputed(first) == recomputed(operators)  # it stops before the second layer
    assert paths.memory.saved == plain.memory.saved
    assert recomputed(paths) == recomputed(plain)
    assert operators.memory.saved == plain.memory.saved + 65_536 * 4
    assert recomputed(operators)["linear"] == 0 < recomputed(operators)["sigmoid"]


class Core(nn.Module):
    """The core of attention: scores, softmax, dropout and their product with values."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.nn.functional.dropout((q @ k.transpose(-2, -1)).softmax(-1), 0.1) @ v


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.core = nn.Linear(64, 3 * 64), Core()

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (y.unflatten(-1, (4, 16)).transpose(1, 2).contiguous() for y in self.qkv(x).chunk(3, -1))
        return x + self.core(q, k, v).transpose(1, 2).flatten(2)


@pytest.mark.parametrize("modules", ["Core", "Attention(save=addmm)", "1.core"])
def test_attention_without_its_core(modules):
    """Selective recomputation frees 6 a s² b bytes of a layer: the results of softmax and dropout, and a mask.

    Korthikanti et al. 2022 (arXiv:2205.05198, section 5): a heads, s tokens, b sequences, 2 bytes of a number. They
    have 5, with a mask of bytes; the dropout of a CPU keeps one of numbers.
    """
    a, s, b = 4, 128, 2
    net = nn.Sequential(Attention(), Attention())
    whole, selective = (
        estimate(net, (b, s, 64), memory=True, backward=True, checkpoint=each, precision="bfloat16")
        for each in (None, modules)
    )
    layers = 1 if modules == "1.core" else 2
    random_state = 5_056 * layers
    freed = whole.memory.saved - selective.memory.saved + random_state
    assert freed == layers * 6 * a * s * s * b
    macs = selective.total_report["macs"] - whole.total_report["macs"]
    assert macs == layers * a * s * s * 16 * b  # scores: what stops at the softmax needs no values again


def test_bfloat16_without_master_weights():
    """16 bytes per parameter: weights and gradients of 2, masters and moments of 4. Without masters, 2 of each: 8."""
    net = nn.Linear(64, 64, bias=False)
    for precision, nbytes in (("bfloat16", 16), ("pure_bfloat16", 8)):
        memory = estimate(net, (1, 64), memory=True, optimizer="adamw", precision=precision).memory
        kinds = [memory.ledger.live(kind)[-1] for kind in ("parameter", "gradient", "optimizer")]
        assert sum(kinds) == nbytes * 64 * 64 + 4  # the number of steps


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
        ("blocks.*.c", ValueError, r"unknown path of modules in checkpoint .*blocks\.\*\.a"),
        ("Block(mm)", ValueError, r"must name operators as Block\(save=mm,attention\)"),
        ("Block(save=mm/0)", ValueError, "must be an operator and how often it is saved, as mm/2"),
        ("Block(save=gemm)", ValueError, "PyTorch has no operator aten::gemm to save"),
        ("Blok", ValueError, "unknown class of modules in checkpoint 'Blok' .* Did you mean 'Block'"),
        (Block, TypeError, "checkpoint must be the name of a class of modules"),
    ],
)
def test_invalid_options_are_refused(option, error, message):
    with pytest.raises(error, match=message):
        estimate(Net(), (2, 64), backward=True, checkpoint=option)
