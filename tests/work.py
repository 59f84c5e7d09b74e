"""Limits on work in function calls instead of seconds: the same on every machine under any load."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Work:
    """The work inside a ``with at_most(...)`` block."""

    def __init__(self) -> None:
        self.calls = 0
        """Number of function calls, of Python and C functions."""


@contextmanager
def at_most(calls: int) -> Iterator[Work]:
    """Fail as soon as the block has made more than ``calls`` calls of Python and C functions.

    An input that should be rejected, but would be processed for hours, fails after a moment.
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


class Lines:
    """The lines of Python that ran inside a ``with counted_lines()`` block."""

    def __init__(self) -> None:
        self.count = 0
        """Number of executed lines and of calls and returns of Python functions."""


@contextmanager
def counted_lines() -> Iterator[Lines]:
    """Count the lines of Python that a block executes; unlike calls, the steps of a loop are among them."""
    lines = Lines()

    def count(*_: object) -> Any:
        lines.count += 1
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        yield lines
    finally:
        sys.settrace(before)
