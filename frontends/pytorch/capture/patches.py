"""What a capture changes in PyTorch: applied before the first capture, undone after the last."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack
from functools import partial, wraps
from traceback import walk_tb
from types import FunctionType, GeneratorType, TracebackType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from ..recording.module_calls import ModuleCalls, shapes_of
from . import (
    autocast,
    checkpoints,
    compiled_models,
    composite_patches,
    composites,
    derivatives,
    device_autocast,
    dtensor,
    fast_path,
    higher_order,
    nested_tensors,
    python_values,
    storage_sizes,
    subclasses,
    threads,
)
from .dispatch_mode import THREAD, CaptureMode, CapturingThread, Thread
from .replacement import replace

_lock = threading.RLock()
_sessions: set[CapturingThread] = set()
_undo = ExitStack()


def acquire(session: CapturingThread, has_composites: bool) -> None:
    """Note one more session; the first one patches PyTorch.

    Args:
        session: is later released, also if this fails.
        has_composites: whether composite operators are captured at the key ``PreDispatch``.
    """
    with _lock:
        is_first = not _sessions
        _sessions.add(session)
        if is_first:
            _patch(_undo, has_composites)
        if session.is_estimate and not any(each.is_estimate for each in _sessions if each is not session):
            device_autocast.patch_device_autocast(_undo, _estimating)
        compiled_models.run_eagerly(_undo)


def _patch(stack: ExitStack, has_composites: bool) -> None:
    compiled_models.restore_mode_flags(stack)
    _patch_module_calls(stack)
    _hook_optimizer_steps(stack)
    _watch_random_states(stack)
    compiled_models.patch_import(stack, _is_capturing)
    compiled_models.patch_compile(stack, _is_capturing, _run_eagerly)
    _allow_flex_attention_on_meta(stack)
    nested_tensors.patch_attention(stack, _active_mode)
    dtensor.patch_shape_propagation(stack, _active_mode)
    autocast.patch_autocast(stack, active_casts)
    checkpoints.patch_checkpoint(stack, _active_mode)
    python_values.patch_functions(stack, _active_mode)
    derivatives.patch_backward(stack, _active_mode)
    storage_sizes.patch_resizing(stack, _active_mode)
    threads.patch_threads(stack)
    subclasses.patch_conversion(stack, _active_mode)
    higher_order.patch_modes(stack, _active_mode)
    if has_composites:
        composites.register_kernels(_active_mode)
        fast_path.register_kernels(_active_mode)
        higher_order.patch_dispatch(stack, _active_mode)
    else:
        composite_patches.patch_functions(stack, _active_mode)
        fast_path.patch_functions(stack, _active_mode)


def _run_eagerly() -> None:
    """Run compiled models as written until the last session ends."""
    with _lock:
        compiled_models.run_eagerly(_undo)


def release(session: CapturingThread) -> None:
    """Forget a session; the last one undoes all patches."""
    with _lock:
        _sessions.discard(session)
        if not _sessions:
            _undo.close()


_active_mode: Callable[[], CaptureMode | None] = partial(getattr, THREAD, "mode")
"""Returns the mode of the running thread."""


def _is_capturing() -> bool:
    return THREAD.mode is not None


def active_casts() -> autocast.Casts | None:
    """Return what casts meta operands under autocast in the running thread; None if it does not capture."""
    return None if THREAD.mode is None else THREAD.mode.casts


def _estimating() -> Callable[[str], None] | None:
    """Return what notes an assumption of the estimate of the running thread; None if it runs none."""
    mode = THREAD.mode
    return mode.assume if mode is not None and mode.is_estimate else None


def _note_unseen(module: Module) -> None:
    """Tell the captures of other threads that this thread runs a module without one."""
    for session in [*_sessions]:
        session.note_unseen(module)


def failed_module(traceback: TracebackType | None) -> Module | None:
    """Return the innermost module that an exception came out of, from its traceback; None outside any module."""
    called = [frame.f_locals["self"] for frame, _ in walk_tb(traceback) if frame.f_code is _call_module.__code__]
    return called[-1] if called else None


def _in_module(
    module: Module, generator: Generator[Any, Any, Any], begun: list[tuple[ModuleCalls, int]] | None
) -> Generator[Any, Any, Any]:
    """Return a generator with the values of another one, which runs in its module, also after ``forward`` returned.

    Args:
        module: the module.
        generator: what it returned.
        begun: the call of the module, in each log that records calls of modules.
    """
    sent: Any = None
    error: BaseException | None = None
    while True:
        modules = None if THREAD.mode is None else THREAD.mode.recording.modules
        if modules is not None:
            modules.enter(module)
            for calls, number in begun or ():
                calls.resume(number)
        try:
            item = generator.send(sent) if error is None else generator.throw(error)
        except StopIteration as end:
            return end.value
        finally:
            if modules is not None:
                modules.leave()
                for calls, number in begun or ():
                    calls.end(number)
        try:
            sent, error = (yield item), None
        except GeneratorExit:
            generator.close()
            raise
        except BaseException as raised:
            sent, error = None, raised


class _ModuleCalls(NamedTuple):
    """What :func:`_call_module` needs: as the code of another function it has no names of this module.

    Attributes:
        thread: the state of the running thread.
        note_unseen: tells the captures of other threads of a module.
        original: calls a module as without a capture.
        is_pytorchs_own: whether that is PyTorch's function.
        end_module_call: records what a module returned.
        fast_modules: modules that may run as one operator.
        as_one_operator: a context in which such a module runs so, or its memory is counted so.
        generator_type: the type of what a ``forward`` with a ``yield`` returns.
        in_module: returns such a generator, whose steps run in its module.
    """

    thread: Thread
    note_unseen: Callable[[Module], None]
    original: Callable[..., Any]
    is_pytorchs_own: bool
    end_module_call: Callable[[Any, Any], None]
    fast_modules: tuple[type, ...] = fast_path.MODULES
    as_one_operator: Callable[..., Any] = fast_path.as_one_operator
    generator_type: type = GeneratorType
    in_module: Callable[..., Any] = _in_module


def _call_module(self: Module, *args: Any, _costcore: _ModuleCalls, **kwargs: Any) -> Any:
    """Call a module, and keep the module stack of the capture up to date."""
    mode = _costcore.thread.mode
    if mode is None:
        _costcore.note_unseen(self)
        return _costcore.original(self, *args, **kwargs)
    recording = mode.recording
    modules = recording.modules
    modules.enter(self, (args, kwargs))
    begun = recording.begin_module_call(args) if recording.has_module_calls else None
    try:
        if isinstance(self, _costcore.fast_modules):
            with _costcore.as_one_operator(mode, self, args, kwargs):
                result = _costcore.original(self, *args, **kwargs)
        elif _costcore.is_pytorchs_own and self._compiled_call_impl is None:  # as the original, with one frame less
            result = self._call_impl(*args, **kwargs)
        else:
            result = _costcore.original(self, *args, **kwargs)
        if result.__class__ is _costcore.generator_type:
            result = _costcore.in_module(self, result, begun)
        if begun is not None:
            _costcore.end_module_call(begun, result)
        if len(modules.running) == 1:
            recording.record_returned(result)
            mode.join_shards(self)
            if mode.ledgers:
                mode.note_returned(result)
        return result
    finally:
        modules.leave()
        if begun is not None:
            for calls, number in begun:
                calls.end(number)


def _patch_module_calls(stack: ExitStack) -> None:
    """Let ``Module.__call__`` keep the module stack of the capture up to date.

    PyTorch's function gets another code. Assigning another function makes Python update all subclasses, hundreds of
    them, which takes longer than all the rest of an empty capture.
    """
    function: Any = Module.__call__
    if function is not Module.__dict__.get("_wrapped_call_impl") or type(function) is not FunctionType:
        _replace_module_calls(stack, function)
        return
    code, defaults = function.__code__, function.__kwdefaults__
    original = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    calls = _ModuleCalls(THREAD, _note_unseen, original, True, _end_module_call)

    def restore() -> None:
        function.__code__, function.__kwdefaults__ = code, defaults

    stack.callback(restore)
    function.__kwdefaults__ = {"_costcore": calls}
    function.__code__ = _call_module.__code__


def _replace_module_calls(stack: ExitStack, original: Any) -> None:
    """Replace a ``Module.__call__`` that is not PyTorch's own."""
    calls = _ModuleCalls(THREAD, _note_unseen, original, False, _end_module_call)

    def __call__(self: Module, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - replaces it
        return _call_module(self, *args, _costcore=calls, **kwargs)

    replace(stack, Module, "__call__", __call__)


def _end_module_call(begun: list[tuple[ModuleCalls, int]], result: Any) -> None:
    outputs = shapes_of(result)
    for calls, number in begun:
        calls.set_outputs(number, outputs)


_spelled_sessions: set[object] = set()
_undo_spelled = ExitStack()

_MODE_MAKES_NO_DIFFERENCE = frozenset(("torch._ops", "torch.nn.modules.activation", "torch.nn.modules.transformer"))
"""Modules of PyTorch that run other operators if a ``TorchFunctionMode`` is active: they take no fast path."""


def acquire_spelled(session: object) -> None:
    """Note one more session that follows functions; the first one hides that from PyTorch, which would run others."""
    with _lock:
        is_first = not _spelled_sessions
        _spelled_sessions.add(session)
        if is_first:
            _hide_spellings(_undo_spelled)


def release_spelled(session: object) -> None:
    """Forget such a session; the last one undoes that."""
    with _lock:
        _spelled_sessions.discard(session)
        if not _spelled_sessions:
            _undo_spelled.close()


def _hide_spellings(stack: ExitStack) -> None:
    from ..recording.spelling import spellings  # few runs follow functions

    original: Callable[[Any], bool] = torch.overrides.has_torch_function

    @wraps(original)
    def has_torch_function(relevant_args: Any) -> bool:
        if sys._getframe(1).f_globals.get("__name__") not in _MODE_MAKES_NO_DIFFERENCE:
            return original(relevant_args)
        with spellings().silenced():
            return original(relevant_args)

    replace(stack, torch.overrides, "has_torch_function", has_torch_function)


def _hook_optimizer_steps(stack: ExitStack) -> None:
    """Report every step of an optimizer to the capture."""

    def hook(optimizer: Optimizer, *_: object) -> None:
        if THREAD.mode is not None:
            THREAD.mode.recording.locator.begin_optimizer_step()
            for ledger in THREAD.mode.ledgers:
                if not ledger.paused.is_set:
                    ledger.use_optimizer(optimizer)

    stack.callback(register_optimizer_step_pre_hook(hook).remove)


def _watch_random_states(stack: ExitStack) -> None:
    """Report every copy of the state of the random generator, which ``checkpoint`` keeps, to the memory ledgers."""
    original = torch.get_rng_state

    @wraps(original)
    def get_rng_state() -> Tensor:
        state = original()
        if THREAD.mode is not None:
            THREAD.mode.ledgers.allocated(state)
        return state

    replace(stack, torch, "get_rng_state", get_rng_state)


def _allow_flex_attention_on_meta(stack: ExitStack) -> None:
    """Skip the device check of ``flex_attention`` for meta tensors."""
    module: Any = sys.modules.get("torch.nn.attention.flex_attention")
    original = getattr(module, "_validate_device", None)
    if original is None:
        return

    def _validate_device(query: Tensor, *rest: Tensor) -> None:
        if THREAD.mode is None or not query.is_meta:
            original(query, *rest)

    replace(stack, module, "_validate_device", _validate_device)
