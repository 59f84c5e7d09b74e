"""A failure anywhere while a capture starts, runs or ends leaves PyTorch as it was."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from inspect import CO_GENERATOR
from itertools import islice
from pathlib import Path
from traceback import walk_stack
from typing import Any

import pytest
import torch
import torch._dynamo  # whose stance a capture changes
from torch import nn
from torch._ops import HigherOrderOperator
from torch.nested._internal.nested_tensor import NestedTensor
from torch.nn import functional

import costcore
from tests.frontends.pytorch.runs import capturing, record, state_of_torch, types

X = torch.ones(2, 4)
NET = nn.Sequential(nn.Linear(4, 5), nn.ReLU())
OWNERS = (
    *(torch, torch.Tensor, torch.overrides, torch._C._nn, torch._VF, torch.amp.autocast_mode.autocast),
    *(nn.Module, functional, HigherOrderOperator, NestedTensor),
)
OURS = str(Path(costcore.__file__).parents[1] / "frontends" / "pytorch")
SETTINGS = [{}, {"record_api_calls": True}, {"memory": True}, {"has_composites": False}]
Place = tuple[str, int, str]
"""A line of the frontend, and whether it is about to run or its function about to return: file, number, event."""


class Fault(BaseException):
    """What goes wrong; no code expects it, as it does not expect Ctrl-C."""


def places(run: Callable[[], object], event: str) -> list[Place]:
    """Return the places of the frontend that a run comes past."""
    found: dict[Place, None] = {}
    _trace(run, event, lambda place: found.update({place: None}))
    assert found
    return list(found)


def new(found: list[Place], phase: str, tried: set[tuple[str, Place]]) -> list[Place]:
    untried = [place for place in found if (phase, place) not in tried]
    tried.update((phase, place) for place in untried)
    return untried


def fail_at(place: Place, run: Callable[[], object]) -> None:
    """Run something in which this place fails."""

    def check(here: Place) -> None:
        if here == place:
            raise Fault

    with pytest.raises(Fault):
        _trace(run, place[2], check)


def _trace(run: Callable[[], object], wanted: str, visit: Callable[[Place], None]) -> None:
    def trace(frame: Any, event: str, _: object) -> Any:
        is_suspended = event == "return" and frame.f_code.co_flags & CO_GENERATOR
        if not frame.f_code.co_filename.startswith(OURS) or is_suspended:
            return None
        if event == wanted and not _is_of_the_garbage_collector(frame):
            visit((frame.f_code.co_filename, frame.f_lineno, event))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)


def _is_of_the_garbage_collector(frame: Any) -> bool:
    """Return whether a tensor is being freed: Python prints what fails then, and goes on."""
    return any(at.f_code.co_name == "_freed" for at, _ in islice(walk_stack(frame), 3))


def state() -> list[Any]:
    call: Any = nn.Module.__call__
    compiler = [getattr(torch._dynamo.eval_frame, name, None) for name in ("_stance", "set_eval_frame")]
    return [compiler, state_of_torch(), call.__code__, call.__kwdefaults__, *(dict(vars(owner)) for owner in OWNERS)]


def made(settings: dict[str, Any]) -> Any:
    return capturing(**settings)


def started(settings: dict[str, Any]) -> Any:
    context = made(settings)
    context.__enter__()
    return context


def end(context: Any) -> None:
    context.__exit__(None, None, None)


def train() -> None:
    NET.zero_grad()
    NET(X).sum().backward()


@pytest.fixture(scope="module")
def tried() -> set[tuple[str, Place]]:
    """Where a capture failed while it started, ran or ended, with any settings: once is enough."""
    return set()


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    for settings in SETTINGS:  # registers kernels and fills caches, which stay
        context = started(settings)
        train()
        end(context)
    before = state()
    yield
    assert state() == before
    assert types(record(lambda: NET(X))) == ["linear", "relu"]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_while_it_starts(settings, tried):
    before, context = state(), []
    steps = places(lambda: context.append(started(settings)), "line")
    end(context.pop())
    for place in new(steps, "starts", tried):
        fail_at(place, lambda: started(settings))
        assert state() == before, place


def test_while_one_starts_inside_another():
    """The outer one goes on, and sees everything."""
    with capturing() as recorder:
        context = []
        end(started({"record_api_calls": True}))
        steps = places(lambda: context.append(started({"record_api_calls": True})), "line")
        end(context.pop())
        before = state()
        for place in steps:
            fail_at(place, lambda: started({"record_api_calls": True}))
            assert state() == before, place
        NET(X)
    assert types(recorder) == ["linear", "relu"]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_while_it_runs(settings, tried):
    def run() -> None:
        with made(settings):
            train()

    before, expected = state(), types(record(train))
    for place in new(places(run, "return"), "runs", tried):
        fail_at(place, run)
        assert state() == before, place
    assert types(record(train)) == expected


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_while_it_ends(settings, tried):
    before, context = state(), started(settings)
    for place in new(places(lambda: end(context), "return"), "ends", tried):
        another = started(settings)
        fail_at(place, partial(end, another))
        assert state() == before, place
