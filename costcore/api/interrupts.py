"""Ctrl-C while something is done that must not be left half done."""

from __future__ import annotations

import signal
import threading
from types import FrameType


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
