"""Threads that captured code starts, and functions that it submits to pools: they are part of the capture.

PyTorch keeps modes, dispatch keys and the numbers of autograd by thread. A thread of a capture has a mode of its own, which
appends to the logs of the capture. The threads of a capture take turns, so that a capture sees one call after another:
whoever starts a thread waits until it ends, or until it waits for another thread itself.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial, wraps
from typing import Any

import torch

from ..meta.contents import without_capture
from .active import THREAD
from .dispatch_mode import CaptureMode
from .replacement import replace
from .session import Session

PATIENCE = 0.05
"""For how many seconds the thread whose turn it is may do nothing until it is taken to wait for another one."""

_POOLS = ("concurrent.futures.thread", "multiprocessing.pool")
"""The modules whose threads run functions that were submitted."""

_sequence_number = torch.autograd._get_sequence_nr
_MOST_NODES = 1024


class Turns:
    """Whose turn it is among the threads of a capture."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._owner: ThreadMode | None = None
        self._activity = 0
        self._n_running = 0
        """How many operators run in the thread whose turn it is."""
        self._sequence_number = 0

    def take(self, mode: ThreadMode) -> None:
        """Wait until it is the turn of a thread."""
        self._activity += 1
        if self._owner is mode:
            return
        with self._condition:
            self._wait(lambda: self._owner is None)
            self._owner = mode
            self._n_running = 0
        self._advance(mode)

    def give(self, mode: ThreadMode) -> None:
        """End the turn of a thread."""
        with self._condition:
            if self._owner is mode:
                self._sequence_number = _sequence_number()
                self._owner = None
            self._condition.notify_all()

    def wait_for(self, task: Task) -> None:
        """End the turn of this thread until another one has run a task, or waits."""
        if isinstance(mode := THREAD.mode, ThreadMode):
            self.give(mode)
        with self._condition:
            self._wait(lambda: task.is_done)

    def begin_call(self, mode: ThreadMode) -> None:
        """Note that an operator runs in a thread, whose turn this becomes."""
        self.take(mode)
        self._n_running += 1

    def end_call(self, mode: ThreadMode) -> None:
        """Note that an operator ended."""
        if self._owner is mode:
            self._n_running -= 1

    def _wait(self, holds: Callable[[], bool]) -> None:
        seen = self._activity
        while not holds():
            if not self._condition.wait(PATIENCE):
                if self._activity == seen and not self._n_running:
                    return
                seen = self._activity

    def _advance(self, mode: ThreadMode) -> None:
        """Let the numbers of autograd in this thread follow those of the others: they tell the modules of gradients."""
        locator = mode.recording.locator
        missing = max(self._sequence_number, locator.number) - _sequence_number()
        if missing <= 0:
            return
        with without_capture(), torch.inference_mode(False), torch.enable_grad():
            leaf = torch.zeros((), requires_grad=True)
            for start in range(0, missing, _MOST_NODES):
                torch._foreach_neg([leaf] * min(_MOST_NODES, missing - start))


