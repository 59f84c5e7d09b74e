"""Compiled models, which run as written while anything is captured; they can be compiled later."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import wraps
from typing import Any

import torch

from .replacement import replace

_COMPILER = "torch._dynamo"
"""The module of the compiler, which takes a second to import."""

_is_eager = False
"""Whether compiled models run as written: in the whole process, however many threads capture."""


def run_eagerly(stack: ExitStack) -> None:
    """Run compiled models as written, until ``stack`` is closed, if the compiler is imported and they do not already.

    Raises:
        RuntimeError: inside a compiled function, where PyTorch does not let anybody change this.
    """
    if not _is_eager and _COMPILER in sys.modules:
        stack.enter_context(_eagerly())


@contextmanager
def _eagerly() -> Iterator[None]:
    global _is_eager
    with _stance():
        try:
            _is_eager = True
            yield
        finally:
            _is_eager = False


def _stance() -> AbstractContextManager[Any]:
    """Return a context in which compiled models run as written."""
    set_stance = getattr(torch.compiler, "set_stance", None)
    return _without_compiler() if set_stance is None else set_stance("force_eager")


def _without_compiler() -> ExitStack:
    """Return a context in which the compiler takes no function: for PyTorch before 2.6, which has no stance."""
    compiler: Any = sys.modules[f"{_COMPILER}.eval_frame"]
    original = compiler.set_eval_frame
    stack = ExitStack()
    replace(stack, compiler, "set_eval_frame", lambda callback: original(None))
    return stack


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
