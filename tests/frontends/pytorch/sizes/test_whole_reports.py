"""Reports with values for their sizes against estimates there: number of calls, status and fused bytes too."""

from __future__ import annotations

import warnings
from random import Random
from typing import Any

import pytest
import torch
from torch import nn

from costcore import CostError, CostWarning, Report, estimate
from tests.frameworks import optional
from tests.frontends.pytorch.sizes.points import sized

transformers = optional("transformers")

COLUMNS = ("macs", "flops", "mread", "mwrite", "n_params", "n_layers")
SAMPLES = {"batch": (2, 5), "samples": (2000, 40000)}


def figures(report: Report) -> dict[str, Any]:
    """Return the totals, the status, and the bytes after fusion."""
    found = {key: report.total_report[key] for key in COLUMNS}
    fused = {level: report.fused(level).total_report["mrw"] for level in ("pointwise", "compiler")}
    return {**found, **fused, "status": report.status}


def equal_at(net: nn.Module, inputs: Any, points: list[dict[str, int]], ranges: Any = None) -> None:
    report = estimate(net, inputs, ranges=ranges)
    for point in points:
        assert figures(report.subs(point)) == figures(estimate(net, sized(inputs, point))), point


def at_random(limits: dict[str, tuple[int, int]], count: int = 3) -> list[dict[str, int]]:
    random = Random(5)
    return [{name: random.randint(*ends) for name, ends in limits.items()} for _ in range(count)]


