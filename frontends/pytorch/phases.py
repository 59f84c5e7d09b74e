"""Whether an operator that runs during a backward pass belongs to it, or runs a part of the forward pass again."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import torch

_ENGINE = "_engine_run_backward"


def phase_of(node: Any) -> str:
    """``backward`` or ``recompute``, inside a node of the backward pass.

    A backward pass runs without grad mode, except with ``create_graph``; a recomputation turns it on, and runs a module
    or ``torch.utils.checkpoint`` below the engine.
    """
    if not torch.is_grad_enabled():
        return "backward"
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_name != _ENGINE:
        name = frame.f_code.co_filename
        if name.endswith("checkpoint.py") or frame.f_code.co_name == "_call_impl":
            return "recompute"
        frame = frame.f_back
    return "backward"
