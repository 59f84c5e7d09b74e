"""The Python stack, which shows what is running even after an exception."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import FrameType

import chainer
from chainer import FunctionNode, _backprop, function_node

BACKWARD_LOOPS = (_backprop._backprop_to_all.__code__, function_node._backprop.__code__)
"""The two loops of Chainer that run a backward pass: of ``backward`` and of ``grad``."""


def frames() -> Iterator[FrameType]:
    """Iterate over the frames of the stack, innermost first."""
    frame = inspect.currentframe()
    while frame is not None:
        yield frame
        frame = frame.f_back


def running_function_requires_gradient() -> bool:
    """Return whether a backward pass can follow the function that runs forward now."""
    if not chainer.config.enable_backprop:
        return False
    running = next((frame for frame in frames() if frame.f_code is FunctionNode.apply.__code__), None)
    return running is not None and any(variable.requires_grad for variable in running.f_locals["input_vars"])


def current_phase() -> str:
    """Return the running phase: ``forward``, ``backward``, or ``recompute``, a forward pass repeated in backward."""
    if chainer.config.in_recomputing:
        return "recompute"
    return "backward" if any(frame.f_code in BACKWARD_LOOPS for frame in frames()) else "forward"
