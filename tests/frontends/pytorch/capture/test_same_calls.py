"""The recorded calls do not depend on grad mode, device, layout of the input or replay."""

from __future__ import annotations

import copy
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.frontends.pytorch.runs import GRAD_MODES, estimated, listed, record, types


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def copied(x):
    """Copies in the user's code, beside those that autograd makes for itself."""
    y = (x * 1).clone()
    return functional.silu(y, inplace=True), functional.silu(x.clone(), inplace=True)


def shapes(x):
    """Layout operators, some of which PyTorch decomposes."""
    return (
        *(x.reshape(-1), x.t().reshape(-1), x.t().contiguous(), x.flatten(), x.chunk(2, 1), x.unflatten(1, (2, 2))),
        *(x.expand_as(x), x.T, x[:, 1], x.repeat(2, 2), functional.pad(x, (1, 1)), torch.stack([x, x])),
        *(x.to(torch.float64), x.type_as(x), x.masked_fill(x > 0, 0.0), torch.meshgrid(x[0], x[1], indexing="ij")),
    )


def arithmetic(x):
    """Element-wise operators, reductions and products."""
    return (
        *(x + 1, 2 - x, x**2, x.square(), x.var(), x.std(0), x.norm(), x.mean(1, keepdim=True), x.softmax(-1)),
        *(x @ x, torch.outer(x[0], x[1]), torch.einsum("ij,kj->ik", x, x), torch.tensordot(x, x), x.max(1)),
        *(functional.normalize(x), functional.cosine_similarity(x, x), torch.where(x > 0, x, 0.0), x.clamp(0, 1)),
        functional.one_hot(torch.zeros(3, dtype=torch.int64, device=x.device), 4),
    )


def losses(x, target):
    """Losses, as one operator each."""
    return (
        *(
            functional.cross_entropy(x, target),
            functional.nll_loss(x, target),
            functional.kl_div(x, x, reduction="sum"),
        ),
        *(functional.l1_loss(x, x), functional.mse_loss(x, x), functional.smooth_l1_loss(x, x)),
        functional.binary_cross_entropy_with_logits(x, x),
    )


LAYER = {"d_model": 8, "nhead": 2, "dim_feedforward": 16, "batch_first": True}

CASES = {
    "linear": (nn.Linear(4, 5), torch.ones(2, 3, 4)),
    "linear of a transposed input": (nn.Linear(4, 5), torch.ones(3, 4, 2).permute(2, 0, 1)),
    "convolution": (
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True)),
        torch.ones(1, 3, 5, 5),
    ),
    "upsampling": (nn.Sequential(nn.ConvTranspose2d(3, 4, 2), nn.Upsample(scale_factor=2)), torch.ones(1, 3, 4, 4)),
    "lstm": (nn.LSTM(4, 5, 2, bidirectional=True, dropout=0.1), torch.ones(3, 2, 4)),
    "gru": (nn.GRU(4, 5), torch.ones(3, 2, 4)),
    "rnn": (nn.RNN(4, 5), torch.ones(3, 2, 4)),
    "lstm cell": (nn.LSTMCell(4, 5), torch.ones(2, 4)),
    "multi-head attention": (nn.MultiheadAttention(8, 2, batch_first=True), *[torch.ones(2, 3, 8)] * 3),
    "transformer layer": (nn.TransformerEncoderLayer(**LAYER), torch.ones(2, 3, 8)),
    "transformer": (nn.Transformer(8, 2, 1, 1, 16, batch_first=True), torch.ones(2, 3, 8), torch.ones(2, 3, 8)),
    "group norm": (nn.GroupNorm(2, 4), torch.ones(2, 4, 3)),
    "norms": (nn.Sequential(nn.LayerNorm(4), nn.RMSNorm(4), nn.Dropout(0.1), nn.Softmax(-1)), torch.ones(2, 4)),
    "activations": (
        nn.Sequential(
            nn.SELU(), nn.PReLU(), nn.ReLU6(), nn.LogSigmoid(), nn.Mish(), nn.GLU(), nn.RReLU(), nn.Softmin(0)
        ),
        torch.ones(2, 4),
    ),
    "in place": (
        nn.Sequential(nn.Conv1d(3, 4, 1), nn.Hardswish(True), nn.Conv1d(4, 4, 1), nn.SiLU(True)),
        torch.ones(2, 3, 4),
    ),
    "bag": (nn.EmbeddingBag(10, 4), torch.tensor([[1, 2], [3, 4]])),
    "copies": (Function(copied), torch.ones(4, 4)),
    "shapes": (Function(shapes), torch.ones(4, 4)),
    "arithmetic": (Function(arithmetic), torch.ones(4, 4)),
    "losses": (Function(losses), torch.ones(3, 4), torch.tensor([0, 1, 2])),
    "pooling": (nn.Sequential(nn.MaxPool2d(2), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(1)), torch.ones(1, 2, 8, 8)),
}


