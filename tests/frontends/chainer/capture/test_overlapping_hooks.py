"""Hooks that overlap: left in any order, in coroutines of one thread, and in another thread."""

from __future__ import annotations

import asyncio
import threading

import chainer

from costcore import CostError
from tests.frontends.chainer.capture.user_functions import counting, x

MACS = 4 * 6 * 6


def _state():
    """Return what a capture changes in a thread."""
    return dict(chainer.get_function_hooks()), dict(chainer._get_link_hooks()), dict(vars(chainer.config._local))


def _macs(*hooks):
    return [hook.total_report["macs"] for hook in hooks]


def test_hooks_left_in_the_order_they_were_entered_count_everything():
    net, first, second, before = chainer.links.Linear(6, 6), counting(), counting(), _state()
    first.__enter__()
    net(x(4, 6))
    second.__enter__()
    net(x(4, 6))
    first.__exit__(None, None, None)
    net(x(4, 6))
    second.__exit__(None, None, None)
    assert _macs(first, second) == [2 * MACS, 2 * MACS]
    assert _state() == before


def test_an_option_that_the_user_set_is_as_before():
    with chainer.using_config("use_static_graph", True):
        first, second = counting(), counting()
        first.__enter__()
        second.__enter__()
        assert chainer.config.use_static_graph is False
        first.__exit__(None, None, None)
        second.__exit__(None, None, None)
        assert chainer.config.use_static_graph is True


def test_coroutines_count_what_they_run_themselves():
    net = chainer.links.Linear(6, 6)

    async def run(times):
        with counting() as hook:
            for _ in range(times):
                chainer.functions.sum(net(x(4, 6))).backward()
                await asyncio.sleep(0)
        return hook

    async def run_both():
        with counting() as both:
            hooks = await asyncio.gather(run(1), run(2))
        return (*hooks, both)

    assert _macs(*asyncio.run(run_both())) == [2 * MACS, 4 * MACS, 6 * MACS]  # forward, and the gradient of the weight


def test_a_hook_that_is_left_in_another_thread():
    net, hook, before, failures = chainer.links.Linear(6, 6), counting(), _state(), []
    hook.__enter__()
    net(x(4, 6))

    def leave():
        try:
            hook.__exit__(None, None, None)
        except CostError as error:
            failures.append(str(error))

    thread = threading.Thread(target=leave)
    thread.start()
    thread.join()
    assert ["left in another thread" in failure for failure in failures] == [True]
    assert _state() == before
    net(x(4, 6))
    hook.__exit__(None, None, None)
    assert _state() == before
    assert _macs(hook) == [MACS]
