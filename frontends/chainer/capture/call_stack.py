"""The Python stack: the one place that tells what is running now, whatever ended by an exception."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import FrameType

import chainer
from chainer import _backprop, function_node

BACKWARD = (_backprop._backprop_to_all.__code__, function_node._backprop.__code__)
"""The two loops that run backward: of ``backward`` and of ``grad``."""


def frames() -> Iterator[FrameType]:
    """The frames of the stack, innermost first."""
    frame = inspect.currentframe()
    while frame is not None:
        yield frame
        frame = frame.f_back


def caller() -> FrameType:
    """The frame of Chainer that called the hook which asks."""
    return next(frame for frame in frames() if not frame.f_globals.get("__name__", "").startswith(__package__))


def phase() -> str:
    """What is running: ``forward``, ``backward``, or a part of the forward pass for the second time, ``recompute``."""
    if chainer.config.in_recomputing:
        return "recompute"
    return "backward" if any(frame.f_code in BACKWARD for frame in frames()) else "forward"
