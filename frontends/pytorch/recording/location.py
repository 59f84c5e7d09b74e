"""The location of an operator call: the module it belongs to, and the phase of the run."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Callable, Sequence
from types import CodeType, FrameType
from typing import Any
from weakref import ref

import torch
from torch import Tensor
from torch.nn import Module

from .call_log import CallLog
from .module_stack import ModuleStack, Rename

_grad_enabled = torch.is_grad_enabled
_current_node = torch._C._current_autograd_node
_current_graph = torch._C._current_graph_task_id
_NO_GRAPH = -1

_BACKWARD_FUNCTION = "_engine_run_backward"
"""The function of PyTorch that runs the backward pass."""


def _weakly(locator: Locator) -> Callable[[Rename], None]:
    """Return a function that renames the modules of what a locator located, which it does not keep alive."""
    located = ref(locator)

    def rename(renamed: Rename) -> None:
        found = located()
        if found is not None:
            found.rename(renamed)

    return rename


class Locator:
    """Finds module and phase of the operators that run in one thread.

    A node of the backward pass carries the sequence number that autograd had when the forward pass made it. The module
    that ran at that number is the module of the node.

    Args:
        logs: store which module read a parameter first.
        number: the present sequence number of autograd.

    Attributes:
        modules: the modules that are running.
        outside: the phase of what runs neither in a backward pass nor in a step of an optimizer.
    """

    def __init__(self, logs: Sequence[CallLog], number: int) -> None:
        self.modules = ModuleStack(_weakly(self))  # a circle would keep the model
        self.outside = "forward"
        self._logs = logs
        self._number = number
        self._numbers: list[int] = []
        """The sequence numbers at which a call was located, each once, ascending."""
        self._paths: list[str] = []
        """The paths of the modules that ran when autograd reached the numbers in ``_numbers``, in that order."""
        self._step: CodeType | None = None
        """The function that is a step of an optimizer, if one may be running."""
        self._step_depths = 0, 0
        """How far up the stack that function was when it was searched for last, and before: the operators of a step run
        at few depths, mostly at two."""

    def lead(self, other: Locator, running: Sequence[tuple[Module, str]]) -> None:
        """Let another locator go on in a thread that this one started while ``running`` ran."""
        other.follow(self.outside, self._numbers, self._paths)
        self.modules.lead(other.modules, running)

    def follow(self, outside: str, numbers: list[int], paths: list[str]) -> None:
        """Go on after these locations, which are shared with another thread."""
        self.outside, self._numbers, self._paths = outside, numbers, paths

    def catch_up(self) -> int:
        """Return the number that the last call of any thread was located at, from which this one goes on."""
        if self._numbers:
            self._number = max(self._number, self._numbers[-1])
        return self._number

    def rename(self, renamed: Rename) -> None:
        """Change the paths of the modules of all calls so far, also of those whose gradients follow."""
        self._paths[:] = map(renamed, self._paths)
        for log in self._logs:
            log.rename_modules(renamed)

    def begin_optimizer_step(self) -> None:
        """Note that an optimizer begins a step, in the function that calls the caller of this one."""
        self._step = sys._getframe(2).f_code

    def locate(self, number: int) -> tuple[str, str]:
        """Return module path and phase of the operator that is running.

        Args:
            number: the present sequence number of autograd.
        """
        node = _current_node()
        if node is None and _current_graph() == _NO_GRAPH:
            module = self.modules.path
            phase = self.outside if self._step is None or not self._is_in_optimizer_step() else "optimizer"
        elif node is None:  # a callback at the end of a backward pass
            module, phase = self.modules.path, "backward"
        else:
            phase = _backward_phase(self.modules.is_running)
            module = self._module_of_node(node) if phase == "backward" else self._recomputed_module()
        if number > self._number:
            self._number = number
            self._numbers.append(number)
            self._paths.append(module)
        return module, phase

    def _is_in_optimizer_step(self) -> bool:
        """Return whether this is part of an optimizer step, and not of a closure that the step calls.

        A closure runs with gradients or in a module. A step ends when its function is no longer on the stack, possibly
        by an exception, which no hook reports.
        """
        if _grad_enabled() or self.modules.is_running:
            return False
        first, second = self._step_depths
        try:
            if sys._getframe(first).f_code is self._step or sys._getframe(second).f_code is self._step:
                return True
        except ValueError:  # the stack is not that deep
            pass
        frame: FrameType | None = sys._getframe()
        depth = 0
        while frame is not None and frame.f_code is not self._step:
            frame, depth = frame.f_back, depth + 1
        if frame is None:
            self._step = None
        self._step_depths = depth, first
        return frame is not None

    def _recomputed_module(self) -> str:
        """Return the path of the module that is recomputed, of which perhaps only the ``forward`` method is called."""
        if self.modules.is_running:
            return self.modules.path
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and frame.f_code.co_name != _BACKWARD_FUNCTION:
            if frame.f_code.co_name == "forward":
                path = self.modules.path_of(frame.f_locals.get("self"))
                if path is not None:
                    return path
            frame = frame.f_back
        return self.modules.path

    def _module_of_node(self, node: Any) -> str:
        """Return the path of the module whose forward pass made a node of the backward pass."""
        parameter = getattr(node, "variable", None)
        if isinstance(parameter, Tensor):
            return self._logs[-1].module_of(parameter) if self._logs else ""
        at = bisect_right(self._numbers, node._sequence_nr())
        return self._paths[at] if at < len(self._paths) else ""


def _backward_phase(in_module: bool) -> str:
    """Return ``backward`` or ``recompute`` for an operator inside a node of the backward pass.

    A backward pass runs without grad mode, unless ``create_graph`` is set. A recomputation enables grad mode, except in
    functions with a backward pass of their own, and runs a module or ``torch.utils.checkpoint`` below the engine.

    Args:
        in_module: whether a module is running.
    """
    if not in_module and not _grad_enabled():
        return "backward"
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_name != _BACKWARD_FUNCTION:
        name = frame.f_code.co_filename
        if name.endswith("checkpoint.py") or frame.f_code.co_name == "_call_impl":
            return "recompute"
        frame = frame.f_back
    return "backward"
