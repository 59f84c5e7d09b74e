"""Compiled models, which run as written while anything is captured; they can be compiled later."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from typing import Any

import torch
from torch.utils import _python_dispatch

from .replacement import replace

_COMPILER = "torch._dynamo"
"""The module of the compiler, which takes a second to import."""

_FLAGS = {
    "_is_in_torch_dispatch_mode": "old_dispatch_mode_flags",
    "_is_in_non_infra_torch_dispatch_mode": "old_non_infra_dispatch_mode_flags",
    "_is_in_any_mode_without_ignore_compile_internals": "old_without_ignore_compile_internals_dispatch_mode_flags",
}
"""Whether a dispatch mode is active, and the attribute of a mode with what this was before it."""

_ONLY_FLAG = "old_dispatch_mode_flag"
"""This attribute before PyTorch 2.5, where a mode can be entered once at a time."""

_modes: Callable[[], list[Any]] = _python_dispatch._get_current_dispatch_mode_stack
"""Returns the dispatch modes that are active in this thread."""

_is_eager = False
"""Whether compiled models run as written: in the whole process, however many threads capture."""


def run_eagerly(stack: ExitStack) -> None:
    """Run compiled models as written, until ``stack`` is closed, if the compiler is imported and they do not already.

    Raises:
        RuntimeError: inside a compiled function, where PyTorch does not let anybody change this.
    """
    if _is_eager or _COMPILER not in sys.modules:
        return
    compiler: Any = sys.modules[f"{_COMPILER}.eval_frame"]
    stack.callback(_note, False)
    if hasattr(torch.compiler, "set_stance"):
        stack.callback(compiler._set_stance, compiler._stance)
        torch.compiler.set_stance("force_eager")
    else:  # before PyTorch 2.6
        set_eval_frame = compiler.set_eval_frame
        replace(stack, compiler, "set_eval_frame", lambda callback: set_eval_frame(None))
    _note(True)


def restore_mode_flags(stack: ExitStack) -> None:
    """Restore whether a dispatch mode is active, when ``stack`` is closed.

    PyTorch keeps this for all threads in one place, which every mode sets to what it was before. After modes of two
    threads that overlap it stays true, and until PyTorch 2.12 nothing is compiled any more. So it would after a capture
    that ends before a mode inside it, as in a generator.
    """
    before = {name: getattr(_python_dispatch, name) for name in _FLAGS if hasattr(_python_dispatch, name)}
    in_compiler = getattr(_python_dispatch, "set_is_in_mode_without_ignore_compile_internals", None)
    n_modes = len(_modes())

    def restore() -> None:
        modes = _modes()
        if len(modes) > n_modes:  # a later mode is still active: when it ends, it sets the flags to these
            for name, value in before.items():
                if flags := getattr(modes[n_modes], _FLAGS[name], None):
                    flags[-1] = value
                elif hasattr(modes[n_modes], _ONLY_FLAG):
                    setattr(modes[n_modes], _ONLY_FLAG, value)
            return
        for name, value in before.items():
            setattr(_python_dispatch, name, value)
        if in_compiler is not None:
            in_compiler(_python_dispatch._is_in_any_mode_without_ignore_compile_internals)

    stack.callback(restore)


def _note(is_eager: bool) -> None:
    global _is_eager
    _is_eager = is_eager


def patch_compile(stack: ExitStack, is_capturing: Callable[[], bool], run_eagerly: Callable[[], None]) -> None:
    """Watch ``torch.compile``, which imports the compiler.

    Args:
        stack: undoes the patch.
        is_capturing: returns whether the running thread captures.
        run_eagerly: lets compiled models run as written until the last capture ends.
    """
    original = torch.compile

    @wraps(original)
    def compile(*args: Any, **kwargs: Any) -> Any:
        compiled = original(*args, **kwargs)
        if is_capturing():
            run_eagerly()
        return compiled

    replace(stack, torch, "compile", compile)
