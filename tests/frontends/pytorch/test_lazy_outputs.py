"""Outputs that compute when they are read: iterators run, functions and coroutines are assumptions."""

from __future__ import annotations

from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from costcore import ComputationalCostHook, estimate
from costcore.errors import AssumedReportError

PRODUCT = 8 * 64 * 64
Pair = namedtuple("Pair", ["first", "rest"])


@dataclass
class Outputs:
    values: Any


class Base(nn.Module):
    def __init__(self, returns=None):
        super().__init__()
        self.l = nn.Linear(64, 64)
        self.returns = returns

    def forward(self, x):
        return self.returns(self, x)


class Yields(Base):
    def forward(self, x):
        for _ in range(3):
            yield self.l(x)


class Numbered:
    """An iterator of a class."""

    def __init__(self, function):
        self.function, self.n = function, 0

    def __iter__(self):
        return self

    def __next__(self):
        self.n += 1
        if self.n > 3:
            raise StopIteration
        return self.function()


class Stream:
    """It makes an iterator whenever it is read."""

    def __init__(self, function):
        self.function = function

    def __iter__(self):
        for _ in range(3):
            yield self.function()


def three(self, x):
    return (self.l(x) for _ in range(3))


RETURNS = {
    "a generator expression": three,
    "map": lambda self, x: map(self.l, [x] * 3),
    "filter": lambda self, x: filter(lambda y: len(self.l(y)), [x] * 3),
    "zip": lambda self, x: zip(map(self.l, [x] * 3), range(3), strict=True),
    "enumerate": lambda self, x: enumerate(three(self, x)),
    "a class": lambda self, x: Numbered(lambda: self.l(x)),
    "an iterable": lambda self, x: Stream(lambda: self.l(x)),
    "in a dict": lambda self, x: {"first": self.l(x), "rest": (self.l(x) for _ in range(2))},
    "in a list": lambda self, x: [self.l(x), [(self.l(x) for _ in range(2))]],
    "in a tuple": lambda self, x: (self.l(x), (self.l(x) for _ in range(2))),
    "in a named tuple": lambda self, x: Pair(self.l(x), (self.l(x) for _ in range(2))),
    "in a dataclass": lambda self, x: Outputs(three(self, x)),
    "in a namespace": lambda self, x: SimpleNamespace(values=three(self, x)),
    "in an iterator": lambda self, x: ((self.l(x) for _ in range(n)) for n in (1, 2)),
    "a future": lambda self, x: [ThreadPoolExecutor(1).submit(self.l, x) for _ in range(3)],
}


@pytest.mark.parametrize("name", RETURNS)
def test_iterators_run(name):
    report = estimate(Base(RETURNS[name]), (8, 64), strict=True)
    assert {module: row["macs"] for module, row in report.by("module").items()} == {"l": 3 * PRODUCT}


@pytest.mark.parametrize("name", ["a generator expression", "in a dict", "in a dataclass"])
def test_values_have_gradients(name):
    """The input needs none: one product for each value."""
    report = estimate(Base(RETURNS[name]), (8, 64), backward=True, strict=True)
    assert {phase: row["macs"] for phase, row in report.by("phase").items()} == {
        "forward": 3 * PRODUCT,
        "backward": 3 * PRODUCT,
    }


def test_a_loss_reads_the_iterator():
    report = estimate(Yields(), (8, 64), loss=lambda values: next(values).sum() + sum(y.sum() for y in values))
    assert report.by("phase")["backward"]["macs"] == 3 * PRODUCT


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps, self.head = Yields(), nn.Linear(64, 64)

    def forward(self, x):
        for y in self.steps(x):
            yield torch.relu(self.head(y))


class Consumes(Nested):
    def forward(self, x):
        return [torch.relu(self.head(y)) for y in self.steps(x)]


@pytest.mark.parametrize("kind", [Nested, Consumes])
@pytest.mark.parametrize("run", ["estimate", "hook"])
def test_calls_have_their_modules(kind, run):
    model = kind()
    if run == "estimate":
        report = estimate(model, (8, 64))
    else:
        x = torch.ones(8, 64)
        with ComputationalCostHook() as hook:
            assert len([*model(x)]) == 3
        report = hook.report
    calls = [(call.type, call.module) for call, *_ in report.trace]
    assert calls == [("linear", "steps.l"), ("linear", "head"), ("relu", "")] * 3
    assert report.trace.run.modules.keys() == {"", "steps", "steps.l", "head"}


def test_what_a_generator_is_sent_and_how_it_ends():
    class Echo(nn.Module):
        def forward(self, x):
            try:
                sent = yield x
                while True:
                    try:
                        sent = yield sent
                    except KeyError:
                        sent = "error"
            finally:
                self.closed = True

    model = Echo()
    with ComputationalCostHook():
        generator = model(1)
        assert [next(generator), generator.send(2), generator.send(3)] == [1, 2, 3]
        assert generator.throw(KeyError) == "error"
    assert generator.send(4) == 4
    generator.close()
    assert model.closed


class Endless(Base):
    def forward(self, x):
        while True:
            yield self.l(x)


def test_an_endless_iterator_is_cut():
    report = estimate(Endless(), (8, 64))
    assert report.total_report["macs"] == 2**16 * PRODUCT
    assert report.status == "assumed"
    assert [each.what for each in report.assumptions] == [
        "forward returned an iterator (generator) that seems endless: the first 65,536 values are counted"
    ]


class Coroutine(Base):
    async def forward(self, x):
        return self.l(x)


class AsyncGenerator(Base):
    async def forward(self, x):
        yield self.l(x)


NOT_RUN = {
    "the function <lambda>": Base(lambda self, x: lambda: self.l(x)),
    "the function Base.three": Base(lambda self, x: {"later": self.three}),
    "the coroutine Coroutine.forward": Coroutine(),
    "the asynchronous generator AsyncGenerator.forward": AsyncGenerator(),
}
Base.three = three


@pytest.mark.parametrize("what", NOT_RUN)
def test_what_is_not_run_is_named(what):
    report = estimate(NOT_RUN[what], (8, 64))
    assert report.status == "assumed"
    named = what.replace("Base.three", "three")
    assert [each.what for each in report.assumptions] == [
        f"forward returned {named}, which an estimate does not run: its cost is not counted"
    ]
    with pytest.raises(AssumedReportError, match="which an estimate does not run"):
        estimate(NOT_RUN[what], (8, 64), strict=True)
