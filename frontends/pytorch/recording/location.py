"""Where in the model, and in which phase of a run, an operator runs."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor

from .module_stack import ModuleStack

_grad_enabled = torch.is_grad_enabled
_current_node = torch._C._current_autograd_node

_ENGINE = "_engine_run_backward"


class Locator:
    """Module and phase of what runs in one thread.

    A node of the backward pass has the number that autograd was at when the forward pass made it, and so tells the
    module that ran then.

    Args:
        number: the number that autograd is at.

    Attributes:
        modules: the modules that are running.
    """

    def __init__(self, number: int) -> None:
        self.modules = ModuleStack()
        self._number = number
        self._numbers: list[int] = []
        self._homes: list[str] = []
        self._step: CodeType | None = None
        """What makes the steps of optimizers, if one may be running."""

    def begin_step(self) -> None:
        """An optimizer makes a step, in the function that calls the one that tells it here."""
        self._step = sys._getframe(2).f_code

    def here(self, number: int, home_of: Callable[[Tensor], str]) -> tuple[str, str]:
        """Path of the module, and phase, of the operator that runs now.

        Args:
            number: the number that autograd is at.
            home_of: path of the module that first read a parameter.
        """
        node = _current_node()
        if node is None:
            module = self.modules.path
            phase = "forward" if self._step is None or not self._is_stepping() else "optimizer"
        else:
            phase = _phase()
            module = self.modules.path if phase == "recompute" else self._home(node, home_of)
        if number > self._number:
            self._number = number
            self._numbers.append(number)
            self._homes.append(module)
        return module, phase

    def _is_stepping(self) -> bool:
        """Whether this is part of a step of an optimizer; what runs with gradients or in a module meanwhile is not.

        A step ends when its function is no longer among those running: also by an exception, which nobody tells.
        """
        if _grad_enabled() or self.modules.is_running:
            return False
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and frame.f_code is not self._step:
            frame = frame.f_back
        if frame is None:
            self._step = None
        return frame is not None

    def _home(self, node: Any, home_of: Callable[[Tensor], str]) -> str:
        """Path of the module whose forward pass made a node of the backward pass."""
        variable = getattr(node, "variable", None)
        if isinstance(variable, Tensor):
            return home_of(variable)
        at = bisect_right(self._numbers, node._sequence_nr())
        return self._homes[at] if at < len(self._homes) else ""


def _phase() -> str:
    """``backward`` or ``recompute``, inside a node of the backward pass.

    A backward pass runs without grad mode, except with ``create_graph``; a recomputation turns it on, and runs a module
    or ``torch.utils.checkpoint`` below the engine.
    """
    if not _grad_enabled():
        return "backward"
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_name != _ENGINE:
        name = frame.f_code.co_filename
        if name.endswith("checkpoint.py") or frame.f_code.co_name == "_call_impl":
            return "recompute"
        frame = frame.f_back
    return "backward"