def on_meta(model, inputs):
    """Return model and inputs on the meta device; an input that is passed twice stays one tensor."""
    meta_inputs = {id(x): x.to("meta") for x in inputs}
    return copy.deepcopy(model).to("meta"), [meta_inputs[id(x)] for x in inputs]


@pytest.mark.parametrize("is_training", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_grad_modes_devices_and_replay_change_nothing(name, is_training):
    model, *inputs = CASES[name]
    model.train(is_training)
    meta_model, meta_inputs = on_meta(model, inputs)
    expected = None
    for module, args in ((model, inputs), (meta_model, meta_inputs)):
        for mode in GRAD_MODES.values():
            for has_replay in (True, False):
                with mode():
                    found = listed(record(lambda m=module, a=args: m(*a), has_replay=has_replay))
                expected = expected or found
                assert found == expected
    assert listed(estimated(model, tuple(inputs))) == expected


@pytest.mark.parametrize("name", ["linear", "convolution", "transformer layer", "norms"])
def test_the_backward_pass_is_listed_the_same_on_both_devices(name):
    model, *inputs = CASES[name]
    model.eval()
    meta_model, meta_inputs = on_meta(model, inputs)

    def run(module, args):
        module.zero_grad()
        result = module(*args)
        torch.autograd.backward(result, torch.ones_like(result))

    found = [entry[:4] for entry in listed(record(lambda: run(model, inputs)))]
    assert "backward" in {phase for _, _, _, phase in found}
    for has_replay in (True, False):
        recorder = record(lambda: run(meta_model, meta_inputs), has_replay=has_replay)
        assert [entry[:4] for entry in listed(recorder)] == found


def test_composite_operators_stay_whole():
    expected = {
        "linear": ["linear"],
        "linear of a transposed input": ["linear"],
        "convolution": ["conv2d", "batch_norm", "relu"],
        "upsampling": ["conv_transpose2d", "upsample_nearest2d"],
        "lstm": ["zeros", "zeros", "lstm"],
        "gru": ["zeros", "gru"],
        "rnn": ["zeros", "rnn_tanh"],
        "group norm": ["group_norm"],
        "norms": ["layer_norm", "rms_norm", "dropout", "softmax"],
        "pooling": ["max_pool2d", "avg_pool2d", "adaptive_avg_pool2d"],
        "in place": ["conv1d", "hardswish", "conv1d", "silu"],
        "copies": ["mul", "clone", "silu", "clone", "silu"],
        "bag": ["arange", "view", "embedding_bag"],
    }
    found = {}
    for name in expected:
        model, *inputs = CASES[name]
        model.eval()
        found[name] = types(record(lambda m=model, a=inputs: m(*a)))
    assert found == expected


def assigned(x):
    """Numbers assigned to elements, one of which PyTorch makes a tensor of for another reason."""
    y = x * 1
    y[0], y[:, 1:3], y[...], y[x > 0], y[..., None, ::2] = 1.0, 2, True, 0.5, 3
    y[1] = x[0]
    return torch.where(x > 0, y, 1.0).view(-1)


class Moving(nn.Module):
    """Names devices, as models do that were written for one GPU, or for the device of an input."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        x = self.linear(x.to("cpu")).cpu()
        x = x.to(torch.device("cpu"), torch.float64).to("cpu", non_blocking=True)
        x = x + torch.arange(4.0).to("cpu").to(x.device)
        return x * torch.ones(4, dtype=torch.float64).to(x) + torch.ones(4).to(x.device, torch.float64)


@pytest.mark.parametrize("mode", GRAD_MODES)
def test_moves_to_the_device_of_the_model_are_no_calls(mode):
    model, x = Moving(), torch.ones(2, 4)
    with GRAD_MODES[mode]():
        recorder = record(lambda: model(x))
        without_data = estimated(model, (2, 4))
    assert types(recorder) == ["linear", "to", "arange", "add", "ones", "mul", "ones", "to", "add"]
    assert [call.layer.op for call in recorder.calls if call.type == "to"] == ["cast", "cast"]
    assert listed(without_data) == listed(recorder)
    assert estimated(model, (2, 4), backward=True).calls[-1].phase == "backward"
    links = [
        [len({*call.inputs} & {*before.outputs}) for before, call in pairwise(run.calls)]
        for run in (recorder, without_data)
    ]
    assert links[0] == links[1]
