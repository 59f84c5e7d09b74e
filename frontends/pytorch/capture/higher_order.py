"""Higher-order operators (control flow, flex attention), captured before PyTorch compiles them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode,
    _len_torch_dispatch_stack,
    _pop_mode_temporarily,
)

from ..operators.control_flow import CONTROL_FLOW
from ..operators.flex_attention import FLEX, FLEX_ASSUMPTION, flex_on_meta
from .dispatch_keys import PRE_DISPATCH
from .dispatch_mode import CaptureMode
from .replacement import replace

_ONLY_PRE_DISPATCH = torch._C.DispatchKeySet(PRE_DISPATCH)

INEXACT = {
    FLEX: "memory: flex_attention is counted as one kernel that keeps no scores; without torch.compile it keeps them",
    "scan": "memory: what scan keeps of all steps is counted once; PyTorch also copies it",
}
"""Remarks on operators whose memory is not that of a run, by their name."""

_functorch_level = torch._C._functorch.maybe_current_level


def patch_modes(stack: ExitStack, active_mode: Callable[[], CaptureMode | None]) -> None:
    """Pass higher-order operators to the capture, as modes may ask for since PyTorch 2.7.

    Before, an operator rejects every mode that it has no kernel for.

    Args:
        stack: undoes the patch.
        active_mode: returns the mode of the running thread.
    """
    if hasattr(TorchDispatchMode, "supports_higher_order_operators"):
        return
    original = HigherOrderOperator.dispatch

    def dispatch(self: Any, key: Any, /, *args: Any, **kwargs: Any) -> Any:
        mode = active_mode() if key == torch._C.DispatchKey.Python else None
        if mode is None or _get_current_dispatch_mode() is not mode:
            return original(self, key, *args, **kwargs)
        with _pop_mode_temporarily():
            return mode.__torch_dispatch__(self, (), args, kwargs)

    replace(stack, HigherOrderOperator, "dispatch", dispatch)


def patch_dispatch(stack: ExitStack, active_mode: Callable[[], CaptureMode | None]) -> None:
    """Handle the key ``PreDispatch``, for which no higher-order operator has a kernel.

    Args:
        stack: undoes the patch.
        active_mode: returns the mode of the running thread.
    """
    original, keys_for = HigherOrderOperator.dispatch, torch._ops._compute_keyset

    def dispatch(self: Any, key: Any, /, *args: Any, **kwargs: Any) -> Any:
        mode = active_mode() if key == PRE_DISPATCH else None
        if mode is None:
            return original(self, key, *args, **kwargs)
        if self.name() in CONTROL_FLOW or self.name() == FLEX:
            return _run(mode, self, args, kwargs)
        keys = keys_for(args, kwargs, self.non_fallthrough_keys.remove(PRE_DISPATCH))
        return original(self, keys.highestPriorityTypeId(), *args, **kwargs)

    replace(stack, HigherOrderOperator, "dispatch", dispatch)


def _run(mode: CaptureMode, operator: Any, args: Any, kwargs: Any) -> Any:
    if mode.paused.is_set or _functorch_level() is not None or _len_torch_dispatch_stack() != 1:
        return _run_as_usual(operator, args, kwargs)  # another transform or mode comes first
    if operator.name() in INEXACT:
        mode.ledgers.note(INEXACT[operator.name()], is_approximation=True)
    if operator.name() != FLEX:
        return CONTROL_FLOW[operator.name()](mode, *args, **kwargs)
    mode.assume(FLEX_ASSUMPTION)
    is_meta = args[0].is_meta
    run = partial(flex_on_meta, operator, *args[:6]) if is_meta else partial(_run_as_usual, operator, args, kwargs)
    with mode.ledgers.whole():
        return mode.run_as_one_call(operator, args[:3], {}, run)


def _run_as_usual(operator: Any, args: Any, kwargs: Any) -> Any:
    with torch._C._ExcludeDispatchKeyGuard(_ONLY_PRE_DISPATCH):
        return operator(*args, **kwargs)
