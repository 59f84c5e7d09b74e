"""Compiled models, which run as written while anything is captured; they can be compiled later."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import wraps
from typing import Any

import torch

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
        _is_eager = True
        try:
            yield
        finally:
            _is_eager = False


def _stance() -> AbstractContextManager[Any]:
    """Return a context in which compiled models run as written."""
    set_stance = getattr(torch.compiler, "set_stance", None)
    return _without_compiler() if set_stance is None else set_stance("force_eager")


@contextmanager
def _without_compiler() -> Iterator[None]:
    """Let the compiler take no function that is called, in the versions of PyTorch before 2.6, which have no stance."""
    compiler: Any = sys.modules[f"{_COMPILER}.eval_frame"]
    original = compiler.set_eval_frame

    def set_eval_frame(callback: object) -> Any:
        return original(None)

    try:
        compiler.set_eval_frame = set_eval_frame
        yield
    finally:
        if compiler.set_eval_frame is set_eval_frame:
            compiler.set_eval_frame = original


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

    def restore() -> None:
        if torch.compile is compile:
            torch.compile = original

    stack.callback(restore)
    torch.compile = compile
