"""Packed sequences of different lengths: steps after the end of a sequence are not counted."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from costcore import ComputationalCostHook, estimate
from tests.frontends.pytorch.runs import estimated, listed, macs, record

GATES = {nn.LSTM: 4, nn.GRU: 3, nn.RNN: 1}


class Packed(nn.Module):
    """A recurrent layer of 3 inputs and 6 hidden units over packed sequences."""

    def __init__(self, kind=nn.LSTM, lengths=None, batch_first=True) -> None:
        super().__init__()
        self.layer = kind(3, 6, batch_first=batch_first)
        self.lengths, self.batch_first = lengths, batch_first

    def forward(self, x, lengths=None):
        given = self.lengths if lengths is None else lengths
        packed, _ = self.layer(pack_padded_sequence(x, given, batch_first=self.batch_first))
        return pad_packed_sequence(packed, batch_first=self.batch_first)[0]


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("kind", GATES)
def test_lengths_that_the_model_knows_are_taken_without_data_as_well(kind, batch_first):
    model = Packed(kind, [5, 4, 1], batch_first)
    x = torch.ones((3, 5, 3) if batch_first else (5, 3, 3))
    recorder = estimated(model, tuple(x.shape))
    assert macs(recorder.calls) == (5 + 4 + 1) * GATES[kind] * 6 * (3 + 6)
    assert recorder.assumptions == []
    with torch.no_grad():
        assert listed(recorder) == listed(record(lambda: model(x)))


@pytest.mark.parametrize("lengths", [[5, 5, 5], [5, 4, 1], [1, 2, 2]])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"bidirectional": True},
        {"num_layers": 2, "dropout": 0.5},
        {"bias": False},
        {"proj_size": 2},
        {"proj_size": 2, "bidirectional": True, "num_layers": 2, "bias": False},
    ],
)
@pytest.mark.parametrize("kind", GATES)
def test_gradients_are_those_of_a_cpu(kind, settings, lengths):
    if "proj_size" in settings and kind is not nn.LSTM:
        pytest.skip("only an LSTM has projections")

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.layer = nn.Linear(3, 3), kind(3, 6, batch_first=True, **settings)

        def forward(self, x):
            packed = pack_padded_sequence(self.embed(x), lengths, batch_first=True, enforce_sorted=False)
            output, last = self.layer(packed)
            return output.data, last

    model, x = Model(), torch.ones(3, 5, 3)
    report = estimate(model, x, backward=True)
    with ComputationalCostHook() as cch:
        output, last = model(x)
        outputs = [output, *(last if isinstance(last, tuple) else (last,))]
    gradients = [torch.ones_like(each) for each in outputs]
    with ComputationalCostHook() as backward:
        torch.autograd.backward(outputs, gradients)
    costs = ("flops", "macs", "mread", "mwrite")
    phases = report.by("phase")
    assert [phases["forward"][name] for name in costs] == [cch.total_report[name] for name in costs]
    assert [phases["backward"][name] for name in costs] == [backward.total_report[name] for name in costs]


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "settings",
    [
        {"proj_size": 2},
        {"proj_size": 2, "bidirectional": True, "num_layers": 2, "bias": False},
        {"batch_first": True, "num_layers": 2, "dropout": 0.5},
    ],
)
def test_padded_layers_are_trained_as_on_a_cpu(settings, dtype):
    if dtype is torch.float32 and "proj_size" not in settings:
        pytest.skip("one operator of oneDNN for each layer")
    model = nn.Sequential(nn.Linear(3, 3), nn.LSTM(3, 6, **settings)).to(dtype)
    x = torch.ones(4, 5, 3, dtype=dtype)
    phases = estimate(model, x, backward=True).by("phase")
    with ComputationalCostHook() as forward:
        output, last = model(x)
    gradients = [torch.ones_like(each) for each in (output, *last)]
    with ComputationalCostHook() as backward:
        torch.autograd.backward([output, *last], gradients)
    for phase, cch in (("forward", forward), ("backward", backward)):
        for name in ("flops", "macs", "mread", "mwrite", "n_layers"):
            assert phases[phase][name] == cch.total_report[name]


def test_sequences_without_data_are_as_long_as_they_may_be():
    recorder = estimated(Packed(), [(3, 5, 3), ((3,), torch.int64)])
    assert macs(recorder.calls) == 3 * 5 * 4 * 6 * (3 + 6)
    assert "every sequence of unknown length was taken at its full length" in [a.what for a in recorder.assumptions]


@pytest.mark.parametrize("lengths", [(5, 5, 5), (5, 4, 1), (3, 2, 2)])
def test_a_batch_of_the_same_shape_and_other_lengths_costs_what_it_takes(lengths):
    model = Packed()
    with torch.no_grad(), ComputationalCostHook() as cch:
        model(torch.ones(3, 5, 3), torch.tensor(lengths))
    packed = cch.layer_report["_pack_padded_sequence-1"]
    assert packed["mread"] == packed["mwrite"] == sum(lengths) * 3 * 4
    assert cch.total_report["macs"] == sum(lengths) * 4 * 6 * (3 + 6)


@pytest.mark.filterwarnings("ignore:`isinstance:FutureWarning", "ignore:The tensor attributes")  # of torch's export
@pytest.mark.parametrize("is_strict", [True, False])
@pytest.mark.parametrize("kind", GATES)
def test_an_exported_layer_makes_its_first_state_on_a_device_with_data(kind, is_strict):
    x = torch.ones(2, 5, 3)
    try:
        program = torch.export.export(kind(3, 6), (x,), strict=is_strict)
    except ValueError as error:
        if is_strict or "assigned during export" not in str(error):
            raise
        pytest.skip("this PyTorch exports recurrent layers with strict=True only")
    report = estimate(program, x)
    assert report.total_report["macs"] == 2 * 5 * GATES[kind] * 6 * (3 + 6)
    assert report.total_report == estimate(kind(3, 6), x).total_report
