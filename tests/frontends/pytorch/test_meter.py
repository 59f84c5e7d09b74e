"""The meter of training loops: FLOPs by hand, and nothing changed afterwards."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from costcore import CostError, CostWarning, MFUMeter
from tests.frontends.pytorch.unchanged import unchanged

FORWARD = 8 * (16 * 32 + 32 * 4)
"""MACs of :func:`perceptron` for 8 samples."""

BACKWARD = 8 * (16 * 32 + 2 * 32 * 4)
"""The gradients of both weights, and of the input of the second layer."""


def perceptron() -> nn.Sequential:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))


def train(net, meter, *shapes, steps=1):
    """Run steps, each with a micro-batch of every shape."""
    for _ in range(steps):
        for shape in shapes:
            net(torch.ones(shape)).sum().backward()
        meter.step()


@pytest.mark.parametrize("counted", ["copy", "run", None])
def test_flops_of_steps(counted):
    net = perceptron()
    with MFUMeter(net, counted=counted) as meter:
        train(net, meter, (8, 16), steps=3)
    assert meter.model_flops == meter.hardware_flops == 3 * 2 * (FORWARD + BACKWARD)
    assert meter.total.steps == (2 if counted == "run" else 3)
    assert meter.dtype == "float32"
    assert meter.scalars("train/")["train/total_model_flops"] == float(meter.model_flops)
    assert json.loads(json.dumps(meter.scalars())) == meter.scalars()


@pytest.mark.parametrize("counted", ["copy", "run"])
def test_micro_batches_of_several_shapes(counted):
    # 8 + 4 samples a step
    net = perceptron()
    with MFUMeter(net, counted=counted) as meter:
        train(net, meter, (8, 16), (4, 16), steps=3)
    assert meter.model_flops == 3 * 2 * (FORWARD + BACKWARD) * 12 // 8
    assert meter.total.cost.samples == 12 * meter.total.steps


def test_a_step_that_continues_unexpectedly_is_counted_the_next_time():
    net = perceptron()
    with MFUMeter(net, counted="run") as meter:
        train(net, meter, (8, 16), steps=2)
        train(net, meter, (8, 16), (4, 16))  # begins as the first steps
        assert "some steps are not counted" in meter.notes[-1]
        train(net, meter, (8, 16), (4, 16), steps=2)
    assert meter.model_flops == 2 * (FORWARD + BACKWARD) * (8 * 2 + 12 * 2) // 8


def test_frozen_layers_and_inputs_that_need_gradients():
    net = perceptron()
    net[0].requires_grad_(False)
    with MFUMeter(net) as meter:
        train(net, meter, (8, 16))
        assert meter.model_flops == 2 * (FORWARD + 8 * 32 * 4)  # the gradient of the second weight alone
        net(torch.ones(8, 16, requires_grad=True)).sum().backward()
        meter.step()
    # In the second step also the gradients of the inputs of both layers, of 32 and 16 features.
    assert meter.model_flops == 2 * (2 * FORWARD + 8 * (2 * 32 * 4 + 32 * 4 + 32 * 16))


class Recomputing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inside, self.head = perceptron(), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(checkpoint(self.inside, x, use_reentrant=False))


def test_recomputation_is_in_hardware_flops():
    net = Recomputing()
    with MFUMeter(net, peak=1e12) as meter:
        train(net, meter, (8, 16))
    # PyTorch ends the recomputation with the input of the second layer, so its product is not repeated.
    assert meter.hardware_flops - meter.model_flops == 2 * 8 * 16 * 32
    assert meter.hfu > meter.mfu


class Unclonable(nn.Module):
    """Reads its values, which a copy without weights cannot."""

    def __init__(self) -> None:
        super().__init__()
        self.net = perceptron()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(torch.from_numpy(x.numpy()))


def test_a_model_that_does_not_run_on_meta_is_counted_while_it_runs():
    net = Unclonable()
    with MFUMeter(net) as meter:
        train(net, meter, (8, 16), steps=3)
    assert meter.model_flops == 3 * 2 * (FORWARD + BACKWARD)
    assert meter.total.steps == 2
    assert "steps are counted while they run, because no copy of the model runs on the meta device" in meter.notes[1]
    with pytest.raises(CostError), MFUMeter(net, counted="copy") as meter:
        train(net, meter, (8, 16))


@pytest.mark.parametrize("counted", ["copy", "run"])
def test_nothing_changes(counted):
    net = perceptron()
    before = threading.active_count()
    with unchanged(net):
        with MFUMeter(net, counted=counted) as meter:
            net(torch.ones(8, 16)).sum()
            meter.step()
        with pytest.raises(KeyError), MFUMeter(net, counted=counted):
            net(torch.ones(8, 16))
            raise KeyError
    assert threading.active_count() == before


def test_the_results_of_a_loop_are_the_same():
    def weights(metered):
        torch.manual_seed(3)
        net = nn.Sequential(perceptron(), nn.Dropout(0.5)).train()
        optimizer = torch.optim.AdamW(net.parameters())
        with MFUMeter(net) if metered else _nothing() as meter:
            for size in (8, 4, 8, 8):
                net(torch.randn(size, 16)).square().sum().backward()
                optimizer.step()
                optimizer.zero_grad()
                meter.step()
        return torch.cat([x.detach().flatten() for x in net.parameters()])

    assert torch.equal(weights(True), weights(False))


@contextmanager
def _nothing():
    class Meter:
        def step(self):
            pass

    yield Meter()


def test_the_loss_of_a_language_model_and_its_tokens():
    from transformers import GPT2Config, GPT2LMHeadModel

    layers, width, vocab, n, t = 2, 16, 50, 3, 10
    net = GPT2LMHeadModel(GPT2Config(n_embd=width, n_layer=layers, n_head=2, vocab_size=vocab, n_positions=32))
    ids = torch.zeros(n, t, dtype=torch.int64)
    with MFUMeter(net, dtype="bfloat16") as meter:
        for _ in range(2):
            net(labels=ids, input_ids=ids).loss.backward()
            meter.step()
    # A token: 12 x width² a layer and the head; attention 2 x t x width a layer. The backward pass doubles all of them.
    macs = 3 * n * t * (layers * (12 * width**2 + 2 * t * width) + vocab * width)
    assert meter.model_flops == 2 * 2 * macs
    assert meter.total.cost.tokens == 2 * n * t
    assert meter.notes == [meter.notes[0]]
    assert meter.tokens_per_second == pytest.approx(2 * n * t / meter.total.seconds)


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = perceptron()

    def forward(self, x, *, scale=1.0, size=None, skip=False):
        return x if skip else self.net(x) * scale


def test_arguments_of_all_kinds():
    net = TwoInputs()
    with MFUMeter(net) as meter:
        for scale in (1.0, 2.0):
            net(torch.ones(8, 16), scale=scale).sum().backward()
            meter.step()
        net(torch.ones(8, 16), size=(4, 4)).sum().backward()  # no shape of a tensor
        meter.step()
    assert meter.model_flops == 3 * 2 * (FORWARD + BACKWARD)
    assert not any("could not" in note or "integers" in note for note in meter.notes)


def test_compiled_models():
    net = perceptron()
    compiled = torch.compile(net, backend="eager")
    with MFUMeter(compiled) as meter:
        train(compiled, meter, (8, 16), steps=2)
    assert meter.model_flops == 2 * 2 * (FORWARD + BACKWARD)
    inner = perceptron()
    inner.compile(backend="eager")
    with MFUMeter(inner) as meter:
        train(inner, meter, (8, 16), steps=2)
    assert meter.model_flops == 2 * 2 * (FORWARD + BACKWARD)


def test_a_module_that_the_loop_does_not_call():
    net = perceptron()
    with MFUMeter(perceptron()) as meter, pytest.warns(CostWarning, match="no pass of the model with gradients"):
        train(net, meter, (8, 16), steps=2)
    assert meter.model_flops == 0


def test_steps_on_a_batch():
    """In a loop that calls parts of the module, as those of Lightning do."""
    net = perceptron()
    with MFUMeter(net) as meter:
        for _ in range(3):
            batch = {"x": torch.ones(8, 16), "name": "a"}
            meter.begin(batch)
            net[2](net[0](batch["x"])).sum().backward()
            meter.step()
    assert meter.model_flops == 3 * 2 * (FORWARD + BACKWARD)
    assert meter.total.cost.samples == 2 * 8


def test_the_peak_is_that_of_the_dtype_of_the_products():
    net = perceptron()
    with MFUMeter(net, "h100-sxm5-80gb") as meter:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = net(torch.ones(8, 16))
        out.sum().backward()
        meter.step()
    assert meter.dtype == "bfloat16"
    assert meter.last.peak == 989.4e12
    assert meter.mfu == pytest.approx(meter.model_flops / meter.total.seconds / 989.4e12)
    assert meter.notes == []
    assert MFUMeter(net, "h100-sxm5-80gb", dtype="float32").last.peak == pytest.approx(66.9e12)


def test_without_a_device_there_is_no_mfu():
    net = perceptron()
    with MFUMeter(net) as meter:
        train(net, meter, (8, 16))
    assert meter.mfu is meter.hfu is None
    assert meter.flops_per_second > 0
    assert "mfu" not in meter.scalars()
    assert "MFU and HFU are unknown, because no device was given" in meter.describe()


def test_a_device_without_a_peak_for_the_dtype():
    net = perceptron().double()
    with MFUMeter(net, "t4") as meter:
        net(torch.ones(8, 16, dtype=torch.float64)).sum().backward()
        meter.step()
    assert meter.mfu is None
    assert "has no peak for float64" in meter.notes[0]


def test_many_shapes_warn(monkeypatch):
    from costcore.studies import meter as module

    monkeypatch.setattr(module, "MANY_INPUTS", 3)
    net = perceptron()
    with MFUMeter(net) as meter, pytest.warns(CostWarning, match="inputs of 3 different shapes"):
        train(net, meter, (1, 16), (2, 16), (3, 16))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"device": "h10"}, ValueError, "unknown device 'h10'"),
        ({"devices": 0}, ValueError, "devices must be a positive number"),
        ({"peak": "fast"}, TypeError, "peak must be a number"),
        ({"counted": "meta"}, ValueError, "unknown value of counted 'meta'"),
        ({"device": "t4", "dtype": "float"}, ValueError, "unknown dtype 'float'"),
    ],
)
def test_mistakes(options, error, message):
    with pytest.raises(error, match=message):
        MFUMeter(perceptron(), **options)


def test_use_outside_of_the_block():
    meter = MFUMeter(perceptron())
    with pytest.raises(CostError, match="not active"):
        meter.step()
    with meter, pytest.raises(CostError, match="already active"):
        meter.__enter__()
    with pytest.raises(CostError, match="is an archive"):
        MFUMeter("model.pth.tar")
