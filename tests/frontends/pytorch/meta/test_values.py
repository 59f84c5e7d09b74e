"""Integers and bools on the meta device carry their values wherever these are known."""

from __future__ import annotations

import numpy
import pytest
import torch
from torch import nn
from torch.nn import functional

from costcore import ComputationalCostHook, estimate
from tests.frontends.pytorch.runs import estimated, listed, macs, record
from tests.frontends.pytorch.unchanged import unchanged

META = torch.device("meta")


class Call(nn.Module):
    """A function as a module without parameters, which may have buffers."""

    def __init__(self, function, **buffers) -> None:
        super().__init__()
        self.function = function
        for name, value in buffers.items():
            self.register_buffer(name, value)

    def forward(self, *args):
        return self.function(self, *args) if self._buffers else self.function(*args)


def size_of(function, *inputs, assumes=()):
    """Return the shape that a function returns in an estimate, and check what was assumed."""
    shapes = []
    recorder = estimated(Call(lambda *args: shapes.append(tuple(function(*args).shape))), list(inputs) or None)
    assert [a.what for a in recorder.assumptions] == list(assumes)
    return shapes[-1]  # an estimate that keeps the values of indices is a second run


def test_an_integer_buffer_is_a_number():
    """Padding 7 on both sides of 10: 24 positions, of which a kernel of 3 leaves 22; 2 channels in, 3 out."""
    model = Call(lambda self, x: functional.conv1d(x, x.new_empty(3, 2, 3), padding=int(self.k)), k=torch.tensor(7))
    recorder = estimated(model, (1, 2, 10))
    assert macs(recorder.calls) == 22 * 3 * 2 * 3
    assert recorder.assumptions == []


def test_buffers_and_inputs_are_not_changed():
    def count(self, ids):
        self.n += 1
        self.seen[1:].fill_(True)
        ids[0] = 9
        return torch.ones(int(self.n), int(self.seen.sum()), ids[0].item())

    n, seen, ids = torch.tensor(0), torch.zeros(3, dtype=torch.bool), torch.arange(3)
    model = Call(count, n=n, seen=seen)
    state = torch.get_rng_state()
    for _ in range(3):
        with unchanged(model):
            recorder = estimated(model, ids)
        assert recorder.calls[-1].layer.out.shape == (1, 2, 9)
        assert recorder.assumptions == []
    assert (n.item(), seen.tolist(), ids.tolist()) == (0, [False] * 3, [0, 1, 2])
    assert torch.equal(torch.get_rng_state(), state)


def test_padding_is_removed_from_identifiers_given_with_data():
    """5 of 8 tokens are not padding; each is one row of 6 by 6 x 2."""
    embedding, head = nn.Embedding(9, 6), nn.Linear(6, 2)
    model = Call(lambda ids: head(embedding(ids)[ids != 0]))
    ids = torch.tensor([[1, 2, 3, 0], [4, 5, 0, 0]])
    recorder = estimated(model, ids)
    assert macs(recorder.calls) == 5 * 6 * 2
    assert recorder.assumptions == []
    with torch.no_grad():
        assert listed(recorder) == listed(record(lambda: model(ids)))
    by_shape = estimated(model, ((2, 4), torch.int64))
    assert macs(by_shape.calls) == 8 * 6 * 2
    assert [a.what for a in by_shape.assumptions] == ["a mask without data was assumed to select every element"]
    assert macs(estimated(model, numpy.array([[1, 0, 0, 0]])).calls) == 6 * 2


IDS = torch.tensor([3, 0, 5, 3])

