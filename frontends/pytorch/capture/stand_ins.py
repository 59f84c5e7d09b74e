"""What a CPU runs where PyTorch decomposes a composite operator on the meta device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from ..meta import gru, lstm, sdpa
from .dispatch_mode import CaptureMode

PACKED = "memory: a recurrent layer on a packed sequence runs other operators on the meta device than on a CPU"

LENGTHS = "memory: what ctc_loss keeps depends on the longest target, which is taken to be as long as the targets allow"

_RECURRENT = frozenset((lstm.NAME, *gru.STAND_INS))

_STAND_INS: Mapping[str, Callable[..., Any]] = {
    sdpa.NAME: sdpa.fused_attention,
    lstm.NAME: lstm.fused_lstm,
    **gru.STAND_INS,
}
"""Functions by the name of the operator; they may return None."""


def run_stand_in(mode: CaptureMode, native: str, args: Any, kwargs: Any) -> Any:
    """Run what a CPU runs instead of an operator.

    Args:
        mode: the mode, whose ledgers of memory note what is an estimate.
        native: the name of the operator.
        args: its operands.
        kwargs: its operands by name.

    Returns:
        Its result; None if PyTorch runs the operator as a CPU does.
    """
    stand_in = _STAND_INS.get(native)
    result = None if stand_in is None else stand_in(*args, **kwargs)
    note = _approximation(native, args, result is not None) if isinstance(args[0], Tensor) and args[0].is_meta else ""
    if note:
        mode.ledgers.note(note, is_approximation=True)
    return result


def _approximation(native: str, args: Any, has_stand_in: bool) -> str:
    """Return how the memory of an operator on the meta device differs from that on a CPU, if it does."""
    if native == "aten::ctc_loss":
        return LENGTHS
    if native in _RECURRENT and isinstance(args[1], Tensor) and args[1].dtype is torch.int64:  # sizes of the steps
        return PACKED
    if native != lstm.NAME or not torch.is_grad_enabled():
        return ""
    return lstm.RESERVE if has_stand_in else lstm.STEPS
