"""Delays Ctrl-C while contexts are entered or left, tracks captures by coroutine, and pauses garbage collection."""

from __future__ import annotations

import gc
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from itertools import count
from types import FrameType, TracebackType
from typing import ClassVar, Generic, TypeVar

Entered = TypeVar("Entered")


class HeldInterrupts:
    """Delays Ctrl-C until :meth:`release`; a second Ctrl-C takes effect at once, so that nothing can hang.

    It does nothing outside of the main thread, in which Python runs signal handlers; nor if the program has no Python
    handler for Ctrl-C; nor while another object delays it.
    """

    _keeper: ClassVar[HeldInterrupts | None] = None

    def __init__(self) -> None:
        self._handler: object = None
        self._is_pending = False

    def hold(self) -> None:
        """Delay interrupts from now on."""
        if HeldInterrupts._keeper is None and threading.current_thread() is threading.main_thread():
            handler = signal.getsignal(signal.SIGINT)
            if callable(handler):
                self._handler = handler
                HeldInterrupts._keeper = self
                signal.signal(signal.SIGINT, self._note)

    def release(self) -> None:
        """Restore the handler, and run it if an interrupt was delayed.

        Raises:
            KeyboardInterrupt: if one was delayed, and the program has no handler of its own.
        """
        handler, self._handler = self._handler, None
        if not callable(handler):
            return
        HeldInterrupts._keeper = None
        if signal.getsignal(signal.SIGINT) == self._note:
            signal.signal(signal.SIGINT, handler)
        if self._is_pending:
            self._is_pending = False
            handler(signal.SIGINT, None)  # not raised again: an event loop was woken by it already

    def _note(self, number: int, frame: FrameType | None) -> None:
        was_pending, self._is_pending = self._is_pending, True
        if was_pending and callable(self._handler):
            self._is_pending = False
            self._handler(number, frame)


class InterruptSafe(AbstractContextManager[Entered], Generic[Entered]):
    """A context with an enter and an exit that Ctrl-C does not interrupt: it is delayed until they end.

    Args:
        context: the context.
    """

    def __init__(self, context: AbstractContextManager[Entered]) -> None:
        self._context = context
        self._interrupts = HeldInterrupts()

    def __enter__(self) -> Entered:
        try:
            self._interrupts.hold()
            entered = self._context.__enter__()
        except BaseException:
            self._interrupts.release()
            raise
        try:
            self._interrupts.release()
            return entered
        except BaseException as error:  # Ctrl-C: no block will leave the context
            self.__exit__(type(error), error, error.__traceback__)
            raise

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        try:
            self._interrupts.hold()
        finally:
            try:
                handled = self._context.__exit__(error_type, error, traceback)
            finally:
                self._interrupts.release()
        return handled


# Captures that the running coroutine, or one that started it, has entered.
#
# Coroutines share a thread and run by turns. Each has a context, copied from the coroutine that started it.


_entered: ContextVar[tuple[int, ...]] = ContextVar("costcore_captures", default=())

_capture_numbers = count(1)


def enter() -> int:
    """Enter a capture, and return its number, which no other capture of the process has."""
    number = next(_capture_numbers)
    _entered.set((*_entered.get(), number))
    return number


def leave(number: int) -> None:
    """Leave a capture."""
    _entered.set(tuple([other for other in _entered.get() if other != number]))


def entered() -> tuple[int, ...]:
    """Return the numbers of the captures that the running coroutine is in; empty in a new thread."""
    return _entered.get()


# Pausing the garbage collector.


LEAST_FROZEN = 1000
"""The minimum number of objects for ``gc.freeze``. Python 3.12 itself freezes some hundreds when it starts."""


@contextmanager
def collector_off() -> Iterator[None]:
    """Disable the garbage collector while many long-lived objects are created, as its repeated scans would be slow.

    Modules that were imported meanwhile live as long as the process, so their objects are not scanned as young ones.
    """
    with InterruptSafe(_collector_off()):
        yield


@contextmanager
def _collector_off() -> Iterator[None]:
    was_on = gc.isenabled()
    n_modules = len(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        if len(sys.modules) > n_modules:
            move_to_oldest_generation()
        if was_on:
            gc.enable()


def move_to_oldest_generation() -> None:
    """Move all objects to the oldest generation without a scan: collections of younger ones leave them out."""
    # Objects that the user has frozen would be unfrozen too, so then nothing moves.
    if gc.get_freeze_count() < LEAST_FROZEN:
        gc.freeze()
        gc.unfreeze()
