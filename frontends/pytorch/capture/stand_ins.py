"""What a CPU runs where PyTorch decomposes a composite operator on the meta device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from ..meta import gru, lstm, sdpa
from .dispatch_mode import CaptureMode

PACKED = "memory: a recurrent layer on a packed sequence runs other operators on the meta device than on a CPU"

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
    if native in _RECURRENT and args[0].is_meta:
        is_packed = isinstance(args[1], torch.Tensor) and args[1].dtype is torch.int64  # sizes of the steps
        keeps_reserve = result is not None and native == lstm.NAME and torch.is_grad_enabled()
        for ledger in mode.ledgers:
            if is_packed or keeps_reserve:
                ledger.note(PACKED if is_packed else lstm.RESERVE, is_approximation=True)
    return result
