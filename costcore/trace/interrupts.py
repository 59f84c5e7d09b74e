"""Ctrl-C while something is done that must not be left half done."""

from __future__ import annotations

import signal
import threading
from contextlib import AbstractContextManager
from types import FrameType, TracebackType
from typing import Generic, TypeVar

Entered = TypeVar("Entered")


class HeldInterrupts:
    """Keeps an interrupt by Ctrl-C until :meth:`release`; a second one is not kept, so that nothing can hang.

    Python runs handlers of signals in the main thread alone: in other threads this does nothing. It does nothing either
    if the program left Ctrl-C to the operating system.
    """

    def __init__(self) -> None:
        self._handler: object = None
        self._is_pending = False

    def hold(self) -> None:
        """Keep interrupts from now on."""
        if threading.current_thread() is threading.main_thread():
            handler = signal.getsignal(signal.SIGINT)
            if callable(handler) and handler != self._note:
                self._handler = handler
                signal.signal(signal.SIGINT, self._note)

    def release(self) -> None:
        """Handle interrupts as before, first the one that was kept.

        Raises:
            KeyboardInterrupt: if one was kept, and the program has no handler of its own.
        """
        handler, self._handler = self._handler, None
        if not callable(handler):
            return
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


class WholeEnds(AbstractContextManager[Entered], Generic[Entered]):
    """A context that Ctrl-C neither enters nor leaves half: it is kept meanwhile, and raised before or after.

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
        except BaseException as error:  # Ctrl-C meanwhile: there is no block whose end would leave the context
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
