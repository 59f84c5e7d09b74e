"""Operators whose arguments are functions, before PyTorch takes them to be compiled.

A kernel of ours stands at the key of the frames for those that we know how to run.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import _len_torch_dispatch_stack

from .control import CONTROL, FLEX, FLEX_ASSUMED, flex_without_data
from .frames import PRE_DISPATCH
from .session import Session

_ONLY_FRAMES = torch._C.DispatchKeySet(PRE_DISPATCH)

_functorch_level = torch._C._functorch.maybe_current_level


def let_pass(stack: ExitStack, running: Callable[[], Session | None]) -> None:
    """Tell all such operators what to do at the key of the frames, which none of them knows.

    Args:
        stack: what puts them back.
        running: the capture of the thread that asks.
    """
    changed: list[tuple[Any, Any]] = []

    def restore() -> None:
        for operator, keys in changed:
            operator.non_fallthrough_keys = keys
            operator._dispatch_cache.pop(PRE_DISPATCH, None)

    stack.callback(restore)
    for name, operator in torch._ops._higher_order_ops.items():
        keys = operator.non_fallthrough_keys
        if name in CONTROL or name == FLEX:
            changed.append((operator, keys))
            operator.non_fallthrough_keys = keys.add(PRE_DISPATCH)
            operator._dispatch_cache[PRE_DISPATCH] = partial(_run, running, operator)
        elif keys.has(PRE_DISPATCH):
            changed.append((operator, keys))
            operator.non_fallthrough_keys = keys.remove(PRE_DISPATCH)


def _run(running: Callable[[], Session | None], operator: Any, *args: Any, **kwargs: Any) -> Any:
    session = running()
    if session is None or session.is_paused or _functorch_level() is not None or _len_torch_dispatch_stack() != 1:
        return _as_usual(operator, args, kwargs)  # something else is to see it first
    if operator.name() != FLEX:
        return CONTROL[operator.name()](session.assume, *args, **kwargs)
    session.assume(FLEX_ASSUMED)
    if args[0].is_meta:
        return session.whole(operator, args[:3], {}, partial(flex_without_data, *args[:6]))
    return session.whole(operator, args[:3], {}, partial(_as_usual, operator, args, kwargs))


def _as_usual(operator: Any, args: Any, kwargs: Any) -> Any:
    with torch._C._ExcludeDispatchKeyGuard(_ONLY_FRAMES):
        return operator(*args, **kwargs)
