"""The module calls of one capture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from costcore.trace.call import ModuleCall

from ..tensors import nested_tensors, shape_of

_tracing_state = torch._C._get_tracing_state
_set_tracing_state = torch._C._set_tracing_state
_without_torch_function = torch._C.DisableTorchFunction


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

    def resume(self, number: int) -> None:
        """Note that a call that ended goes on: that of a generator, when its next value is read."""
        self._open.append(number)

    def set_outputs(self, number: int, outputs: Sequence[tuple[int, ...]]) -> None:
        """Set what a call returned."""
        module, parent, inputs, _ = self._calls[number - 1]
        self._calls[number - 1] = ModuleCall(module, parent, inputs, tuple(outputs))

    def rename(self, renamed: Callable[[str], str]) -> None:
        """Change the paths of the modules."""
        self._calls[:] = [each._replace(module=renamed(each.module)) for each in self._calls]

    def end(self, number: int) -> None:
        """Note that a call ended, possibly by an exception."""
        self._open.remove(number)


def shapes_of(values: Any) -> list[tuple[int, ...]]:
    """Return the shapes of all tensors in nested lists, tuples, dicts and dataclasses, in order.

    If ``torch.jit.trace`` is making a graph, reading sizes adds nothing to it.
    """
    state = _tracing_state()
    if state is not None:
        _set_tracing_state(None)
    try:
        with _without_torch_function():
            return [_shape(tensor) for tensor in nested_tensors(values)]
    finally:
        if state is not None:
            _set_tracing_state(state)


def _shape(tensor: Tensor) -> tuple[int, ...]:
    return shape_of(tensor) if tensor.is_nested else (*map(int, tensor.shape),)
