"""The session of one thread: what its captures share while any of them is active."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import torch

from ..recording.spelling import Spellings, spellings
from . import autocast, patches
from .dispatch_keys import PRE_DISPATCH
from .dispatch_mode import CaptureMode
from .patches import THREAD


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
    """

    def __init__(self, mode: CaptureMode, has_composites: bool) -> None:
        self.mode = mode
        self._n_captures = self._n_spelled = 0
        self._spellings = spellings()
        self._lock = threading.Lock()
        self._thread = threading.get_ident()
        self._process, self._thread_state = ExitStack(), ExitStack()
        try:
            self._start(has_composites)
        except BaseException:
            self._thread_state.close()
            self._process.close()
            raise

    def _start(self, has_composites: bool) -> None:
        patches.acquire(has_composites)
        self._process.callback(patches.release)
        THREAD.mode = self.mode
        self._thread_state.callback(setattr, THREAD, "mode", None)
        if has_composites:
            was_included = torch._C._dispatch_tls_is_dispatch_key_included(PRE_DISPATCH)
            torch._C._dispatch_tls_set_dispatch_key_included(PRE_DISPATCH, True)
            self._thread_state.callback(torch._C._dispatch_tls_set_dispatch_key_included, PRE_DISPATCH, was_included)
            if autocast.is_any_enabled():
                autocast.register_kernels()
        self.mode.__enter__()
        self._thread_state.callback(self.mode.stop)
        self.mode.end_in_thread = self.restore

    def start_spelling(self) -> Spellings:
        """Follow which functions the code calls, for one more capture."""
        with self._lock:
            self._n_spelled += 1
            is_first = self._n_spelled == 1
        if is_first:
            patches.acquire_spelled()
            self.mode.spellings = self._spellings
            self._spellings.start()
        return self._spellings

    def stop_spelling(self) -> None:
        """Follow functions for one capture less; without effect on the mode stack in another thread."""
        with self._lock:
            self._n_spelled -= 1
            is_last = self._n_spelled == 0
        if is_last:
            self.mode.spellings = None
            self._spellings.is_over = True
            if threading.get_ident() == self._thread:
                self._spellings.remove()
            patches.release_spelled()

    def join(self) -> None:
        """Count one more capture."""
        with self._lock:
            self._n_captures += 1

    def leave(self) -> None:
        """Count one capture less; the last one undoes everything."""
        with self._lock:
            self._n_captures -= 1
            is_last = self._n_captures == 0
        if not is_last:
            return
        if threading.get_ident() == self._thread:
            self.restore()
        else:
            self.mode.end()
        self._process.close()

    def restore(self) -> None:
        """Restore the state of the thread that began the session, in that thread."""
        _THREAD.session = None
        self.mode.end_in_thread = None
        self._spellings.remove()
        self._thread_state.close()


class _Thread(threading.local):
    """The session of the running thread; None if it does not capture."""

    session: Session | None = None


_THREAD = _Thread()


def join_session(has_replay: bool, is_estimate: bool, has_composites: bool) -> Session:
    """Return the session of the running thread with one more capture; the first capture begins it.

    Args:
        has_replay: whether repeated calls on meta tensors skip their kernels.
        is_estimate: whether this is an estimate rather than a run.
        has_composites: whether composite operators are captured at the key ``PreDispatch``.
    """
    if _THREAD.session is not None and _THREAD.session.mode.is_over:
        _THREAD.session.restore()
    if _THREAD.session is None:
        _THREAD.session = Session(CaptureMode(has_replay, is_estimate), has_composites)
    _THREAD.session.join()
    return _THREAD.session
