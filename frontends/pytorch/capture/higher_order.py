"""Operators whose arguments are functions, before PyTorch takes them to be compiled.

A kernel of ours stands at the key of the frames for those that we know how to run.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import _len_torch_dispatch_stack

from ..operators.control_flow import CONTROL_FLOW
from ..operators.flex_attention import FLEX, FLEX_ASSUMPTION, flex_on_meta
from .composites import PRE_DISPATCH
from .dispatch_mode import CaptureMode

_ONLY_FRAMES = torch._C.DispatchKeySet(PRE_DISPATCH)

_functorch_level = torch._C._functorch.maybe_current_level


def let_pass(stack: ExitStack, running: Callable[[], CaptureMode | None]) -> None:
    """Stand at the key of the frames, for which no such operator has a kernel.

    Args:
        stack: what puts PyTorch back.
        running: the capture of the thread that asks.
    """
    original, keys_for = HigherOrderOperator.dispatch, torch._ops._compute_keyset

    def dispatch(self: Any, key: Any, /, *args: Any, **kwargs: Any) -> Any:
        session = running() if key == PRE_DISPATCH else None
        if session is None:
            return original(self, key, *args, **kwargs)
        if self.name() in CONTROL_FLOW or self.name() == FLEX:
            return _run(session, self, args, kwargs)
        keys = keys_for(args, kwargs, self.non_fallthrough_keys.remove(PRE_DISPATCH))
        return original(self, keys.highestPriorityTypeId(), *args, **kwargs)

    def restore() -> None:
        if HigherOrderOperator.dispatch is dispatch:
            HigherOrderOperator.dispatch = original

    HigherOrderOperator.dispatch = dispatch
    stack.callback(restore)


def _run(session: CaptureMode, operator: Any, args: Any, kwargs: Any) -> Any:
    if session.is_paused or _functorch_level() is not None or _len_torch_dispatch_stack() != 1:
        return _as_usual(operator, args, kwargs)  # something else is to see it first
    if operator.name() != FLEX:
        return CONTROL_FLOW[operator.name()](session.assume, *args, **kwargs)
    session.assume(FLEX_ASSUMPTION)
    if args[0].is_meta:
        return session.whole(operator, args[:3], {}, partial(flex_on_meta, *args[:6]))
    return session.whole(operator, args[:3], {}, partial(_as_usual, operator, args, kwargs))


def _as_usual(operator: Any, args: Any, kwargs: Any) -> Any:
    with torch._C._ExcludeDispatchKeyGuard(_ONLY_FRAMES):
        return operator(*args, **kwargs)