class ThreadMode(CaptureMode):
    """The capture of one of several threads.

    Attributes:
        turns: whose turn it is.
    """

    turns: Turns

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator when it is the turn of this thread."""
        self.turns.begin_call(self)
        try:
            return super().__torch_dispatch__(func, types, args, kwargs)
        finally:
            self.turns.end_call(self)

    def stop(self) -> None:
        """Remove this mode from the mode stack; the values belong to the capture."""
        self.values = type(self.values)()
        super().stop()

    def take_turns(self, turns: Turns) -> None:
        """Show calls to the observers when it is the turn of this thread."""
        self.turns = turns
        observe = self.recording.observe

        def observe_in_turn(*call: Any) -> None:
            turns.take(self)
            observe(*call)

        self.observe = observe_in_turn


def turns_of(mode: CaptureMode) -> Turns:
    """Return the turns of a capture, which from now on has several threads."""
    if not isinstance(mode, ThreadMode):
        mode.__class__ = _FirstThread
        mode.take_turns(Turns())  # type: ignore[attr-defined]
    return mode.turns  # type: ignore[attr-defined, no-any-return]


class _FirstThread(ThreadMode):
    """The capture of the thread that starts the others."""

    def stop(self) -> None:
        """Remove this mode from the mode stack, and forget all values."""
        CaptureMode.stop(self)


class Task:
    """What a thread runs for a capture.

    Args:
        mode: the capture of the thread that starts or submits it.

    Attributes:
        is_done: whether it ended.
    """

    def __init__(self, mode: CaptureMode) -> None:
        self._turns = turns_of(mode)
        self._parent = mode
        self._running = [*mode.recording.modules.running]
        self._logs = mode.recording.logs_here()
        self.is_done = False

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run a function in the present thread, captured."""
        parent = self._parent
        if parent.is_over or THREAD.mode is not None or not self._logs:
            self._end()
            return function(*args, **kwargs)
        mode = self._made_mode()
        session = Session(mode, parent.has_composites)
        try:
            with ExitStack() as stack:
                session.join(stack)
                stack.callback(parent.recording.join, mode.recording)
                stack.callback(self._turns.take, mode)
                parent.thread_settings(stack)
                return function(*args, **kwargs)
        finally:
            self._turns.give(mode)
            self._end()

    def wait(self) -> None:
        """Let the task run first."""
        self._turns.wait_for(self)

    def _end(self) -> None:
        self.is_done = True
        with self._turns._condition:
            self._turns._condition.notify_all()

    def _made_mode(self) -> ThreadMode:
        parent = self._parent
        mode = ThreadMode(parent.has_replay, parent.is_estimate)
        mode.share(parent, self._logs, self._running)
        mode.take_turns(self._turns)
        return mode


def patch_threads(stack: ExitStack) -> None:
    """Capture the threads that captured code starts, and the functions that it submits to pools.

    Args:
        stack: undoes the patches.
    """
    start = threading.Thread.start

    @wraps(start)
    def start_captured(self: threading.Thread) -> None:
        task = None if getattr(self, "_target", None).__module__ in _POOLS else _task()
        if task is None:
            start(self)
            return
        run = self.run

        def run_captured() -> None:
            try:
                task.run(run)
            finally:
                vars(self).pop("run", None)

        self.run = run_captured  # type: ignore[method-assign]
        start(self)
        task.wait()

    replace(stack, threading.Thread, "start", start_captured)
    submit: Any = ThreadPoolExecutor.submit

    @wraps(submit)
    def submit_captured(self: ThreadPoolExecutor, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        task = _task()
        if task is None:
            return submit(self, function, *args, **kwargs)
        future = submit(self, partial(task.run, function), *args, **kwargs)
        task.wait()
        return future

    replace(stack, ThreadPoolExecutor, "submit", submit_captured)
    pools: Any = sys.modules.get("multiprocessing.pool")
    if pools is not None:
        for name in ("_map_async", "apply_async", "imap", "imap_unordered"):
            _patch_pool(stack, pools.ThreadPool, name)


def _patch_pool(stack: ExitStack, pool: type, name: str) -> None:
    original = getattr(pool, name)

    @wraps(original)
    def submit(self: Any, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if THREAD.mode is None:
            return original(self, function, *args, **kwargs)
        mode = THREAD.mode
        turns = turns_of(mode)

        def run(*given: Any, **named: Any) -> Any:
            return Task(mode).run(function, *given, **named)

        result = original(self, run, *args, **kwargs)
        if isinstance(mode, ThreadMode):
            turns.give(mode)
        return result

    replace(stack, pool, name, submit)


def _task() -> Task | None:
    mode = THREAD.mode
    return None if mode is None or mode.is_over or mode.paused.is_set else Task(mode)
