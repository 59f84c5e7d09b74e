"""The module calls of one capture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from costcore.trace.call import ModuleCall

from ..tensors import nested_tensors, shape_of


class ModuleCalls:
    """The module calls of one capture, numbered from 1 in the order in which they began.

    Args:
        calls: receives the calls.
    """

    def __init__(self, calls: list[ModuleCall]) -> None:
        self._calls = calls
        self._open: list[int] = []

    @property
    def innermost(self) -> int:
        """The number of the call that is running; 0 if none is."""
        return self._open[-1] if self._open else 0

    def begin(self, module: str, inputs: Sequence[tuple[int, ...]]) -> int:
        """Add a call of the module at a path, and return its number."""
        self._calls.append(ModuleCall(module, self.innermost, tuple(inputs)))
        number = len(self._calls)
        self._open.append(number)
        return number

    def set_outputs(self, number: int, outputs: Sequence[tuple[int, ...]]) -> None:
        """Set what a call returned."""
        self._calls[number - 1] = self._calls[number - 1]._replace(outputs=tuple(outputs))

    def end(self, number: int) -> None:
        """Note that a call ended, possibly by an exception."""
        self._open.remove(number)


def shapes_of(values: Any) -> list[tuple[int, ...]]:
    """Return the shapes of all tensors in nested lists, tuples, dicts and dataclasses, in order."""
    with _untraced(), torch._C.DisableTorchFunction():
        return [_shape(tensor) for tensor in nested_tensors(values)]


def _shape(tensor: Tensor) -> tuple[int, ...]:
    return shape_of(tensor) if tensor.is_nested else tuple([int(size) for size in tensor.shape])


@contextmanager
def _untraced() -> Iterator[None]:
    """Read sizes inside the context without adding that to the graph which ``torch.jit.trace`` is making."""
    state = torch._C._get_tracing_state()
    if state is None:
        yield
        return
    torch._C._set_tracing_state(None)
    try:
        yield
    finally:
        torch._C._set_tracing_state(state)
