"""The session of one thread: what its captures share while any of them is active."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING

import torch
from torch.nn import Module

from . import autocast, patches
from .dispatch_keys import PRE_DISPATCH
from .dispatch_mode import THREAD, CaptureMode

if TYPE_CHECKING:
    from ..recording.spelling import Spellings


class Session:
    """Makes a thread record what it runs, from its first capture to its last one.

    Captures may end in any order, and in another thread. PyTorch keeps the mode stack and the dispatch keys of a thread
    where no other thread reaches them. If the last capture ends in another thread, the mode therefore stays on the
    stack of this one, without effect, until this thread runs a composite operator or captures again. The mode that
    follows functions stays until this thread captures again: PyTorch takes it from its stack while a function runs, and
    puts it there again.

    Args:
        mode: the mode that sees the operators.
        has_composites: whether composite operators are captured at the key ``PreDispatch``.

    Attributes:
        threads: the sessions of the threads that this one started, with the captures that end with those of this one.
        unseen_threads: the other threads that ran modules without a capture; in an estimate, modules of its model.
    """

    def __init__(self, mode: CaptureMode, has_composites: bool) -> None:
        self.mode = mode
        mode.session = self
        self.has_composites = has_composites
        self.threads: dict[Session, object] = {}
        self.unseen_threads: set[int] = set()
        self._captures: set[object] = set()
        self._spelled: set[object] = set()
        self._spellings: Spellings | None = None
        self._lock = threading.Lock()
        self._thread = threading.get_ident()
        self._process, self._thread_state = ExitStack(), ExitStack()

    def join(self, stack: ExitStack) -> object:
        """Count one more capture, until ``stack`` is closed; the first one begins the session.

        The capture that is returned can also be ended by :meth:`leave`.

        How to undo a step is known before it is taken: a failure or an interrupt anywhere leaves nothing behind.
        """
        capture = object()
        stack.callback(self.leave, capture)
        with self._lock:
            is_first = not self._captures
            self._captures.add(capture)
        if is_first:
            self._start()
        return capture

    def _start(self) -> None:
        self._process.callback(patches.release, self)
        patches.acquire(self, self.has_composites)
        self._thread_state.callback(setattr, THREAD, "mode", None)
        THREAD.mode = self.mode
        if self.has_composites:
            was_included = torch._C._dispatch_tls_is_dispatch_key_included(PRE_DISPATCH)
            self._thread_state.callback(torch._C._dispatch_tls_set_dispatch_key_included, PRE_DISPATCH, was_included)
            torch._C._dispatch_tls_set_dispatch_key_included(PRE_DISPATCH, True)
            if autocast.is_any_enabled():
                autocast.register_kernels(patches.active_casts)
        self._thread_state.callback(self._stop_mode)
        self.mode.__enter__()
        self.mode.end_in_thread = self.restore
        _THREAD.session = self

    @property
    def is_estimate(self) -> bool:
        """Whether this is an estimate rather than a run."""
        return self.mode.is_estimate

    def begin_thread(self, mode: CaptureMode, stack: ExitStack) -> None:
        """Capture in the present thread, which this one started, until ``stack`` is closed or this session ends.

        Args:
            mode: the mode that sees the operators of the present thread.
            stack: ends the capture.
        """
        started = Session(mode, self.has_composites)
        self.threads[started] = started.join(stack)
        stack.callback(self.threads.pop, started, None)

    def note_unseen(self, module: Module) -> None:
        """Note that a thread without a capture runs a module."""
        if not self.mode.is_estimate or self.mode.recording.modules.knows(module):
            self.unseen_threads.add(threading.get_ident())

    def follow_spelling(self, stack: ExitStack) -> Spellings:
        """Follow which functions the code calls, for one more capture, until ``stack`` is closed."""
        from ..recording.spelling import spellings

        capture = object()
        stack.callback(self._stop_spelling, capture)
        with self._lock:
            is_first = not self._spelled
            self._spelled.add(capture)
        followed = self._spellings = spellings()
        if is_first:
            patches.acquire_spelled(self)
            self.mode.spellings = followed
            followed.start()
        return followed

    def _stop_spelling(self, capture: object) -> None:
        """Follow functions for one capture less; without effect on the mode stack in another thread."""
        with self._lock:
            self._spelled.discard(capture)
            is_last = not self._spelled
        if not is_last:
            return
        self.mode.spellings = None
        with ExitStack() as stack:
            stack.callback(patches.release_spelled, self)
            if self._spellings is not None:
                self._spellings.is_over, self._spellings.index = True, None
                if threading.get_ident() == self._thread:
                    self._spellings.remove()

    def leave(self, capture: object) -> None:
        """Count one capture less; the last one undoes everything."""
        with self._lock:
            self._captures.discard(capture)
            is_last = not self._captures
        if not is_last:
            return
        for session, started in [*self.threads.items()]:
            session.leave(started)
        with self._process:
            if threading.get_ident() == self._thread:
                self.restore()
            else:
                self.mode.end()

    def _stop_mode(self) -> None:
        """Stop the mode, whose class may be another one since it started; see :mod:`.threads`."""
        self.mode.stop()

    def restore(self) -> None:
        """Restore the state of the thread that began the session, in that thread."""
        _THREAD.session = None
        self.mode.end_in_thread = self.mode.session = None
        with self._thread_state:
            if self._spellings is not None:
                self._spellings.remove()


class _Thread(threading.local):
    """The session of the running thread; None if it does not capture."""

    session: Session | None = None


_THREAD = _Thread()


def join_session(stack: ExitStack, has_replay: bool, is_estimate: bool, has_composites: bool) -> Session:
    """Return the session of the running thread with one more capture; the first capture begins it.

    Args:
        stack: ends the capture.
        has_replay: whether repeated calls on meta tensors skip their kernels.
        is_estimate: whether this is an estimate rather than a run.
        has_composites: whether composite operators are captured at the key ``PreDispatch``.
    """
    if _THREAD.session is not None and _THREAD.session.mode.is_over:
        _THREAD.session.restore()
    session = _THREAD.session
    if session is None:
        session = Session(CaptureMode(has_replay, is_estimate), has_composites)
    session.join(stack)
    return session
