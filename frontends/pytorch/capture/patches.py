"""What is changed in PyTorch while anything is captured, and put back when nothing is any more."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache, wraps
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.optim.optimizer import register_optimizer_step_pre_hook

from ..meta.operands import tensors_of
from . import autocast, composite_patches, composites, dtensor, higher_order
from .dispatch_mode import CaptureMode


class _Local(threading.local):
    session: CaptureMode | None = None
    stack: ExitStack | None = None


LOCAL = _Local()
"""The capture of the running thread, and what it will undo."""

_lock = threading.RLock()
_users = 0
_undo = ExitStack()


def acquire(has_composites: bool) -> None:
    """One capture more: the first one changes PyTorch."""
    global _users, _undo
    with _lock:
        if _users == 0:
            with ExitStack() as stack:
                _watch_modules(stack)
                _watch_optimizers(stack)
                _use_plain_attention(stack)
                _watch_compiler(stack)
                _let_flex_attention_run_without_data(stack)
                dtensor.let_look_ahead_unseen(stack, _running)
                autocast.watch(stack, _is_capturing, tensors_of)
                if has_composites:
                    _register_frames()
                    higher_order.let_pass(stack, _running)
                else:
                    composite_patches.draw(stack, _running)
                _strays.clear()
                _undo = stack.pop_all()
        _users += 1


def release() -> None:
    """One capture less: after the last one everything is as it was."""
    global _users
    with _lock:
        _users -= 1
        if _users == 0:
            _undo.close()


def _running() -> CaptureMode | None:
    return LOCAL.session


def _is_capturing() -> bool:
    return LOCAL.session is not None


@cache
def _register_frames() -> None:
    composites.register(_running)


_strays: dict[int, None] = {}
"""The threads in which modules ran that no capture saw, while there was one elsewhere."""


def strays() -> int:
    """How many threads ran modules unseen, since the first of the captures that are running now began."""
    return len(_strays)


def _watch_modules(stack: ExitStack) -> None:
    original: Callable[..., Any] = Module.__call__
    is_usual = original is Module.__dict__.get("_wrapped_call_impl")

    def __call__(self: Module, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - stands in for it
        session = LOCAL.session
        if session is None:
            _strays[threading.get_ident()] = None
            return original(self, *args, **kwargs)
        modules = session.modules
        modules.enter(self)
        failure: BaseException | None = None
        try:
            if is_usual and self._compiled_call_impl is None:  # what the original does, without a frame more
                return self._call_impl(*args, **kwargs)
            return original(self, *args, **kwargs)
        except BaseException as error:
            failure = error
            raise
        finally:
            modules.leave(failure)
            failure = None

    def restore() -> None:
        if Module.__call__ is __call__:
            Module.__call__ = original

    Module.__call__ = __call__
    stack.callback(restore)


def _watch_optimizers(stack: ExitStack) -> None:
    """Tell the capture when an optimizer begins a step."""

    def hook(*_: object) -> None:
        if LOCAL.session is not None:
            LOCAL.session.places.begin_step()

    stack.callback(register_optimizer_step_pre_hook(hook).remove)


def _use_plain_attention(stack: ExitStack) -> None:
    """Keep ``nn.TransformerEncoderLayer`` from becoming one opaque operator in inference on a CPU."""
    was_enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    stack.callback(torch.backends.mha.set_fastpath_enabled, was_enabled)


def stand_compiler_aside(stack: ExitStack) -> None:
    """Run compiled models as they were written, and leave them to be compiled later.

    The compiler takes a second to import: where it is not yet, it is told when it is first called for.
    """
    LOCAL.stack = None
    if "torch._dynamo" in sys.modules:
        stack.enter_context(torch.compiler.set_stance("force_eager"))
    else:
        LOCAL.stack = stack


def _watch_compiler(stack: ExitStack) -> None:
    original = torch.compile

    @wraps(original)
    def compile(*args: Any, **kwargs: Any) -> Any:
        if LOCAL.session is not None and LOCAL.stack is not None:
            LOCAL.stack.enter_context(torch.compiler.set_stance("force_eager"))
            LOCAL.stack = None
        return original(*args, **kwargs)

    def restore() -> None:
        if torch.compile is compile:
            torch.compile = original

    torch.compile = compile
    stack.callback(restore)


def _let_flex_attention_run_without_data(stack: ExitStack) -> None:
    module: Any = sys.modules.get("torch.nn.attention.flex_attention")
    original = getattr(module, "_validate_device", None)
    if original is None:
        return

    def _validate_device(query: Tensor, *others: Tensor) -> None:
        if LOCAL.session is None or not query.is_meta:
            original(query, *others)

    def restore() -> None:
        if module._validate_device is _validate_device:
            module._validate_device = original

    module._validate_device = _validate_device
    stack.callback(restore)
