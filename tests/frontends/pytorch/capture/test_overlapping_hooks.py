"""Hooks that overlap: left in any order, in coroutines of one thread, and in another thread."""

from __future__ import annotations

import asyncio
import threading

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from costcore import ComputationalCostHook, CostError
from tests.frontends.pytorch.runs import state_of_torch
from tests.frontends.pytorch.unchanged import unchanged

NET, X = nn.Linear(6, 6), torch.ones(4, 6)
MACS = 4 * 6 * 6


def hook():
    return ComputationalCostHook(frontends=["pytorch"])


def macs(cch):
    return cch.total_report["macs"]


def test_hooks_left_in_the_order_they_were_entered_count_everything():
    first, second, third = hook(), hook(), hook()
    with unchanged(NET):
        first.__enter__()
        NET(X)
        second.__enter__()
        NET(X)
        first.__exit__(None, None, None)
        NET(X)
        third.__enter__()
        NET(X)
        second.__exit__(None, None, None)
        NET(X).sum().backward()
        third.__exit__(None, None, None)
        NET.zero_grad()
    NET(X)
    assert (macs(first), macs(second)) == (2 * MACS, 3 * MACS)
    assert macs(third) == 2 * MACS + MACS  # two forward passes, one gradient: the input needs none
    assert {cch.report.status for cch in (first, second, third)} == {"complete"}


def test_other_modes_between_overlapping_hooks_stay():
    first, second = hook(), hook()
    with unchanged(NET):
        first.__enter__()
        with FlopCounterMode(display=False) as other:
            second.__enter__()
            first.__exit__(None, None, None)
            NET(X)
        second.__exit__(None, None, None)
    assert macs(second) == MACS and other.get_total_flops() == 2 * MACS


async def _run(times, found, name):
    with hook() as cch:
        for _ in range(times):
            NET(X)
            await asyncio.sleep(0)
    found[name] = macs(cch)


def test_coroutines_count_what_they_run_themselves():
    found = {}

    async def run():
        with hook() as cch:
            await asyncio.gather(_run(1, found, "one"), _run(3, found, "three"))
            NET(X)
        found["both"] = macs(cch)

    with unchanged(NET):
        asyncio.run(run())
        with hook() as around:
            asyncio.run(run())
    assert found == {"one": MACS, "three": 3 * MACS, "both": 5 * MACS}
    assert macs(around) == 5 * MACS


def _in_a_thread(function):
    def run():
        try:
            function()
        except Exception as error:
            failures.append(error)

    failures = []
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return failures


@pytest.mark.parametrize("then", ["run", "leave", "enter"])
def test_a_hook_that_is_left_in_another_thread(then):
    cch, before = hook(), state_of_torch()
    cch.__enter__()
    NET(X)
    (failure,) = _in_a_thread(lambda: cch.__exit__(None, None, None))
    assert isinstance(failure, CostError) and "left in another thread" in str(failure)
    assert torch.equal(X.relu(), X)  # an operator that is not composite
    if then == "run":
        assert torch.equal(NET(X), torch.nn.functional.linear(X, NET.weight, NET.bias))
    elif then == "leave":
        cch.__exit__(None, None, None)
    else:
        with hook() as other:
            NET(X)
        assert macs(other) == MACS
    assert state_of_torch() == before
    assert macs(cch) == MACS
    with cch:
        NET(X)
    assert macs(cch) == MACS
    assert state_of_torch() == before