KNOWN = {
    "item": (lambda x: torch.ones(x[2].item()), (5,)),
    "int": (lambda x: torch.ones(int(x.max())), (5,)),
    "index": (lambda x: torch.ones(list(range(9))[x[0]]), (3,)),
    "if": (lambda x: torch.ones(1) if x[1] else torch.ones(2), (2,)),
    "any": (lambda x: torch.ones(1) if (x == 5).any() else torch.ones(2), (1,)),
    "while": (lambda x: torch.ones(count_down(x[2])), (5,)),
    "tolist": (lambda x: torch.ones(x.tolist()), (3, 0, 5, 3)),
    "iteration": (lambda x: torch.ones([int(i) for i in x]), (3, 0, 5, 3)),
    "numpy": (lambda x: torch.ones(x.numpy().tolist()), (3, 0, 5, 3)),
    "array": (lambda x: torch.ones(numpy.asarray(x).tolist()), (3, 0, 5, 3)),
    "format": (lambda x: torch.ones(len(f"{x[2]:04d}")), (4,)),
    "nonzero": (lambda x: x.nonzero(), (3, 1)),
    "where": (lambda x: torch.where(x == 3)[0], (2,)),
    "mask": (lambda x: torch.ones(4, 2, device=META)[x > 0], (3, 2)),
    "mask and index": (lambda x: torch.ones(4, 2, device=META)[x > 0, 1], (3,)),
    "mask of a tensor with data": (lambda x: torch.arange(8.0).reshape(4, 2)[x > 0], (3, 2)),
    "histc": (lambda x: torch.ones(torch.histc(x.int(), 3, 0, 5).tolist() if x.is_meta else (1, 2, 1)), (1, 2, 1)),
    "masked_select": (lambda x: torch.empty(2, 4, device=META).masked_select(x > 0), (6,)),
    "unique": (lambda x: torch.unique(x), (3,)),
    "unique_consecutive": (lambda x: torch.unique_consecutive(x), (4,)),
    "bincount": (lambda x: torch.bincount(x), (6,)),
    "bincount with weights": (lambda x: torch.bincount(x, torch.empty(4, device=META)), (6,)),
    "repeat_interleave": (lambda x: torch.repeat_interleave(x), (11,)),
    "repeat_interleave of x": (lambda x: torch.repeat_interleave(torch.empty(4, device=META), x), (11,)),
    "one_hot": (lambda x: functional.one_hot(x, 6)[:, 3].nonzero(), (2, 1)),
    "equal": (lambda x: torch.ones(1) if torch.equal(x, x + 1) else torch.ones(2), (2,)),
    "arithmetic": (lambda x: torch.ones(int((x * 2 - 1).clamp(min=0).sum())), (19,)),
    "floats of integers": (lambda x: torch.ones(int(torch.ceil(x[2] / 2.0))), (3,)),
    "cumsum": (lambda x: torch.ones(int(x.cumsum(0)[-1])), (11,)),
    "gather": (lambda x: torch.ones(int(x.gather(0, x.new_tensor([2]))[0])), (5,)),
    "sort": (lambda x: torch.ones(x.sort().values.tolist()), (0, 3, 3, 5)),
    "argmax": (lambda x: torch.ones(int(x.argmax())), (2,)),
    "cat": (lambda x: torch.cat((x, x)).nonzero(), (6, 1)),
    "to the CPU": (lambda x: torch.ones(x.cpu().tolist()), (3, 0, 5, 3)),
    "arange": (lambda x: torch.ones(int(torch.arange(x[2].item(), device=x.device).sum())), (10,)),
    "tensor": (lambda x: torch.ones(torch.tensor([x[0], 2], device=x.device).tolist()), (3, 2)),
    "as_tensor": (lambda x: torch.ones(torch.as_tensor([[1, 2]], device=x.device)[0].tolist()), (1, 2)),
    "full_like": (lambda x: torch.ones(torch.full_like(x, 2).tolist()), (2, 2, 2, 2)),
    "zeros_like": (lambda x: torch.ones(torch.zeros_like(torch.rand(2, device=x.device)).int().tolist()), (0, 0)),
    "index by a list": (lambda x: torch.ones(x[[-1, 0]].tolist()), (3, 3)),
    "index by a list in a tuple": (lambda x: torch.ones(x[None, [2]][0].tolist()), (5,)),
    "index by bools": (lambda x: torch.ones(x[[True, False, True, False]].tolist()), (3, 5)),
    "index by an empty list": (lambda x: torch.ones(2 + len(x[[]].tolist())), (2,)),
    "index by a range": (lambda x: torch.ones(x[range(2, 4)].tolist()), (5, 3)),
    "index by an array": (lambda x: torch.ones(x[numpy.array([2])].tolist()), (5,)),
    "index by numbers of numpy": (lambda x: torch.ones(x[[numpy.int64(2)]].tolist()), (5,)),
    "index by a list of tensors": (lambda x: torch.ones(x[..., [x[1], torch.tensor(2)]].tolist()), (3, 5)),
    "index by nested lists": (lambda x: torch.ones(x[..., [[0], [2]]].flatten().tolist()), (3, 5)),
    "assignment to a list": (lambda x: torch.ones(assign(x, [1, 2], 4).tolist()), (3, 4, 4, 3)),
    "assignment of values": (lambda x: torch.ones(assign(x, [1], x[[2]]).tolist()), (3, 5, 5, 3)),
    "tensor of an array": (lambda x: torch.ones(torch.tensor(numpy.array([3, 2]), device=x.device).tolist()), (3, 2)),
    "a function without a device": (lambda x: torch.ones(int((x + torch.tensor(1))[0])), (4,)),
}


