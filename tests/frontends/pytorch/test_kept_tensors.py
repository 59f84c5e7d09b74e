"""Code that remembers tensors outside of the model: every estimate is the first, runs find tensors with data."""

from __future__ import annotations

import gc
import importlib
import sys
from functools import lru_cache, wraps
from typing import ClassVar

import pytest
import torch
from torch import nn

from costcore import estimate

N = 4
TWICE = {}
ONES = None


@lru_cache
def twice(n):
    return torch.arange(n).float() * 2


@lru_cache(maxsize=2)
def twice_on(n, device):
    return torch.arange(n, device=device).float() * 2


def remembered(function):
    """The decorator of transformers: the cache is in a variable of the function that replaces the method."""
    cached = lru_cache(maxsize=4)(function)

    @wraps(function)
    def wrapper(*args):
        return cached(*args)

    return wrapper


def with_attribute(x):
    if not hasattr(with_attribute, "ones"):
        with_attribute.ones = torch.ones(N, device=x.device)
    return with_attribute.ones


def with_default(x, made={}):  # noqa: B006 - a mistake that people make, and a cache that others mean
    if N not in made:
        made[N] = torch.ones(N, device=x.device)
    return made[N]


class Function(nn.Module):
    def forward(self, x):
        return x + twice(N)


class FunctionOfDevice(nn.Module):
    def forward(self, x):
        return x + twice_on(N, x.device)


class Methods(nn.Module):
    @remembered
    def of_self(self, n):
        return {"a": [torch.ones(n)]}

    @staticmethod
    @lru_cache
    def of_class(n):
        return (torch.ones(n), n)

    def forward(self, x):
        return x + self.of_self(N)["a"][0] + self.of_class(N)[0]


class Dict(nn.Module):
    def forward(self, x):
        if N not in TWICE:
            TWICE[N] = (torch.arange(N, device=x.device).float() * 2, N)
        return x + TWICE[N][0]


class Global(nn.Module):
    def forward(self, x):
        global ONES
        if ONES is None:
            ONES = torch.ones(N, device=x.device)
        return x + ONES


class OfClass(nn.Module):
    def forward(self, x):
        if not hasattr(OfClass, "table"):
            OfClass.table = torch.ones(N, device=x.device)
        return x + OfClass.table


class FunctionAttribute(nn.Module):
    def forward(self, x):
        return x + with_attribute(x)


class DefaultArgument(nn.Module):
    def forward(self, x):
        return x + with_default(x)


CACHES = [Function, FunctionOfDevice, Methods]
OTHERS = [Dict, Global, OfClass, FunctionAttribute, DefaultArgument]


@pytest.fixture(autouse=True)
def nothing_is_remembered():
    global ONES
    twice.cache_clear(), twice_on.cache_clear(), Methods.of_class.cache_clear()
    TWICE.clear(), with_default.__defaults__[0].clear(), vars(with_attribute).clear()
    ONES = None
    if hasattr(OfClass, "table"):
        del OfClass.table


def calls(model, **options):
    return [call.native for call in estimate(model, (2, N), **options).trace.calls]


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("kind", CACHES + OTHERS)
def test_every_estimate_is_the_first_one_and_leaves_nothing_to_a_run(kind, backward):
    model = kind()
    wrapped = nn.Sequential(nn.Linear(N, N), model) if backward else model
    first = calls(wrapped, backward=backward)
    assert len(first) > 1  # the addition, and what is remembered
    assert calls(wrapped, backward=backward) == first
    x = torch.ones(2, N)
    for net in (model, kind()):
        assert net(x).device == x.device


@pytest.mark.parametrize("kind", CACHES)
def test_what_a_run_left_in_the_cache_of_a_function_is_counted_again(kind):
    first = calls(kind())
    kind()(torch.ones(2, N))
    assert calls(kind()) == first


@pytest.mark.parametrize(("kind", "name"), [(Dict, "TWICE"), (Global, "ONES"), (OfClass, "OfClass.table")])
def test_what_a_run_left_elsewhere_is_named(kind, name):
    kind()(torch.ones(2, N))
    report = estimate(kind(), (2, N))
    assert [call.native for call in report.trace.calls] == ["aten::add"]
    (note,) = report.notes
    assert f"{name} holds tensors from before this estimate" in note
    assert kind()(torch.ones(2, N)).device.type == "cpu"  # and it still does


def test_constants_of_the_users_stay():
    table = {N: torch.full((N,), 3.0)}

    class Net(nn.Module):
        def forward(self, x):
            return x + table[N]

    estimate(Net(), (2, N))
    assert table[N].tolist() == [3.0] * N


def test_what_a_hook_collects_stays_and_is_told():
    model, collected = nn.Sequential(nn.ReLU()), []
    model[0].register_forward_hook(lambda module, args, result: collected.append(result))
    report = estimate(model, (2, N))
    assert [x.shape for x in collected] == [(2, N)]
    assert "1 tensor ((2, 4)) of this estimate stays" in report.notes[-1]


def test_garbage_is_not_kept():
    class Circle:
        def __init__(self, x):
            self.x, self.itself = x, self

    class Collects(nn.Module):
        def forward(self, x):
            circle = Circle(x + 1)
            gc.collect()
            return circle.x * 2

    assert estimate(Collects(), (2, N)).notes == []


class Listed(nn.Module):
    """Its class lists its instances, and resets the state of all, as libraries of spiking networks do."""

    instances: ClassVar[list[nn.Module]] = []

    def __init__(self):
        super().__init__()
        self.instances.append(self)
        self.register_buffer("state", torch.ones(N))
        self.last = None

    def forward(self, x):
        for each in self.instances:
            each.state = torch.zeros_like(each.state)
            each.last = torch.zeros(N)
        return self.state + x


def test_modules_that_their_class_resets_stay_as_they_are():
    model = nn.Sequential(Listed(), Listed())
    assert estimate(model, (2, N)).notes == []
    assert [name for name, _ in model.named_buffers()] == ["0.state", "1.state"]
    assert all(each.state.tolist() == [1] * N and each.last is None for each in model)
    Listed.instances.clear()


WARP = """
import torch

grid = None


def set_grid(x):
    global grid
    grid = torch.arange(x.shape[-1], device=x.device).type_as(x)


def warp(x):
    if grid is None:
        set_grid(x)
    return x + grid
"""


class Warped(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(N, N)

    def forward(self, x):
        return sys.modules["warp_of_a_user"].warp(self.line(x))


def step(net, x):
    net(x).sum().backward()


@pytest.mark.parametrize("call", [lambda net: net, lambda net: lambda x: step(net, x)], ids=["model", "step"])
def test_globals_of_modules_that_the_model_calls_are_as_before(call, tmp_path, monkeypatch):
    (tmp_path / "warp_of_a_user.py").write_text(WARP)
    monkeypatch.syspath_prepend(tmp_path)
    warp = importlib.import_module("warp_of_a_user")
    net = Warped()
    try:
        for _ in range(2):
            report = estimate(call(net), (2, N))
            assert warp.grid is None
            assert "arange" in report.by("op")
            assert report.notes == []
        step(net, torch.ones(2, N))
    finally:
        del sys.modules["warp_of_a_user"]
