"""Work counted instead of timed: the same on every machine, however busy it is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Work:
    """What was done within a ``with at_most(...)``."""

    def __init__(self) -> None:
        self.calls = 0
        """Functions that were called, Python's and C's."""


@contextmanager
def at_most(calls: int) -> Iterator[Work]:
    """Fails as soon as more functions than ``calls`` are called within, Python's and C's counted alike.

    What ought to be refused but is worked through for hours is so stopped after a moment.
    """
    work = Work()

    def count(frame: FrameType, event: str, _: object) -> None:
        if event in ("call", "c_call"):
            work.calls += 1
            if work.calls > calls:
                raise AssertionError(f"more than {calls} functions were called, the last in {frame.f_code.co_name}")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield work
    finally:
        sys.setprofile(before)
