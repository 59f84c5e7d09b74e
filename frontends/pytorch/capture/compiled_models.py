"""Compiled models, which run as written while anything is captured; they can be compiled later."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial, wraps
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from inspect import isfunction
from types import ModuleType
from typing import Any

import torch
from torch.utils import _python_dispatch

from .dispatch_keys import CAPTURED
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
        before = compiler._stance
        stack.callback(compiler._set_stance, before)
        torch.compiler.set_stance("force_eager")
        _patch_export(stack, partial(compiler._set_stance, before), partial(torch.compiler.set_stance, "force_eager"))
    else:  # before PyTorch 2.6
        compiling, eager = compiler.set_eval_frame, partial(_set_no_frame, compiler.set_eval_frame)
        replace(stack, compiler, "set_eval_frame", eager)
        _patch_export(
            stack,
            partial(setattr, compiler, "set_eval_frame", compiling),
            partial(setattr, compiler, "set_eval_frame", eager),
        )
    _note(True)


def _set_no_frame(set_eval_frame: Callable[[object], object], callback: object) -> object:
    return set_eval_frame(None)


def _patch_export(stack: ExitStack, compile_again: Callable[[], object], run_eagerly: Callable[[], object]) -> None:
    """Let the compiler follow what is exported, which until PyTorch 2.9 is a compiled model to it."""
    package: Any = sys.modules[_COMPILER]

    def compiling(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def compile(*args: Any, **kwargs: Any) -> Any:
            compile_again()
            try:
                result = function(*args, **kwargs)
            finally:
                run_eagerly()
            return compiling(result) if isfunction(result) else result

        return compile

    replace(stack, package, "export", compiling(package.export))


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


def patch_import(stack: ExitStack, is_capturing: Callable[[], bool]) -> None:
    """Let nobody see the operators that PyTorch 2.6 runs while the compiler is imported.

    Many functions import it at their first call: optimizers, checkpoints, control flow.

    Args:
        stack: undoes the patch.
        is_capturing: returns whether the running thread captures.
    """
    if _COMPILER not in sys.modules:
        finder = _Finder(is_capturing)
        stack.callback(finder.remove)
        sys.meta_path.insert(0, finder)


class _Finder(MetaPathFinder):
    """Finds the compiler as Python does, with a loader that runs it outside of the capture."""

    def __init__(self, is_capturing: Callable[[], bool]) -> None:
        self._is_capturing = is_capturing

    def remove(self) -> None:
        """Remove the finder from those of Python."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where the compiler is; None for any other module."""
        spec = PathFinder.find_spec(fullname, path, target) if fullname == _COMPILER else None
        if spec is None or spec.loader is None or not self._is_capturing():
            return None
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            with torch._C._ExcludeDispatchKeyGuard(CAPTURED):
                execute(module)

        loader.exec_module = exec_module
        return spec


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
        if not is_capturing():
            return compiled
        run_eagerly()
        if args and isfunction(args[0]) and sys._getframe(1).f_code is args[0].__code__:
            return _as_if_compiled(args[0])
        return compiled

    replace(stack, torch, "compile", compile)


def _as_if_compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that compiles itself, unless it is compiled, as ``associative_scan`` before PyTorch 2.7."""

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with ExitStack() as stack:
            replace(stack, torch.compiler, "_is_compiling_flag", True)
            return function(*args, **kwargs)

    return run
