"""Autocast of a device that this machine does not have.

Without CUDA, PyTorch disables ``torch.autocast("cuda")`` when the object is made, and warns. An estimate counts the run
on the device that the model is written for, so it honours autocast of any device.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cache, wraps
from textwrap import dedent
from tokenize import TokenError
from typing import Any
from weakref import WeakKeyDictionary

import torch

from .autocast import MADE_IN_ESTIMATES
from .replacement import replace

CPU = "cpu"
DECORATED = "decorate_autocast"
"""Name of the function that PyTorch puts around a function decorated with autocast."""

MADE_BEFORE = (
    'torch.autocast("cuda") was made outside of the forward pass, where PyTorch disables it on a machine without CUDA: '
    "assumed enabled"
)

Assume = Callable[[str], None]
"""Notes an assumption."""


def patch_device_autocast(stack: ExitStack, estimating: Callable[[], Assume | None]) -> None:
    """Let estimates honour ``torch.autocast`` of any device.

    Disabling autocast of an accelerator disables that of the CPU too: the model runs on one of them.

    Args:
        stack: undoes the patches.
        estimating: returns what notes an assumption; None if the running thread does not estimate.
    """
    for owner, name, function in _patched_functions(estimating):
        if vars(owner).get(name) is not function:
            replace(stack, owner, name, function)


@cache
def _patched_functions(estimating: Callable[[], Assume | None]) -> Sequence[tuple[Any, str, Callable[..., Any]]]:
    """Return owner, name and replacement of the functions that are patched, made once."""
    autocast: Any = torch.amp.autocast_mode.autocast
    common: Any = torch.cuda.amp.common
    enter, leave = autocast.__enter__, autocast.__exit__
    is_unavailable, has_bfloat16 = common.amp_definitely_not_available, torch.cuda.is_bf16_supported
    disabled_on_cpu: WeakKeyDictionary[Any, list[bool]] = WeakKeyDictionary()

    @wraps(is_unavailable)
    def amp_definitely_not_available() -> bool:
        return estimating() is None and is_unavailable()

    @wraps(has_bfloat16)
    def is_bf16_supported(*args: Any, **kwargs: Any) -> bool:
        return estimating() is not None or has_bfloat16(*args, **kwargs)

    @wraps(enter)
    def __enter__(self: Any) -> Any:  # noqa: N807 - replaces it
        entered = enter(self)
        assume = estimating()
        may_be_lost = self.device == "cuda" and not self._enabled and self not in MADE_IN_ESTIMATES and is_unavailable()
        if assume is not None and may_be_lost and _was_enabled(assume):
            torch.set_autocast_enabled("cuda", True)
        was_enabled = torch.is_autocast_enabled(CPU)
        if assume is not None and self.device != CPU:
            disabled_on_cpu.setdefault(self, []).append(was_enabled)
            if not torch.is_autocast_enabled(self.device):
                torch.set_autocast_enabled(CPU, False)
        return entered

    @wraps(leave)
    def __exit__(self: Any, *args: Any) -> Any:  # noqa: N807 - replaces it
        result = leave(self, *args)
        if disabled_on_cpu.get(self):
            torch.set_autocast_enabled(CPU, disabled_on_cpu[self].pop())
        return result

    return (
        (common, "amp_definitely_not_available", amp_definitely_not_available),
        (torch.cuda, "is_bf16_supported", is_bf16_supported),
        (autocast, "__enter__", __enter__),
        (autocast, "__exit__", __exit__),
    )


def _was_enabled(assume: Assume) -> bool:
    """Return whether the code asks for an autocast that PyTorch disabled when it was made.

    The object does not tell. Of a decorator the source does; otherwise it is assumed.
    """
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_name != DECORATED:
        frame = frame.f_back if frame.f_code.co_name in ("_was_enabled", "__enter__") else None
    decorated = None if frame is None else frame.f_locals.get("func")
    stated = None if decorated is None else _enabled_in_source(decorated)
    if stated is None:
        assume(MADE_BEFORE)
    return stated is not False


def _enabled_in_source(function: Callable[..., Any]) -> bool | None:
    """Return the literal argument ``enabled`` of the decorator of a function; None if the source does not tell."""
    try:
        tree = ast.parse(dedent(inspect.getsource(function)))
    except (OSError, SyntaxError, TokenError, TypeError):
        return None
    definition = tree.body[0]
    for decorator in getattr(definition, "decorator_list", ()):
        name = getattr(decorator, "func", None)
        if isinstance(decorator, ast.Call) and ast.unparse(name or decorator).endswith("autocast"):
            given = [keyword.value for keyword in decorator.keywords if keyword.arg in ("enabled", None)]
            is_of_cuda = ast.unparse(decorator.func).endswith("cuda.amp.autocast")
            position = 0 if is_of_cuda else 2
            given += decorator.args[position : position + 1]
            if not given:
                return True
            return bool(given[0].value) if isinstance(given[0], ast.Constant) else None
    return None
