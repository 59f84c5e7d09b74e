"""Which captures were entered by the running coroutine, or by one that started it.

Coroutines share a thread and run by turns. Each has a context, copied from the coroutine that started it.
"""

from __future__ import annotations

from contextvars import ContextVar
from itertools import count

_entered: ContextVar[tuple[int, ...]] = ContextVar("costcore_captures", default=())

_numbers = count(1)


def enter() -> int:
    """Enter a capture, and return its number, which no other capture of the process has."""
    number = next(_numbers)
    _entered.set((*_entered.get(), number))
    return number


def leave(number: int) -> None:
    """Leave a capture."""
    _entered.set(tuple([other for other in _entered.get() if other != number]))


def entered() -> tuple[int, ...]:
    """Return the numbers of the captures that the running coroutine is in; empty in a new thread."""
    return _entered.get()
