"""The largest batch of small networks: captures say that it fits and that the next one does not."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from costcore import CostError, accumulation, estimate, fit, max_batch

from .batch_networks import IMAGE, NETWORKS, bytes_of, mlp, resnet18, sized

APPROXIMATE = ("contrastive", "lstm")
"""Networks whose peak is no line of the batch: all pairs of samples, and the rounded workspace of LSTM layers."""


def memory_of(network, inputs, batch, **options):
    memory = estimate(network, sized(inputs, batch), memory=True, **options).memory
    assert memory is not None
    return memory


@pytest.mark.parametrize("name", NETWORKS)
def test_the_batch_fits_and_the_next_one_does_not(name):
    make, inputs, limit = NETWORKS[name]
    network = make()
    found = max_batch(network, inputs, limit, context=0, optimizer="adamw")
    assert found.batch > 3
    assert memory_of(network, inputs, found.batch, optimizer="adamw").peak == found.peak <= bytes_of(limit)
    assert memory_of(network, inputs, found.batch + 1, optimizer="adamw").peak == found.next_peak > found.limit.room
    assert found.is_closed_form is (name not in APPROXIMATE)
    if found.is_closed_form:
        _, nbytes, per_sample = max(line for line in found.of_batch if line[0] <= 5)
        assert memory_of(network, inputs, 5, optimizer="adamw").peak == nbytes + 5 * per_sample


@pytest.mark.parametrize("name", ["resnet18", "llama", "encoder"])
def test_inference(name):
    make, inputs, limit = NETWORKS[name]
    network = make().eval()
    found = max_batch(network, inputs, limit, context="1 MiB", workspace=1000, fragmentation=0.1)
    needed = [-(-11 * memory_of(network, inputs, found.batch + i).peak // 10) + 2**20 + 1000 for i in (0, 1)]
    assert needed[0] == found.needed <= bytes_of(limit) < needed[1]
    assert sum(found.by_kind.values()) == found.peak


def test_one_layer_by_hand():
    """Linear(100, 50) in inference: the weights take 20,200 bytes, a sample 400 of input and 200 of output."""
    found = max_batch(nn.Linear(100, 50), (1, 100), 50_000, context=0)
    assert found.batch == 49  # 20,200 + 49 * 600 = 49,600
    assert (found.peak, found.next_peak) == (49_600, 50_200)
    assert found.of_batch == [(2, 20_200, 600)]
    assert found.by_kind == {"parameter": 20_200, "input": 19_600, "output": 9_800}
    table = {2: 21_400, 3: 22_000, 4: 22_600, 8: 25_000, 16: 29_800, 32: 39_400, 49: 49_600, 50: 50_200}
    assert found.table == table


def test_the_lines_of_a_resnet():
    """The peak has several lines: that of the optimizer step for small batches, of the backward pass for large ones."""
    network = resnet18(64)
    found = max_batch(network, ("batch", 3, 64, 64), "1 GiB", context=0, optimizer="adamw")
    slopes = [line.per_sample for line in found.of_batch]
    assert len(slopes) >= 3
    assert slopes == sorted(slopes)
    assert slopes[0] < slopes[-1] / 5
    for start, nbytes, per_sample in found.of_batch:
        assert memory_of(network, IMAGE, start, optimizer="adamw").peak == nbytes + start * per_sample


def test_a_function_makes_the_inputs():
    class Detector(nn.Module):
        """A model of a list of images."""

        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3, padding=1)

        def forward(self, images: list[Tensor]) -> Tensor:
            return torch.stack([self.conv(image) for image in images]).amax((1, 2, 3))

    found = max_batch(Detector(), lambda batch: [[(3, 16, 16)] * batch], "200 KiB", context=0)
    # weights 448; an image 3,072; its features and their place in the stack 4,096 each; a maximum 4
    assert found.batch == (200 * 1024 - 448) // (3072 + 2 * 4096)


@pytest.mark.parametrize("make", [torch.zeros, lambda shape, dtype: torch.zeros(shape, dtype=dtype).numpy()])
def test_a_tensor_is_repeated(make):
    found = max_batch(nn.Embedding(10, 4), make((3, 5), dtype=torch.int64), 10_000, context=0)
    assert found.batch == (10_000 - 160) // (5 * (8 + 16))  # a word has 8 bytes, its vector 16


def test_runs_with_different_events():
    """A model that copies in a loop over samples: captures find the batch."""

    class Loop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(16, 16)

        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([self.linear(row) for row in x.split(1)])

    found = max_batch(Loop(), ("batch", 16), 9_000, context=0)
    # weights 1,088; a sample has 64 bytes of input, of its row in a list and of the result
    assert found.batch == (9_000 - 1_088) // 192
    assert not found.is_closed_form
    assert found.of_batch == []
    assert "one allocates and frees memory" in found.notes[0]
    assert "the batch was found by captures (" in found.notes[1]


# One sample does not fit


def test_a_single_sample_cannot_run():
    network = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))
    two = memory_of(network, ("batch", 8), 2, backward=True).peak
    found = max_batch(network, ("batch", 8), two - 1, context=0, train=True)
    assert found.batch == 0
    assert found.peak == two
    assert any("with a batch of 1" in note and "more than 1 value per channel" in note for note in found.notes)
    assert max_batch(network, ("batch", 8), two, context=0, train=True).batch == 2


# The device


# Gradient accumulation


def test_micro_batches():
    """The gradients of 4 B a parameter live through the forward pass of every micro-batch but the first."""
    network, limit = resnet18(), 24 * 2**20
    plain = max_batch(network, IMAGE, limit, context=0, optimizer="adamw")
    plan = accumulation(network, IMAGE, global_batch=100, memory=limit, context=0, optimizer="adamw")
    peaks = [
        memory_of(network, IMAGE, plan.micro_batch + i, optimizer="adamw", step="accumulated").peak for i in (0, 1)
    ]
    assert peaks[0] == plan.peak <= limit < peaks[1]
    assert 1 < plan.micro_batch < plain.batch
    assert plan.steps == -(-100 // plan.micro_batch)
    assert plan.micro_batch * (plan.steps - 1) + plan.last == 100
    assert plan.even * plan.steps >= 100 > plan.even * (plan.steps - 1)
    assert "20 batch_norm layers in training normalize with the statistics of a micro-batch" in plan.notes[0]


def test_replicas_share_the_samples():
    network, limit = nn.Linear(100, 50), 65_000
    one, two = (
        accumulation(network, (1, 100), global_batch=101, memory=limit, context=0, replicas=replicas)
        for replicas in (1, 2)
    )
    assert 0 < one.micro_batch == two.micro_batch < 51
    assert (two.global_batch, two.replicas, two.steps) == (101, 2, -(-51 // two.micro_batch))
    assert two.last == 51 - (two.steps - 1) * two.micro_batch


def test_the_memory_of_a_device():
    on_l4 = fit(mlp(), ("batch", 784), "l4")
    for device in ("l4", "NVIDIA L4", on_l4.target.device):
        found = max_batch(mlp(), ("batch", 784), device)
        assert (found.batch, found.limit.allocator) == (on_l4.batch, "cuda")


# Mistakes


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"optimizer": "adamv"}, ValueError, "unknown optimizer 'adamv'"),
        ({"allocator": "gpu"}, ValueError, "unknown allocator 'gpu'"),
        ({"train": "yes"}, TypeError, "train must be True or False"),
        ({"dims": {}}, TypeError, "unknown option 'dims' for the pytorch frontend"),
        ({"memory": "16 giga"}, ValueError, "memory must be an integer or a string such as"),
        ({"inputs": ("batch", 783)}, CostError, "with a batch of 2: .*Linear"),
        ({"inputs": ("batch", "n")}, ValueError, "the inputs name several dimensions"),
        ({"model": "net.onnx"}, CostError, "the onnx frontend does not record the memory of a run"),
        ({"model": 3}, CostError, "is not a supported model"),
    ],
)
def test_invalid_arguments(arguments, error, message):
    given = {"model": mlp(), "inputs": ("batch", 784), "memory": "16 MiB", **arguments}
    with pytest.raises(error, match=message):
        max_batch(**given)


def test_a_peak_without_a_batch():
    class Constant(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.zeros(3)

    with pytest.raises(CostError, match="do the inputs have a batch dimension"):
        max_batch(Constant(), lambda batch: (4, 4), "1 MiB", context=0)


# What checkpointing saves


def test_the_model_stays_as_it_is():
    network = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.Dropout())
    modes = [module.training for module in network.modules()]
    state = {name: value.clone() for name, value in network.state_dict().items()}
    plan = accumulation(network, (1, 64), global_batch=500, memory="256 KiB", context=0, optimizer="adamw")
    assert plan.steps > 1
    assert [module.training for module in network.modules()] == modes
    assert all(torch.equal(value, state[name]) for name, value in network.state_dict().items())
    assert all(parameter.grad is None for parameter in network.parameters())