def assign(x, index, value):
    x = x.clone()
    x[index] = value
    return x


def count_down(x):
    steps = 0
    while x > 0:
        x, steps = x - 1, steps + 1
    return steps


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_known_decides_as_in_a_run(name):
    function, shape = KNOWN[name]
    assert size_of(function, IDS) == shape
    if "META" not in function.__code__.co_names:
        assert tuple(function(IDS).shape) == shape


WRITES = {
    "an element": (lambda x: set_item(x, 1, 7), [3, 7, 5, 3]),
    "a slice": (lambda x: set_item(x, slice(2), 7), [7, 7, 5, 3]),
    "a mask": (lambda x: set_item(x, x == 3, 7), [7, 0, 5, 7]),
    "a view": (lambda x: [x.view(2, 2)[1].zero_(), x][1], [3, 0, 0, 0]),
    "a transposed view": (lambda x: [x.view(2, 2).t()[1].add_(1), x][1], [3, 1, 5, 4]),
    "an alias": (lambda x: [x.detach().mul_(2), x][1], [6, 0, 10, 6]),
    "itself": (lambda x: [x[1:].copy_(x[:-1].clone()), x][1], [3, 3, 0, 5]),
    "scatter": (lambda x: x.scatter_(0, x.new_tensor([1]), 9), [3, 9, 5, 3]),
    "index_add": (lambda x: x.index_add_(0, x.new_tensor([1, 1]), x.new_tensor([4, 5])), [3, 9, 5, 3]),
    "out": (lambda x: [torch.add(x, 1, out=x), x][1], [4, 1, 6, 4]),
    "its own view": (lambda x: [x.view(2, 2).copy_(x.view(2, 2).t().clone()), x][1], [3, 5, 0, 3]),
    "itself, turned": (lambda x: [y := torch.stack((x, x)), y.copy_(y.flip(1)), y[0]][2], [3, 5, 0, 3]),
    "two tensors": (lambda x: [torch._foreach_add_([x, y := x.clone()], 1), x + y - y][1], [4, 1, 6, 4]),
    "a tensor with data": (lambda x: set_item(torch.zeros(4, dtype=x.dtype), slice(3), x[:3]), [3, 0, 5, 0]),
    "a new tensor": (lambda x: torch.empty(4, dtype=x.dtype, device=x.device).copy_(x), [3, 0, 5, 3]),
    "many times": (lambda x: [[x.add_(1) for _ in range(100)], x][1], [103, 100, 105, 103]),
    "a view made before": (lambda x: [y := x[2:], x.add_(1), torch.cat((x[:2], y))][2], [4, 1, 6, 4]),
}


def set_item(x, index, value):
    x[index] = value
    return x


@pytest.mark.parametrize("name", WRITES)
def test_in_place_operators_change_the_values_of_all_views(name):
    function, expected = WRITES[name]
    assert size_of(lambda x: torch.ones(function(x).tolist()), IDS) == tuple(expected)
    assert function(IDS.clone()).tolist() == expected


FORGETTING = {
    "an unknown value": lambda x, s: set_item(x, 1, s.long()[0]),
    "an unknown index": lambda x, s: set_item(x, s.long()[:1], 7),
    "an unknown view": lambda x, s: [x[2:].copy_(s.long()[2:]), x][1],
    "random numbers": lambda x, s: x.random_(5),
    "itself": lambda x, s: [y := s.long(), y.view(2, 2).copy_(y.view(2, 2).t()), y][2],
    "more elements": lambda x, s: x.resize_(2).resize_(4),
}


@pytest.mark.parametrize("name", FORGETTING)
def test_values_are_forgotten_when_something_unknown_is_written(name):
    taken = ["a number read from a tensor without data was assumed to be 1"]
    assert size_of(lambda x, s: torch.ones(FORGETTING[name](x, s).tolist()), IDS, (4,), assumes=taken) == (1, 1, 1, 1)


