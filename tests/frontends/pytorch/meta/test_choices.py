"""Choices over unknown scores are balanced, and are noted where they decide something."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.frontends.pytorch.runs import estimated

BALANCED = "a choice over scores without data (topk, argmax, sort) was assumed to be spread evenly"
FINITE = "numbers without data were assumed to be finite"
KEPT = "a random permutation was assumed to keep the order"


class Call(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def values_of(function, shape, assumption=BALANCED):
    """Return the numbers that a function of unknown scores returns in an estimate."""
    found = []
    recorder = estimated(Call(lambda x: found.append(function(x).tolist())), shape)
    assert {a.what for a in recorder.assumptions} == {assumption}
    return found[0]


CHOICES = {
    # rows of 4 scores, two of each row: 0 1, then 2 3, then from the start
    "topk": (lambda x: x.topk(2).indices, (3, 4), [[0, 1], [2, 3], [0, 1]]),
    "topk of columns": (lambda x: x.topk(2, dim=0).indices, (4, 3), [[0, 2, 0], [1, 3, 1]]),
    "topk of batches": (lambda x: x.topk(1).indices, (2, 2, 3), [[[0], [1]], [[2], [0]]]),
    "argmax": (lambda x: x.argmax(-1), (5, 3), [0, 1, 2, 0, 1]),
    "argmax with its axis": (lambda x: x.argmax(0, keepdim=True), (3, 4), [[0, 1, 2, 0]]),
    "argmax of all": (lambda x: x.argmax(), (5, 3), 0),
    "argmin": (lambda x: x.argmin(-1), (2, 3), [0, 1]),
    "max": (lambda x: x.max(-1).indices, (4, 2), [0, 1, 0, 1]),
    "min": (lambda x: x.min(0, keepdim=True).indices, (4, 2), [[0, 1]]),
    "sort": (lambda x: x.sort(-1, descending=True).indices, (2, 3), [[0, 1, 2], [1, 2, 0]]),
    "argsort": (lambda x: x.argsort(-1), (2, 3), [[0, 1, 2], [1, 2, 0]]),
    "stable sort": (lambda x: x.sort(dim=-1, stable=True).indices, (1, 3), [[0, 1, 2]]),
    "multinomial": (lambda x: x.softmax(-1).multinomial(2), (2, 3), [[0, 1], [2, 0]]),
    "one_hot": (lambda x: nn.functional.one_hot(x.argmax(-1), 3), (3, 3), [[1, 0, 0], [0, 1, 0], [0, 0, 1]]),
    "counts": (lambda x: torch.bincount(x.topk(2).indices.flatten(), minlength=4), (3, 4), [2, 2, 1, 1]),
    "mask": (lambda x: torch.zeros_like(x).scatter(1, x.topk(1).indices, 1.0).bool(), (2, 2), [[1, 0], [0, 1]]),
}


@pytest.mark.parametrize("name", CHOICES)
def test_choices_are_balanced(name):
    function, shape, expected = CHOICES[name]
    assert values_of(function, shape) == expected


def test_numbers_are_finite():
    assert values_of(lambda x: torch.isnan(x).any(), (2,), FINITE) is False
    assert values_of(lambda x: torch.isinf(x), (2,), FINITE) == [False, False]
    assert values_of(lambda x: torch.isfinite(x), (2,), FINITE) == [True, True]
    assert values_of(lambda x: x != x, (2,), FINITE) == [False, False]


def test_counts_of_unknown_numbers_are_balanced():
    counts = []
    model = Call(lambda x: counts.append(torch.bincount(x.long(), minlength=4).tolist()))
    assumptions = [a.what for a in estimated(model, (6,)).assumptions]
    assert assumptions == [
        "all numbers without data were assumed to be smaller than the minlength of bincount",
        BALANCED,
    ]
    assert counts == [[2, 2, 1, 1]]


def test_counts_of_a_mask_agree_with_what_it_selects():
    everything = "a mask without data was assumed to select every element"
    assert values_of(lambda x: (x > 0).sum(1), (2, 3), everything) == [3, 3]
    assert values_of(lambda x: torch.count_nonzero(x > 0), (2, 3), everything) == 6

    def parts(x):
        return torch.cat([part.view(-1, 1) for part in x[x > 0].split((x > 0).sum(1).tolist())])

    assert {a.what for a in estimated(Call(parts), (2, 3)).assumptions} == {everything}


@pytest.mark.parametrize(
    "lengths",
    [
        lambda mask: mask.long().sum(1),
        lambda mask: mask.float().sum(1).long(),
        lambda mask: mask.int().cumsum(1)[:, -1],
        lambda mask: (mask.long() * torch.arange(mask.shape[1], device=mask.device)).amax(1) + 1,
        lambda mask: mask.shape[1] - mask.sum(1),
        lambda mask: torch.full_like(mask[:, 0], mask.shape[1], dtype=torch.long) - mask.long().sum(1),
    ],
    ids=["long", "float", "cumsum", "last", "complement", "complement of long"],
)
def test_lengths_by_an_unknown_mask_are_whole(lengths):
    everything = "a mask without data was assumed to select every element"
    assert values_of(lambda x: lengths(x > 0), (2, 3), everything) == [3, 3]


def test_both_sides_of_a_branch_on_the_count_of_a_mask_are_tried():
    for sign in (1, -1):
        recorder = estimated(Call(lambda x, sign=sign: x @ x if (x > 0).sum() * sign > 4 * sign else x), (3, 3))
        assert sum(call.layer.op == "matmul" for call in recorder.calls) == 1


def test_permutations_keep_the_order():
    state = torch.get_rng_state()
    assert values_of(lambda x: torch.randperm(3, device=x.device), (2,), KEPT) == [0, 1, 2]
    assert torch.equal(torch.get_rng_state(), state)


def test_assumptions_name_the_line_and_count():
    def function(x):
        for expert in range(3):
            rows = (x.argmax(-1) == expert).nonzero()
        return x[rows]

    (assumption,) = estimated(Call(function), (6, 3)).assumptions
    line = function.__code__.co_firstlineno + 2
    assert str(assumption) == f"{BALANCED} at test_choices.py:{line} in function (3 times)"
