"""The location in the user's code at which a call was made."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from inspect import currentframe
from itertools import dropwhile
from pathlib import Path
from types import FrameType

_OWN = tuple(str(Path(__file__).parents[2] / package) + os.sep for package in ("costcore", "calculators", "frontends"))


def user_traceback(*frameworks: str) -> str:
    """Return the stack of the user's code as formatted text, the innermost frame last.

    Frames of this package are omitted, and those of the framework that the user's code called.

    Args:
        frameworks: names of the framework's top-level modules, ``"torch"``.
    """
    stack = [
        (
            frame.f_globals.get("__name__", "").partition(".")[0],
            traceback.FrameSummary(frame.f_code.co_filename, line, frame.f_code.co_name),
        )
        for frame, line in traceback.walk_stack(currentframe())
        if not frame.f_code.co_filename.startswith(_OWN)
    ]
    outside = [*dropwhile(lambda pair: pair[0] in frameworks, stack)] or stack
    return "".join(traceback.format_list([summary for _, summary in reversed(outside)]))


def user_line(*frameworks: str) -> str:
    """Return the innermost line of the user's code, ``model.py:12 in forward``; ``""`` if there is none.

    Args:
        frameworks: names of the framework's top-level modules, ``"torch"``, whose frames are omitted.
    """
    for frame, line in user_frames():
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] not in frameworks:
            return f"{Path(frame.f_code.co_filename).name}:{line} in {frame.f_code.co_name}"
    return ""


def user_frames() -> Iterator[tuple[FrameType, int]]:
    """Yield the frames outside of this package with their lines, the innermost first."""
    for frame, line in traceback.walk_stack(currentframe()):
        # the decorators of this package run inside contextlib, which no user writes
        if not frame.f_code.co_filename.startswith(_OWN) and frame.f_globals.get("__name__") != "contextlib":
            yield frame, line