def strided(*strides: int) -> nn.Sequential:
    """The encoder of a codec of audio: strides that multiply, and a recurrent layer would follow."""
    layers = [nn.Conv1d(1, 4, 7, padding=3)]
    layers += [nn.Conv1d(4, 4, 2 * stride, stride, stride // 2) for stride in strides]
    return nn.Sequential(*layers, nn.ELU(), nn.Conv1d(4, 8, 3, padding=1)).eval()


@pytest.mark.parametrize("strides", [(2, 4, 5, 8), (5, 2, 2, 2, 2, 2, 2), (4, 5, 6, 8, 2), (320,)], ids=str)
def test_chains_of_strides(strides):
    """Their products are periods of 320, of 320 again, of 1,920, and of 320 by one layer."""
    equal_at(strided(*strides), ("batch", 1, "samples"), at_random(SAMPLES), {"samples": (2000, 40000)})


class Positions(nn.Module):
    """Adds the first positions of a table, as BERT does; for all of them, there is no slice."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.table = nn.Embedding(20, 4), nn.Embedding(64, 4)
        self.register_buffer("ids", torch.arange(64)[None])

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.words(ids) + self.table(self.ids[:, : ids.shape[1]].expand(len(ids), -1))


@pytest.mark.parametrize("ranges", [None, {"seq": (2, 64)}], ids=["found", "stated"])
def test_a_slice_that_is_no_call_where_it_is_whole(ranges):
    points = [{"batch": 3, "seq": 17}, {"batch": 5, "seq": 63}, {"batch": 4, "seq": 64}]
    equal_at(Positions(), (("batch", "seq"), "int64"), points, ranges)
    report = estimate(Positions(), (("batch", "seq"), "int64"), ranges=ranges)
    at_63, at_64 = (report.subs(batch=4, seq=seq) for seq in (63, 64))
    n_slices = sum(
        name.startswith("slice") for name in at_63.layer_report
    )  # PyTorch 2.6 takes one of the first axis, too
    assert {f"slice-{n_slices}"} == at_63.layer_report.keys() - at_64.layer_report.keys()
    assert str(report.total_report["n_layers"]) == str(4 + n_slices)  # slices, expand, two embeddings and their sum


class Masked(nn.Module):
    """Asks whether its mask has any padding, as encoders of Transformers do."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        return x if mask.all() else x * mask[:, :, None]


def test_assumptions_where_masks_are_too_large_to_keep():
    """Values are kept up to 2 ** 20 = 512 * 2048 elements."""
    report = estimate(Masked(), ("batch", "seq", 2))
    assert report.status == "complete"
    assert any("assumed where batch*seq exceeds 1,048,576" in note for note in report.trace.run.notes)
    for seq, status in ((2048, "complete"), (2049, "assumed")):
        assert report.subs(batch=512).subs(seq=seq).status == status
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CostWarning)  # the branch
            assert estimate(Masked(), (512, seq, 2)).status == status


class Scan(nn.Module):
    """A recurrence over slices whose states are joined, and the last of which is returned."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        state, states = x.new_zeros(len(x), 8), []
        for i in range(x.shape[1]):
            state = torch.tanh(self.cell(state) + x[:, i])
            states.append(state.unsqueeze(1) * 2)
        return torch.cat(states, 1).relu() + 1, state.exp()


def test_loops_are_written_out():
    """Values put in, every call of the loop is there again, and reads what the repetition before wrote."""
    net = Scan()
    report = estimate(net, ("batch", "seq", 8))
    assert len(report.trace) < 20
    for batch, seq in ((2, 3), (5, 40), (3, 17)):
        at_sizes, found = estimate(net, (batch, seq, 8)), report.subs(batch=batch).subs(seq=seq)
        assert figures(found) == figures(at_sizes)
        assert found.layer_report.keys() == at_sizes.layer_report.keys()
        ids = [
            [(call.inputs, call.outputs, call.storages) for call in each.trace.calls] + [each.trace.run.returned]
            for each in (found, at_sizes)
        ]
        assert ids[0] == ids[1]


SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "vocab_size": 50, "intermediate_size": 24, "num_attention_heads": 2}
HEARD = {
    "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "vocab_size": 10,
    "conv_dim": (8,) * 7, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2,
}  # fmt: skip
IDS = {"input_ids": (("batch", "seq"), "int64")}
MODELS: dict[str, Any] = {
    "Bert": (SMALL, IDS, {"batch": (2, 9), "seq": (3, 300)}, None),
    "Albert": ({**SMALL, "embedding_size": 8}, IDS, {"batch": (2, 9), "seq": (3, 300)}, None),
    "Electra": ({**SMALL, "embedding_size": 8}, IDS, {"batch": (2, 9), "seq": (3, 300)}, None),
    "Mamba": (
        {"hidden_size": 16, "num_hidden_layers": 2, "vocab_size": 50, "state_size": 4, "expand": 1},
        *(IDS, {"batch": (2, 9), "seq": (8, 40)}, {"seq": (8, 40)}),
    ),
    "Wav2Vec2": (HEARD, ("batch", "samples"), SAMPLES, {"samples": (2000, 40000)}),
    "Hubert": (HEARD, ("batch", "samples"), SAMPLES, {"samples": (2000, 40000)}),
}

ENCODERS = ("Bert", "Albert", "Electra")


@pytest.mark.parametrize("name", MODELS)
def test_models_of_transformers(name):
    from tests.frontends.pytorch.transformers_differences import LOOKS_FOR_PADDING

    if name in ENCODERS and LOOKS_FOR_PADDING:
        pytest.skip("this transformers looks whether the first and last tokens are padding, which is assumed")
    sizes, inputs, limits, ranges = MODELS[name]
    with torch.device("meta"):
        net = getattr(transformers, f"{name}Model")(getattr(transformers, f"{name}Config")(**sizes)).eval()
    equal_at(net, inputs, at_random(limits), ranges)


def test_messages_say_how_to_state_a_range():
    how = r'ranges=\{"samples": \(smallest, largest\)\} in estimate'
    with pytest.raises(CostError, match=rf"It was tried at batch=2, samples=16; .* state a range: {how}"):
        estimate(nn.Conv1d(1, 1, 400, 320), ("batch", 1, "samples"))

    class Capped(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[:, :100] * 2 if x.shape[1] < 300 else torch.roll(x, 1) + x

    with pytest.raises(CostError, match=how):
        estimate(Capped(), (2, "samples"))
    with pytest.raises(CostError, match=how):
        estimate(Capped(), (2, "samples"), ranges={"samples": (2, 200)})
