"""What data decides that an estimate does not have: both sides of a branch, and random numbers."""

from __future__ import annotations

import itertools
import random

import numpy
import pytest
import torch
from torch import nn

from costcore import CostWarning, Value, estimate
from costcore.errors import AssumedReportError

PRODUCT = 4 * 16 * 16

pytestmark = pytest.mark.filterwarnings("ignore::costcore.CostWarning")


class Base(nn.Module):
    """A layer of one product, and a larger one of two."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(16, 16), nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16))


class EarlyExit(Base):
    def forward(self, x):
        for _ in range(6):
            x = self.one(x)
            if x.mean() > 0.5:
                return x
        return x


class Continue(Base):
    def forward(self, x):
        for _ in range(3):
            if x.sum() < 0:
                continue
            x = self.one(x)
        return x


class Else(Base):
    def forward(self, x):
        return self.one(x) if x.sum() > 0 else self.two(x)


class Then(Base):
    def forward(self, x):
        return self.two(x) if x.sum() > 0 else self.one(x)


class Both(Base):
    """The more expensive sides differ."""

    def forward(self, x):
        x = self.one(x) if x.sum() > 0 else self.two(x)
        return self.two(x) if x.max() > 0 else self.one(x)


class Inside(Base):
    """A branch that only the other side of another one reaches."""

    def forward(self, x):
        if x.sum() > 0:
            return x
        return self.two(x) if x.max() < 0 else self.two(self.two(x))


class Fails(Base):
    def forward(self, x):
        return self.one(x) if x.sum() > 0 else self.one(x[:, :3])


class Endless(Base):
    def forward(self, x):
        while True:
            x = self.one(x)
            if x.sum() > 0:
                return x


class Search(Base):
    """A loop that runs until a condition is met, with a large maximum."""

    def forward(self, x):
        n = 0
        if x.sum() > 0:
            return self.one(x)
        while x.mean() > 1e-3:
            assert n < 500
            x, n = self.one(x), n + 1
        return x


class Width(nn.Module):
    """Its more expensive side depends on its width."""

    def __init__(self, width):
        super().__init__()
        self.a, self.b = nn.Linear(16, width), nn.Linear(16, 16)

    def forward(self, x):
        return self.a(x)[:, :1] + x if x.sum() > 0 else self.b(x)


BRANCHES = {
    "an early exit": (EarlyExit(), 6, {False: 6}),
    "continue": (Continue(), 3, {False: 3}),
    "the other side": (Else(), 2, {False: 1}),
    "the first side": (Then(), 2, {True: 1}),
    "two branches": (Both(), 4, {False: 1, True: 1}),
    "a branch behind another one": (Inside(), 4, {False: 2}),
    "a side that fails": (Fails(), 1, {True: 1}),
    "a side that does not end": (Endless(), 1, {True: 1}),
    "a loop that does not end": (Search(), 1, {True: 1}),
    "a branch of several modules": (nn.Sequential(EarlyExit(), nn.ReLU(), EarlyExit()), 12, {False: 12}),
    "sides by module": (nn.Sequential(Width(1), Width(64), Width(2), Width(128)), 1 + 4 + 1 + 8, {False: 2, True: 2}),
}


@pytest.mark.parametrize("name", BRANCHES)
def test_the_more_expensive_side_is_counted(name):
    model, products, sides = BRANCHES[name]
    for _ in range(2):
        report = estimate(model, (4, 16))
        assert report.total_report["macs"] == products * PRODUCT
        assert report.status == "assumed"
        assumed = {side: sum(a.times for a in report.assumptions if f"assumed {side}" in a.what) for side in sides}
        assert assumed == sides
        assert all("because meta tensors hold no values" in a.what for a in report.assumptions)


def test_a_training_step_and_its_memory_are_those_of_the_side():
    class Only(Base):
        def forward(self, x):
            return self.two(x)

    found, expected = (estimate(kind(), (4, 16), backward=True, memory=True) for kind in (Else, Only))
    assert found.memory.peak == pytest.approx(expected.memory.peak, abs=64)  # the condition is a tensor too
    assert found.by("phase")["backward"]["macs"] == expected.by("phase")["backward"]["macs"] == 3 * PRODUCT


def test_a_loop_that_does_not_end_is_left_soon():
    model = Search()
    rounds = []
    model.one.register_forward_pre_hook(lambda *_: rounds.append(1))
    estimate(model, (4, 16))
    assert len(rounds) < 100


def test_an_index_that_the_code_rules_out_is_not_chosen():
    class Periods(Base):
        def forward(self, x):
            scores = torch.fft.rfft(x, dim=1).abs().mean((0, 2))
            scores[0] = 0
            for period in x.shape[1] // torch.topk(scores, 2)[1].numpy():
                x = self.one(x.reshape(-1, int(period), 16)).reshape(x.shape)
            return x

    report = estimate(Periods(), (2, 16, 16))
    assert (report.status, report.total_report["macs"]) == ("assumed", 2 * 8 * PRODUCT)


def test_a_side_has_its_warning():
    with pytest.warns(CostWarning, match="condition assumed False, the more expensive side"):
        estimate(Else(), (4, 16))


def test_sixteen_branches_are_tried():
    source = "\n".join(f"        x = self.one(x) if x.sum() > {i} else self.two(x)" for i in range(20))
    names = {"Base": Base}
    exec(f"class Many(Base):\n    def forward(self, x):\n{source}\n        return x", names)
    report = estimate(names["Many"](), (4, 16))
    assert report.total_report["macs"] == (16 * 2 + 4) * PRODUCT
    assert "4 data-dependent branches assumed True without a comparison: other sides are tried in at most 16 runs" in (
        report.trace.run.notes
    )


def test_tensors_of_different_shapes_are_not_equal():
    class Compares(Base):
        def forward(self, x, y):
            return self.one(x) if torch.equal(x, y) else x

    assert estimate(Compares(), [(4, 16), (5, 16)], strict=True).total_report["macs"] == 0
    report = estimate(Compares(), [(4, 16), (4, 16)])
    assert (report.status, report.total_report["macs"]) == ("assumed", PRODUCT)


class LayerDrop(Base):
    def __init__(self, draw):
        super().__init__()
        self.draw = draw

    def forward(self, x):
        for _ in range(12):
            if self.draw(x) < 0.1:
                continue
            x = self.one(x)
        return x


DRAWS = {
    "rand": lambda x: torch.rand([]),
    "rand on the device": lambda x: torch.rand([], device=x.device),
    "rand of one element": lambda x: torch.rand(1),
    "rand with a generator": lambda x: torch.rand([], generator=torch.Generator().manual_seed(0)),
    "randn": lambda x: torch.randn(()).abs(),
    "randint": lambda x: torch.randint(0, 10, ()),
    "rand_like": lambda x: torch.rand_like(torch.zeros(())),
    "uniform_": lambda x: torch.empty(()).uniform_(),
    "a view of uniform_": lambda x: torch.empty(3).uniform_()[0],
    "bernoulli": lambda x: torch.bernoulli(torch.full((), 0.9)),
    "bernoulli_": lambda x: torch.zeros(()).bernoulli_(0.9),
    "normal": lambda x: torch.normal(torch.zeros(()), 1.0),
    "a sum": lambda x: torch.zeros(()).add_(torch.empty(()).uniform_()) + 1,
    "a number": lambda x: torch.rand([]).item(),
    "the rest of a number": lambda x: 1 - torch.rand([]).item(),
    "an integer": lambda x: 1 - torch.randint(0, 2, ()).item(),
    "a number of a list": lambda x: 1 - float(torch.rand(3)[0] * 2),
}


@pytest.mark.parametrize("name", DRAWS)
def test_random_numbers_are_assumed(name):
    model = LayerDrop(DRAWS[name])
    for seed in range(3):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        report = estimate(model, (4, 16))
        assert report.total_report["macs"] == 12 * PRODUCT
        assert report.status == "assumed"
        assert [each.times for each in report.assumptions] == [12]
        assert torch.equal(torch.get_rng_state(), before)
    with pytest.raises(AssumedReportError):
        estimate(model, (4, 16), strict=True)


@pytest.mark.parametrize("draw", [lambda n: torch.rand(1).item() * n, lambda n: torch.empty(1).uniform_(0.0, n).item()])
def test_a_random_index_is_below_its_end(draw):
    """torchvision chooses the size of an image so."""
    layers = torch.nn.ModuleList([torch.nn.Linear(16, 16), torch.nn.Linear(16, 16), Base()])
    report = estimate(lambda x: layers[int(draw(3))].one(x), (4, 16))
    assert report.total_report["macs"] == PRODUCT
    assert "the model fails" not in str(report.assumptions)


@pytest.mark.parametrize(("name", "draw"), [("Python", random.random), ("numpy", numpy.random.rand)])
def test_random_numbers_of_others_are_assumed(name, draw):
    report = estimate(LayerDrop(lambda x: draw()), (4, 16))
    assert report.status == "assumed"
    assert [each.what for each in report.assumptions] == [
        f"the model drew random numbers from {name}, which may decide its branches: another run may take others"
    ]
    assert str(report.assumptions[0]).endswith("another run may take others")  # no line: it is not known


def test_random_numbers_that_decide_nothing_are_no_assumption():
    class Noise(Base):
        def forward(self, x):
            noise = torch.randn(x.shape) + torch.empty(16).normal_()
            return self.one(x + noise.to(x.device))

    assert estimate(Noise(), (4, 16), strict=True).total_report["macs"] == PRODUCT


def test_layers_that_a_pass_makes_have_parameters():
    class Makes(nn.Module):
        def forward(self, x):
            return nn.Linear(16, 16)(x)

    report = estimate(Makes(), (4, 16))
    assert report.total_report["macs"] == PRODUCT
    assert report.total_report["n_params"] == 16 * 16 + 16


def test_data_that_unknown_values_were_added_to_decide_nothing():
    class Accumulates(Base):
        def forward(self, x):
            total = torch.zeros(())
            total += x.sum()
            return self.two(x) if total > 1 else self.one(x)

    report = estimate(Accumulates(), (4, 16))
    assert (report.status, report.total_report["macs"]) == ("assumed", 2 * PRODUCT)


def test_places_of_nonzero_elements_are_those_of_all():
    """Recurrent agents run a GRU from one end of an episode to the next."""
    gru = nn.GRU(3, 4)

    def run(x, masks):
        ends = [0, *((masks[1:] == 0.0).any(-1).nonzero().squeeze(1).cpu() + 1).numpy().tolist(), len(x)]
        hidden = x.new_zeros(1, x.shape[1], 4)
        for start, end in itertools.pairwise(ends):
            _, hidden = gru(x[start:end], hidden)
        return hidden

    report = estimate(run, ((5, 2, 3), (5, 2)))
    assert report.total_report["macs"] == 5 * 2 * 3 * 4 * (3 + 4)
    assert [call.type for call in report.calls].count("gru") == 5
    assert {each.what for each in report.assumptions} == {
        "all elements of a tensor without data were assumed to be nonzero"
    }


def test_a_tensor_of_floats_given_as_a_value_keeps_its_values():
    def edges(x, adjacency):
        source, target = adjacency.nonzero().t()
        return x[source] * x[target]

    x, adjacency = torch.rand(6, 4), torch.eye(6)
    report = estimate(edges, (x, Value(adjacency)))
    assert (report.status, report.total_report["flops"]) == ("complete", 36 + 6 * 4)
    assert estimate(edges, (x, adjacency)).total_report["flops"] == 36 + 36 * 4