def test_floats_are_known_only_if_they_follow_from_known_values():
    assert size_of(lambda x: torch.ones(int((x.float() * 1.5).sum())), torch.tensor([2, 4])) == (9,)
    assert size_of(lambda x: torch.ones(int(torch.full((2,), 1.5, device=x.device).sum())), (1,)) == (3,)
    taken = ["a number read from a tensor without data was assumed to be 1"]
    assert size_of(lambda x: torch.ones(int(x.sum())), torch.tensor([2.0, 3.0]), assumes=taken) == (1,)
    model = Call(lambda self, x: torch.ones(int(self.scale)), scale=torch.nn.Parameter(torch.tensor(5.0)))
    assert [a.what for a in estimated(model, (1,)).assumptions] == taken
    model = Call(lambda self, x: torch.ones(int(self.scale)), scale=torch.tensor(5.0))  # a constant of the model
    assert estimated(model, (1,)).assumptions == []


def test_nothing_is_computed_unless_it_decides(monkeypatch):
    """A mask of a thousand by a thousand is never made."""
    made = []
    original = torch.UntypedStorage.cpu
    monkeypatch.setattr(torch.UntypedStorage, "cpu", lambda storage: made.append(storage) or original(storage))
    model = Call(lambda self, x: x * (self.rows[:, None] < self.rows), rows=torch.arange(1000))
    estimated(model, (1000, 1000))
    assert made == []
    estimated(Call(lambda self, x: x * int(self.rows[-1]), rows=torch.arange(1000)), (2,))
    assert len(made) == 1


LISTS = {
    "tensor": lambda numbers: torch.tensor(numbers),
    "as_tensor": lambda numbers: torch.as_tensor(numbers),
    "new_tensor": lambda numbers: torch.ones(1).new_tensor(numbers),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_of_numbers_may_hold_tensors_without_data(name):
    class Stacked(nn.Module):
        def forward(self, x):
            scales = LISTS[name]([x.mean(), x[0, 0], 2.0])
            return x * scales

    report = estimate(Stacked(), (4, 3))
    with ComputationalCostHook() as cch:
        Stacked()(torch.ones(4, 3))
    assert report.status == "complete"
    assert report.total_report["flops"] == cch.total_report["flops"]
    assert size_of(lambda x: torch.ones(torch.tensor([x[0], x[2]]).tolist()), torch.tensor([3, 0, 5])) == (3, 5)
    assert size_of(lambda x: torch.tensor([[x[0]], [x[1]]]), torch.tensor([3, 0, 5])) == (2, 1)


class Transcribed(nn.Module):
    """A CTC loss of padded or concatenated targets."""

    def __init__(self, is_flat):
        super().__init__()
        self.layer, self.is_flat = nn.Linear(4, 10), is_flat

    def forward(self, x, targets):
        is_target = targets > 0
        given = targets.masked_select(is_target) if self.is_flat else targets
        lengths = torch.full((x.shape[1],), x.shape[0])
        return functional.ctc_loss(self.layer(x).log_softmax(-1), given, lengths, is_target.sum(-1))


@pytest.mark.parametrize("is_flat", [True, False])
def test_the_states_of_ctc_follow_from_known_lengths(is_flat):
    model, inputs = Transcribed(is_flat), [torch.ones(20, 2, 4), torch.tensor([[1, 2, 3, 0, 0], [4, 5, 6, 7, 0]])]
    report = estimate(model, inputs, backward=True)
    with ComputationalCostHook() as cch:
        model(*inputs).backward()
    assert report.status == "complete"
    for operator in ("ctc_loss_backward", "div"):
        of_estimate, of_run = (each.by("op")[operator] for each in (report, cch.report))
        assert [of_estimate[name] for name in ("flops", "mread")] == [of_run[name] for name in ("flops", "mread")]
    assert report.total_report["mread"] == cch.total_report["mread"]


def test_nested_captures_see_the_same_values():
    with ComputationalCostHook() as outer:
        kept = torch.arange(8, device=META) < 3
        with ComputationalCostHook() as inner:
            torch.empty(8, 4, device=META)[kept] @ torch.empty(4, 5, device=META)
        report = estimate(Call(lambda self, x: x[self.mask] @ x.T, mask=torch.tensor([True, False])), (2, 4))
    assert inner.total_report["macs"] == 3 * 4 * 5
    assert report.total_report["macs"] == 1 * 4 * 2
    assert outer.total_report["macs"] == 3 * 4 * 5 + 1 * 4 * 2


def test_vectorized_masks_are_known():
    def mask(i, j):
        return i <= j

    def function(x):
        rows = torch.arange(4, device=x.device)
        allowed = torch.vmap(torch.vmap(mask, (None, 0)), (0, None))(rows, rows)
        return allowed.nonzero()

    assert size_of(function, (1,)) == (10, 2)
