"""Threads that captured code starts, and functions that it submits to pools: they are part of the capture.

PyTorch keeps modes, dispatch keys and the numbers of autograd by thread. A thread of a capture has a mode of its own,
which appends to the logs of the capture. The threads take turns, so that a capture sees one call after another: whoever
starts a thread waits until that ends, or waits for another thread itself.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache, partial, wraps
from time import process_time
from typing import Any

import torch

from ..meta.values import without_capture
from .autocast import replace
from .dispatch_mode import THREAD, CaptureMode

PATIENCE, MAX_PATIENCE = 0.05, 2.0
"""For how many seconds the thread whose turn it is may do nothing until it is taken to wait for another one: in a
process that does nothing, and in one that is busy."""

POLL = 0.004

_BLOCKING = frozenset(("acquire", "get", "join", "put", "result", "select", "wait", "_wait_for_tstate_lock"))
"""The functions of :data:`_WAITING` that wait for other threads."""

_WAITING = ("threading", "queue", "concurrent.futures._base", "multiprocessing.pool", "selectors")

_sequence_number = torch.autograd._get_sequence_nr


class Turns:
    """The turns that the threads of a capture take.

    Attributes:
        tasks: what did not end yet.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._owner: ThreadMode | None = None
        self._thread = 0
        self._activity = 0
        self._n_running = 0
        """How many operators run in the thread whose turn it is."""
        self._sequence_number = 0
        self.tasks: list[Task] = []

    def take(self, mode: ThreadMode) -> None:
        """Wait until it is the turn of a thread; one that outlives the capture need not wait."""
        self._activity += 1
        if self._owner is mode or mode.is_over:
            return
        with self._condition:
            self._wait(lambda: self._owner is None, lambda: self._thread)
            self._owner, self._thread = mode, threading.get_ident()
            self._n_running = 0
        self._advance(mode)

    def give(self, mode: ThreadMode) -> None:
        """End the turn of a thread."""
        with self._condition:
            self._sequence_number = max(self._sequence_number, _sequence_number())
            if self._owner is mode:
                self._owner = None
            self._condition.notify_all()

    def wait_for(self, task: Task) -> None:
        """End the turn of this thread until another one has run a task, or waits."""
        mode = THREAD.mode
        if isinstance(mode, ThreadMode):
            self.give(mode)
        with self._condition:
            self._wait(lambda: task.is_done, lambda: task.thread)
        if isinstance(mode, ThreadMode):
            self.take(mode)

    def wake(self) -> None:
        """Let threads see that a task ended."""
        with self._condition:
            self._condition.notify_all()

    def begin_call(self, mode: ThreadMode) -> None:
        """Give a thread the turn, and note that an operator runs in it."""
        self.take(mode)
        self._n_running += 1

    def end_call(self, mode: ThreadMode) -> None:
        """Note that an operator ended."""
        if self._owner is mode:
            self._n_running -= 1

    def _wait(self, holds: Callable[[], bool], other: Callable[[], int]) -> None:
        # Idle is measured in CPU time of the process: busy other threads may keep this one from running.
        seen, cpu, waited, place = self._activity, process_time(), 0.0, None
        while not holds():
            if self._condition.wait(POLL):
                continue
            if self._activity != seen or self._n_running:
                seen, cpu, waited, place = self._activity, process_time(), 0.0, None
                continue
            before, place = place, _blocked_at(other())
            if place is not None and place == before:
                return
            waited += POLL
            is_idle = process_time() - cpu < waited / 2  # else other threads may keep this one from running
            if waited >= (PATIENCE if is_idle else MAX_PATIENCE):
                return

    def _advance(self, mode: ThreadMode) -> None:
        # Sequence numbers of autograd tell which module a gradient belongs to, and PyTorch counts them per thread.
        locator = mode.recording.locator
        missing = max(self._sequence_number, locator.catch_up()) - _sequence_number()
        if missing <= 0:
            return
        with without_capture(), torch.inference_mode(False), torch.enable_grad():
            make_node = torch.zeros((), requires_grad=True).view_as
            leaf = torch.zeros(())
            for _ in range(missing):
                make_node(leaf)


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
        self.stop_turns()

    def stop_turns(self) -> None:
        """Break the reference cycle: the modules of the model are reached from here."""
        self.turns.give(self)
        vars(self.recording.modules).pop("enter", None)
        self.find_call, self.observe = self.cache.find, self.recording.observe

    def take_turns(self, turns: Turns) -> None:
        """Call modules, and run and record composite operators when it is the turn of this thread."""
        self.turns = turns
        self.find_call: Callable[..., Any] = self._in_turn(self.cache.find)
        self.observe: Callable[..., None] = self._in_turn(self.recording.observe)
        modules: Any = self.recording.modules
        modules.enter = self._in_turn(modules.enter)

    def _in_turn(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def run_in_turn(*args: Any) -> Any:
            self.turns.take(self)
            return function(*args)

        return run_in_turn


def _blocked_at(thread: int) -> tuple[int, int] | None:
    # A thread that blocks at the same place twice waits for another one.
    frame = sys._current_frames().get(thread)
    if frame is None or frame.f_code.co_name not in _BLOCKING or frame.f_globals.get("__name__") not in _WAITING:
        return None
    return id(frame), frame.f_lasti


def turns_of(mode: CaptureMode) -> Turns:
    """Return the turns of a capture, which from now on has several threads."""
    if not isinstance(mode, ThreadMode):
        mode.__class__ = _FirstThread
        mode.take_turns(Turns())
    turns: Turns = mode.turns
    return turns


class _FirstThread(ThreadMode):
    def stop(self) -> None:
        """Remove this mode from the mode stack, and forget all values."""
        CaptureMode.stop(self)
        self.stop_turns()


class Task:
    """A function that a thread runs for a capture.

    Args:
        mode: the capture of the thread that starts or submits it.

    Attributes:
        is_done: whether it ended.
        thread: the number of the thread that runs it; 0 before.
    """

    is_done: bool
    thread: int

    def __init__(self, mode: CaptureMode) -> None:
        self._turns = turns_of(mode)
        self._parent = mode
        self._running = [*mode.recording.modules.running]
        self._logs = mode.recording.logs_here()
        self.is_done = False
        self.thread = 0
        self._turns.tasks.append(self)

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run a function in the present thread, captured."""
        parent, session = self._parent, self._parent.session
        self.thread = threading.get_ident()
        if session is None or parent.is_over or THREAD.mode is not None or not self._logs:
            self._end()
            return function(*args, **kwargs)
        recording = parent.recording.begin_thread(self._logs, self._running)
        mode = ThreadMode(parent.has_replay, parent.is_estimate)
        mode.share(parent, recording)
        mode.take_turns(self._turns)
        try:
            with ExitStack() as stack:
                session.begin_thread(mode, stack)
                stack.callback(parent.recording.end_thread, recording)
                stack.callback(self._turns.take, mode)
                parent.thread_settings(stack)
                if parent.is_estimate:  # threads of a run need not use PyTorch at all
                    self._turns.take(mode)
                return function(*args, **kwargs)
        finally:
            self._turns.give(mode)
            self._end()

    def wait(self) -> None:
        """Let the task run first."""
        self._turns.wait_for(self)

    def _end(self) -> None:
        self.is_done = True
        if self in self._turns.tasks:
            self._turns.tasks.remove(self)
        self._turns.wake()


def wait_for_threads(mode: CaptureMode) -> None:
    """Let the threads run that a capture started, until each has ended or waits for something."""
    if isinstance(mode, ThreadMode):
        for task in [*mode.turns.tasks]:
            task.wait()


def patch_threads(stack: ExitStack) -> None:
    """Capture the threads that captured code starts, and the functions that it submits to pools.

    Args:
        stack: undoes the patches.
    """
    for owner, name, function in _patched_functions("multiprocessing.pool" in sys.modules):
        replace(stack, owner, name, function)


@cache
def _patched_functions(has_pools: bool) -> Sequence[tuple[Any, str, Callable[..., Any]]]:
    start: Any = vars(threading.Thread)["start"]
    patched = {ThreadPoolExecutor.__module__}
    functions = [(ThreadPoolExecutor, "submit", _submitting(ThreadPoolExecutor.submit))]
    if has_pools:
        pool = sys.modules["multiprocessing.pool"].ThreadPool
        patched.add(pool.__module__)
        names = ("_map_async", "apply_async", "imap", "imap_unordered")
        functions += [(pool, name, _submitting(getattr(pool, name))) for name in names]

    @wraps(start)
    def start_captured(self: threading.Thread) -> None:
        of_pool = getattr(getattr(self, "_target", None), "__module__", "") in patched
        task = None if of_pool else _task()
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

    return (*functions, (threading.Thread, "start", start_captured))


def _submitting(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def submit(self: Any, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        task = _task()
        if task is None:
            return original(self, function, *args, **kwargs)
        result = original(self, partial(task.run, function), *args, **kwargs)
        task.wait()
        return result

    return submit


def _task() -> Task | None:
    mode = THREAD.mode
    return None if mode is None or mode.is_over or mode.paused.is_set else Task(mode)
