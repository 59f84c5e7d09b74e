"""What a capture costs, in lines of this package that run: the same on every machine under any load."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.nn import functional

import costcore
from tests.frontends.pytorch.runs import capturing

PACKAGE = str(Path(costcore.__file__).parents[1]) + os.sep


def lines_of(run: Callable[[], object], n_times: int = 1, below: str = PACKAGE) -> int:
    """Return how many lines of this package run in a capture of so many runs.

    Args:
        run: what is captured.
        n_times: how often it runs.
        below: start of the paths of the files whose lines are counted.
    """
    n_lines = 0

    def count(frame: FrameType, event: str, _: object) -> Any:
        nonlocal n_lines
        if not frame.f_code.co_filename.startswith(below) or frame.f_code.co_filename == __file__:
            return None
        n_lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        with capturing():
            for _ in range(n_times):
                run()
    finally:
        sys.settrace(before)
    return n_lines


def lines_each(run: Callable[[], object], below: str = PACKAGE) -> float:
    """Return how many lines each repetition of a run takes, all of whose calls were seen before."""
    lines_of(run)
    return (lines_of(run, 12, below) - lines_of(run, 2, below)) / 10


def test_an_operator():
    x, y = torch.ones(4), torch.ones(4)
    with torch.no_grad():
        assert lines_each(lambda: x.mul_(y)) <= 141  # how many differs by some between Pythons


def test_a_composite_operator():
    x, w, b = torch.ones(2, 4), torch.ones(4, 4), torch.ones(4)
    with torch.no_grad():
        assert lines_each(lambda: functional.linear(x, w, b)) <= 146


def test_a_module():
    def net(n_layers: int) -> nn.Module:
        return nn.Sequential(*[nn.BatchNorm1d(2) for _ in range(n_layers)]).eval()

    x, small, large = torch.ones(1, 2, 4), net(10), net(20)
    lines_of(lambda: small(x))
    each = (lines_of(lambda: large(x)) - lines_of(lambda: small(x))) / 10
    assert each <= 565  # 26 of them look for shards, once a capture, if any test used fully_shard before


def test_no_class_is_changed_for_the_calls_of_modules():
    """Python updates all subclasses, some hundreds, of a class whose ``__call__`` is assigned."""
    function = nn.Module.__call__
    with capturing():
        assert nn.Module.__call__ is function


def test_calls_of_modules_that_another_tool_replaced(monkeypatch):
    original, called = nn.Module.__call__, []

    def replaced(self: nn.Module, *args: object) -> object:
        called.append(type(self))
        return original(self, *args)

    monkeypatch.setattr(nn.Module, "__call__", replaced)
    net, x = nn.Sequential(nn.Linear(2, 3)), torch.ones(1, 2)
    with capturing() as recorder:
        net(x)
    assert nn.Module.__call__ is replaced
    assert called == [nn.Sequential, nn.Linear]
    assert [(call.native, call.module) for call in recorder.calls] == [("aten::linear", "0")]
    net(x)
    assert len(called) == 4
