"""The context manager :func:`capture`, which records every operator that PyTorch runs inside it.

The first capture of the process patches PyTorch: module calls, compiled models, higher-order operators, checkpointing,
nested attention. The last one undoes all patches. The captures of one thread share a :class:`Session`: a dispatch mode
and the key ``PreDispatch``.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator, Iterator, Set
from contextlib import ExitStack, contextmanager
from functools import cache, partial, wraps
from inspect import signature
from threading import Thread
from traceback import walk_tb
from types import FunctionType, GeneratorType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch._ops import HigherOrderOperator
from torch.nested._internal.nested_tensor import NestedTensor
from torch.nn import Module
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode,
    _len_torch_dispatch_stack,
    _pop_mode_temporarily,
)

from costcore.ir import Layer
from costcore.registry import costs_of_plugins
from costcore.trace.call import Call, Uncounted
from costcore.trace.run import Recorder

from ..kernels import loaded_kernels
from ..meta.propagate_values import pairs_in_blocks
from ..meta.values import META, masks_are_known, without_capture
from ..operators.plan import CONTROL_FLOW, FLEX, FLEX_ASSUMPTION, flex_on_meta, operator_plans
from ..recording.ledger import ModuleCalls, shapes_of
from ..recording.modules import module_tree
from ..recording.recording import CallLog
from . import autocast, composites, derivatives, dispatch_mode, surroundings
from .autocast import PRE_DISPATCH, enabled_device, replace
from .composites import known_index
from .dispatch_mode import THREAD, CaptureMode, CapturingThread, ThreadState

if TYPE_CHECKING:
    from ..recording.modules import ApiCallTracker

NO_COMPOSITES = (
    "this version of PyTorch hides composite operators: each call from Python is recorded as one call; calls from "
    "TorchScript and C++ are listed as the operators PyTorch decomposes them into, with the same MACs; autocast does "
    "not affect meta tensors"
)

OTHER_THREADS = "other_threads"
"""The name under which the list of uncounted operators shows what ran in other threads."""

UNSEEN_THREADS = (
    f"{Uncounted.OTHER_THREADS.reason(OTHER_THREADS)}, which are not counted: a capture records the thread that "
    "entered it and the threads that it starts; enter a capture in each other thread"
)


@contextmanager
def capture(
    recorder: Recorder,
    has_replay: bool = True,
    has_composites: bool | None = None,
    is_estimate: bool = False,
    keeps_indices: bool = False,
) -> Iterator[CaptureMode]:
    """Record every operator that this thread runs inside the context.

    This includes forward, backward and recomputation, functions, methods, modules, compiled and scripted models, and
    optimizers, on any device and in any grad mode. Captures nest or overlap, and each of them records everything;
    a capture in a coroutine records that coroutine and the coroutines that it starts. Afterwards PyTorch is restored,
    also after an exception.

    Results and gradients are bit-identical to a run without a capture, except for ``ormqr``, ``matrix_exp``, and second
    derivatives of ``prod`` and ``cumprod``: inside any dispatch mode PyTorch computes these by other formulas, equal up
    to rounding; these formulas are counted.

    Args:
        recorder: receives the calls.
        has_replay: whether repeated calls on meta tensors skip their kernels.
        has_composites: whether composite operators are captured at the key ``PreDispatch``; None: if PyTorch has it.
        is_estimate: whether this is an estimate rather than a run; see :class:`CaptureMode`.
        keeps_indices: whether the known values of a meta tensor ``x`` stay known in ``x[[0, 2]]``, where a list is the
            index; this slows down every function call.
    """
    if has_composites is None:
        has_composites = can_see_composites()
    if not has_composites and NO_COMPOSITES not in recorder.notes:
        recorder.notes.append(NO_COMPOSITES)
    with ExitStack() as stack:
        session = join_session(stack, has_replay, is_estimate, has_composites)
        mode = session.mode
        if recorder.counts_pairs:
            stack.enter_context(masks_are_known())
        stack.callback(_note_unseen_threads, recorder, session.unseen_threads, frozenset(session.unseen_threads))
        api_calls = session.track_api_calls(stack) if recorder.record_api_calls or keeps_indices else None
        if api_calls is not None and keeps_indices:
            api_calls.index = partial(known_index, mode)
        recorded_api_calls = api_calls if recorder.record_api_calls else None
        log = CallLog(recorder, mode.cache.plans.translator, mode.recording.modules, recorded_api_calls)
        stack.callback(log.close)
        stack.callback(mode.recording.remove, log)
        mode.recording.add(log)
        stack.callback(_record_module_tree, mode, log)
        _enable_whole_calls(stack, mode, recorder)
        recorder.frameworks["torch"] = torch.__version__
        yield mode


def _enable_whole_calls(stack: ExitStack, mode: CaptureMode, recorder: Recorder) -> None:
    # Whole calls: modules and functions with costs of their own, each recorded as one call
    if not recorder.costs_of and not costs_of_plugins() and not loaded_kernels():
        return
    from .whole_calls import WholeCalls, patch_functions  # few runs have costs of modules

    calls = WholeCalls(recorder)
    if calls:
        stack.callback(setattr, mode, "whole_calls", mode.whole_calls)
        mode.whole_calls = calls
        patch_functions(stack, calls)


_PATCHED = frozenset(
    (
        "torch.nn.attention.bias",
        "torch.nn.attention.flex_attention",
        "torch.nn.attention.varlen",
        "torch.utils.checkpoint",
    )
)


def patched_modules() -> Set[str]:
    """Return the imported modules and kernels that a new capture would patch."""
    return (_PATCHED & sys.modules.keys()) | loaded_kernels().keys()


def _record_module_tree(mode: CaptureMode, log: CallLog) -> None:
    tree = log.recorder.modules
    stack = mode.recording.modules
    with_parts = [root for root in stack.roots if root.has_parts]
    models = [(root.module(), root.path) for root in with_parts or stack.roots[:1]]
    if tree or not models:
        return
    with mode.disabled():
        for model, path in models:
            if model is not None:
                tree.update(module_tree(model, log.identities, path))
                if isinstance(model, torch.jit.ScriptModule):  # TorchScript calls submodules without Python
                    log.locate_by_parameters(tree, path)
    for alias, first in stack.aliases.items():
        if alias not in tree and first in tree:
            tree[alias] = tree[first]._replace(parameters=(), frozen=(), buffers=0, own=(), same_as=first)


def _note_unseen_threads(recorder: Recorder, unseen: set[int], before: frozenset[int]) -> None:
    if unseen - before:
        recorder.notes.append(UNSEEN_THREADS)
        layer = Layer(OTHER_THREADS)
        recorder.record(Call(layer, type=OTHER_THREADS, native=OTHER_THREADS, uncounted=Uncounted.OTHER_THREADS))


@cache
def can_see_composites() -> bool:
    """Return whether composite operators can be captured at ``PreDispatch`` in this version of PyTorch.

    Runs a linear layer on a 3-d input once, in a new thread: no mode, autocast or ``vmap`` of the caller affects it.

    Raises:
        CostError: for a broken plug-in; raised here, since an exception in the thread would be lost.
    """
    operator_plans()
    recorded: list[str] = []

    def attempt() -> None:
        recorder = Recorder()
        x, w, b = (torch.empty(shape, device="meta") for shape in ((2, 3, 4), (5, 4), (5,)))
        try:
            with torch.no_grad(), capture(recorder, has_composites=True):
                torch.nn.functional.linear(x, w, b)
        except (AttributeError, RuntimeError, TypeError):
            return  # the private key is missing or means something else in this PyTorch: functions are patched instead
        recorded.extend(call.native for call in recorder.calls)

    thread = Thread(target=attempt)
    thread.start()
    thread.join()
    return recorded == ["aten::linear"]


# Patches of PyTorch, from the first capture of the process to the last


_lock = threading.RLock()

_sessions: set[CapturingThread] = set()

_undo = ExitStack()


def acquire(session: CapturingThread, has_composites: bool) -> None:
    """Register a session; the first one patches PyTorch.

    Args:
        session: the session; the caller releases it, even if this fails.
        has_composites: whether composite operators are captured at the key ``PreDispatch``.
    """
    with _lock:
        is_first = not _sessions
        _sessions.add(session)
        if is_first:
            _patch(_undo, has_composites)
        # Only estimates need autocast of absent devices, meta kernels that run without the compiler, and meta tensors
        # that report another device.
        if session.is_estimate and not any(each.is_estimate for each in _sessions if each is not session):
            autocast.patch_device_autocast(_undo, _assume_if_estimating)
            autocast.skip_compiler(_undo)
            surroundings.patch_device_attributes(_undo)
        autocast.run_eagerly(_undo)


def _patch(stack: ExitStack, has_composites: bool) -> None:
    autocast.restore_mode_flags(stack)
    _patch_module_calls(stack)
    _hook_optimizer_steps(stack)
    _watch_random_states(stack)
    autocast.patch_import(stack, _is_capturing)
    autocast.patch_compile(stack, _is_capturing, _run_eagerly)
    _allow_flex_attention_on_meta(stack)
    patch_attention(stack, _active_mode)
    dispatch_mode.patch_shape_propagation(stack, _active_mode)
    autocast.patch_autocast(stack, active_casts)
    patch_checkpoint(stack, _active_mode)
    composites.patch_python_values(stack, _active_mode)
    derivatives.patch_backward(stack, _active_mode)
    composites.patch_resizing(stack, _active_mode)
    surroundings.patch_threads(stack)
    patch_conversion(stack, _active_mode)
    patch_modes(stack, _active_mode)
    if has_composites:
        composites.register_composite_kernels(_active_mode)
        composites.register_fast_path_kernels(_active_mode)
        patch_dispatch(stack, _active_mode)
    else:
        dispatch_mode.patch_functions(stack, _active_mode)
        composites.patch_fast_path(stack, _active_mode)


def _run_eagerly() -> None:
    with _lock:
        autocast.run_eagerly(_undo)


def release(session: CapturingThread) -> None:
    """Unregister a session; the last one undoes all patches."""
    with _lock:
        _sessions.discard(session)
        if not _sessions:
            _undo.close()


_active_mode: Callable[[], CaptureMode | None] = partial(getattr, THREAD, "mode")
"""Returns the mode of the running thread."""


@contextmanager
def patched_imports() -> Iterator[None]:
    """Context manager: patch ``torch.tensor`` and similar functions also in modules that import them by name."""
    with ExitStack() as stack:
        composites.patch_imports(stack, _active_mode)
        yield


def _is_capturing() -> bool:
    return THREAD.mode is not None


def active_casts() -> autocast.Casts | None:
    """Return the autocast casts of the running thread; None if it does not capture."""
    return None if THREAD.mode is None else THREAD.mode.casts


def _assume_if_estimating() -> Callable[[str], None] | None:
    mode = THREAD.mode
    return mode.assume if mode is not None and mode.is_estimate else None


def _note_unseen(module: Module) -> None:
    for session in [*_sessions]:
        session.note_unseen(module)


def failed_module(traceback: TracebackType | None) -> Module | None:
    """Return the innermost module whose call raised, from the traceback; None outside of all modules."""
    called = [frame.f_locals["self"] for frame, _ in walk_tb(traceback) if frame.f_code is _call_module.__code__]
    return called[-1] if called else None


def _in_module(
    module: Module, generator: Generator[Any, Any, Any], begun: list[tuple[ModuleCalls, int]] | None
) -> Generator[Any, Any, Any]:
    """Wrap the generator that a ``forward`` returned, so that its code still runs inside the module.

    Args:
        module: the module.
        generator: the generator.
        begun: the call of the module, in each log that records module calls.
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


def _run_whole(mode: CaptureMode, whole: Any, module: Module, args: Any, kwargs: Any, original: Any) -> Any:
    # Run a module that is recorded as one call.
    calls = mode.whole_calls
    if calls is None or mode.recording.inside_call.is_set or mode.paused.is_set:
        return original(module, *args, **kwargs)
    run = partial(original, module, *args, **kwargs)
    return calls.run(mode, whole, module, signature(module.forward), args, kwargs, run)


class _ModuleCalls(NamedTuple):
    # The code of :func:`_call_module` is put into another function, where the globals of this file are not visible.
    thread: ThreadState
    note_unseen: Callable[[Module], None]
    original: Callable[..., Any]
    is_pytorchs_own: bool
    end_module_call: Callable[[Any, Any], None]
    fast_modules: tuple[type, ...] = composites.MODULES
    as_one_operator: Callable[..., Any] = composites.as_one_operator
    lay_out_as_fused: Callable[..., None] = composites.lay_out_as_fused
    generator_type: type = GeneratorType
    in_module: Callable[..., Any] = _in_module
    run_whole: Callable[..., Any] = _run_whole


def _call_module(self: Module, *args: Any, _costcore: _ModuleCalls, **kwargs: Any) -> Any:
    mode = _costcore.thread.mode
    if mode is None:
        _costcore.note_unseen(self)
        return _costcore.original(self, *args, **kwargs)
    recording = mode.recording
    modules = recording.modules
    modules.enter(self, (args, kwargs))
    begun = recording.begin_module_call(args) if recording.has_module_calls else None
    try:
        if mode.whole_calls is not None and (whole := mode.whole_calls.of(self.__class__)) is not None:
            result = _costcore.run_whole(mode, whole, self, args, kwargs, _costcore.original)
        elif isinstance(self, _costcore.fast_modules):
            with _costcore.as_one_operator(mode, self, args, kwargs):
                result = _costcore.original(self, *args, **kwargs)
            _costcore.lay_out_as_fused(mode, self, args, kwargs, result)
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
    """Patch ``Module.__call__`` to maintain the module stack of the capture.

    The code object of PyTorch's function is replaced. Assigning another function would make Python update hundreds of
    subclasses, which takes longer than the rest of an empty capture.
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
    # Another library replaced ``Module.__call__``: its code is not ours to swap.
    calls = _ModuleCalls(THREAD, _note_unseen, original, False, _end_module_call)

    def __call__(self: Module, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - replaces it
        return _call_module(self, *args, _costcore=calls, **kwargs)

    replace(stack, Module, "__call__", __call__)


def _end_module_call(begun: list[tuple[ModuleCalls, int]], result: Any) -> None:
    outputs = shapes_of(result)
    for calls, number in begun:
        calls.set_outputs(number, outputs)


_tracked_sessions: set[object] = set()

_undo_tracking = ExitStack()

_HIDE_MODE_FROM = frozenset(("torch._ops", "torch.nn.modules.activation", "torch.nn.modules.transformer"))
"""Modules of PyTorch that take another path while a ``TorchFunctionMode`` is active; the mode is hidden from them."""


def acquire_tracking(session: object) -> None:
    """Register a session that tracks API calls; the first one hides the trackers from ``_HIDE_MODE_FROM``."""
    with _lock:
        is_first = not _tracked_sessions
        _tracked_sessions.add(session)
        if is_first:
            _hide_function_mode(_undo_tracking)


def release_tracking(session: object) -> None:
    """Unregister a session that tracks API calls; the last one undoes the patch of the first one."""
    with _lock:
        _tracked_sessions.discard(session)
        if not _tracked_sessions:
            _undo_tracking.close()


def _hide_function_mode(stack: ExitStack) -> None:
    from ..recording.modules import api_call_tracker  # few runs follow functions

    original: Callable[[Any], bool] = torch.overrides.has_torch_function

    @wraps(original)
    def has_torch_function(relevant_args: Any) -> bool:
        if sys._getframe(1).f_globals.get("__name__") not in _HIDE_MODE_FROM:
            return original(relevant_args)
        with api_call_tracker().disabled():
            return original(relevant_args)

    replace(stack, torch.overrides, "has_torch_function", has_torch_function)


def _hook_optimizer_steps(stack: ExitStack) -> None:
    def hook(optimizer: Optimizer, *_: object) -> None:
        if THREAD.mode is not None:
            THREAD.mode.recording.locator.begin_optimizer_step()
            for ledger in THREAD.mode.ledgers:
                if not ledger.paused.is_set:
                    ledger.use_optimizer(optimizer)

    stack.callback(register_optimizer_step_pre_hook(hook).remove)


def _watch_random_states(stack: ExitStack) -> None:
    # ``checkpoint`` keeps a copy of the generator's state, which takes memory.
    original = torch.get_rng_state

    @wraps(original)
    def get_rng_state() -> Tensor:
        state = original()
        if THREAD.mode is not None:
            THREAD.mode.ledgers.allocated(state)
        return state

    replace(stack, torch, "get_rng_state", get_rng_state)


def _allow_flex_attention_on_meta(stack: ExitStack) -> None:
    # ``flex_attention`` rejects meta tensors before any dispatch. It also rejects a mask on another device, such as a
    # mask that was made on the CPU, outside of the model.
    module: Any = sys.modules.get("torch.nn.attention.flex_attention")
    original = getattr(module, "_validate_device", None)
    if original is None:
        return

    def _validate_device(query: Tensor, *rest: Tensor) -> None:
        if THREAD.mode is None or not query.is_meta:
            original(query, *rest)

    def kv_num_blocks(mask: Any) -> Tensor:
        found: Tensor = vars(mask)["kv_num_blocks"]
        is_check = sys._getframe(1).f_code is module.flex_attention.__code__
        if not is_check or found.is_meta or THREAD.mode is None or not THREAD.mode.is_estimate:
            return found
        with without_capture():
            return found.to(META)

    def set_kv_num_blocks(mask: Any, value: Tensor) -> None:
        vars(mask)["kv_num_blocks"] = value

    replace(stack, module, "_validate_device", _validate_device)
    replace(stack, module.BlockMask, "kv_num_blocks", property(kv_num_blocks, set_kv_num_blocks))


def _is_plain_flex(score_mod: Any, mask: Any) -> bool:
    module: Any = sys.modules["torch.nn.attention.flex_attention"]
    return score_mod is module._identity and mask[-1] is module.noop_mask


# Higher-order operators (control flow, flex attention), before PyTorch compiles them


_ONLY_PRE_DISPATCH = torch._C.DispatchKeySet(PRE_DISPATCH)

INEXACT = {
    FLEX: "memory: flex_attention is counted as one kernel that keeps no scores; without torch.compile it keeps them",
    "scan": "memory: the tensors that scan saves at each step are counted once; PyTorch also copies them",
}
"""Notes on operators whose memory differs from a run, by operator."""

_functorch_level = torch._C._functorch.maybe_current_level


def patch_modes(stack: ExitStack, active_mode: Callable[[], CaptureMode | None]) -> None:
    """Pass higher-order operators to the mode of the capture, before PyTorch 2.7.

    Since 2.7 a mode requests this by ``supports_higher_order_operators``. Older versions raise an error if an operator
    has no kernel for the mode.

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
    """Run control flow and flex attention at the key ``PreDispatch``, and other higher-order operators at the next key.

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
        return _run_as_usual(operator, args, kwargs)  # another transform or mode handles it first
    if operator.name() in INEXACT:
        mode.ledgers.note(INEXACT[operator.name()], is_approximation=True)
    if operator.name() != FLEX:
        return CONTROL_FLOW[operator.name()](mode, *args, **kwargs)
    if not _is_plain_flex(args[3], args[4]):
        mode.assume(FLEX_ASSUMPTION)
    is_meta = args[0].is_meta
    if mode.recording.counts_pairs and isinstance(args[4], tuple):
        mode.recording.pairs = pairs_in_blocks(mode.values, args[4], args[0].shape[:-1].numel())
    run = partial(flex_on_meta, operator, *args[:6]) if is_meta else partial(_run_as_usual, operator, args, kwargs)
    with mode.ledgers.as_one_kernel():
        return mode.run_as_one_call(operator, args[:3], {}, run)


def _run_as_usual(operator: Any, args: Any, kwargs: Any) -> Any:
    with torch._C._ExcludeDispatchKeyGuard(_ONLY_PRE_DISPATCH):
        return operator(*args, **kwargs)


# Tensor subclasses: PyTorch refuses to convert a tensor that a dispatch mode has seen; since 2.5, only in constructors


_REFUSED = "already associated to a python object"
"""PyTorch's error for an alias that a dispatch mode has seen."""


def patch_conversion(stack: ExitStack, active_mode: Callable[[], CaptureMode | None]) -> None:
    """Make ``Tensor.as_subclass``, and the masks of ``torch.nn.attention.bias``, work in a thread that captures.

    Args:
        stack: undoes the patch.
        active_mode: returns the mode of the running thread.
    """
    original = Tensor.as_subclass

    @wraps(original)
    def as_subclass(tensor: Tensor, cls: Any) -> Any:
        try:
            return original(tensor, cls)
        except RuntimeError as error:
            mode = active_mode()
            if mode is None or _REFUSED not in str(error):
                raise
        with without_capture():
            made = original(tensor, cls)
        for log in mode.recording.logs:
            log.identities.register_alias(made, tensor)
        return made

    replace(stack, Tensor, "as_subclass", as_subclass)
    biases: Any = sys.modules.get("torch.nn.attention.bias")
    if biases is None:
        return

    def construct(cls: Any, *args: Any, **kwargs: Any) -> Any:
        # PyTorch makes a tensor, then converts it. Every class without its own constructor fails this way, but a patch
        # of ``Tensor`` would break imports of ``torch._dynamo``, so only ``CausalBias`` is patched.
        if active_mode() is None:
            return Tensor.__new__(cls, *args, **kwargs)
        with without_capture():
            return Tensor.__new__(cls, *args, **kwargs)

    replace(stack, biases.CausalBias, "__new__", staticmethod(construct))


# Activation checkpointing
#
# ``torch.utils.checkpoint`` looks up the device module ``torch.meta``, which PyTorch before 2.5 lacks; the meta device
# uses the random state of the CPU. Selective policies name GPU attention kernels; an estimate runs the CPU kernel.


_ATTENTION = "_scaled_dot_product_{}_attention"

_KERNELS_OF_GPU = tuple(map(_ATTENTION.format, ("flash", "efficient", "cudnn", "fused")))


def patch_checkpoint(stack: ExitStack, active_mode: Callable[[], CaptureMode | None]) -> None:
    """Give ``torch.utils.checkpoint`` a device module and random states for the meta device, as later PyTorch does.

    The module itself is patched only if it is imported.

    Args:
        stack: undoes the patch.
        active_mode: returns the mode of the running thread.
    """

    def is_capturing() -> bool:
        return active_mode() is not None

    _patch_fork(stack, is_capturing)
    checkpoint: Any = sys.modules.get("torch.utils.checkpoint")  # not imported here: until PyTorch 2.8 it imports sympy
    if checkpoint is None:
        return
    _patch_device_type(stack, checkpoint, is_capturing)
    for selective in (checkpoint._CachingTorchDispatchMode, checkpoint._CachedTorchDispatchMode):
        _patch_policy(stack, selective, active_mode)
    if _knows_meta(checkpoint._get_device_module):
        return
    original: Callable[..., Any] = checkpoint._get_device_module

    @wraps(original)
    def get_device_module(device: str = "cuda") -> Any:
        return torch.device(device) if device == "meta" and is_capturing() else original(device)

    replace(stack, checkpoint, "_get_device_module", get_device_module)


def _patch_device_type(stack: ExitStack, checkpoint: Any, is_capturing: Callable[[], bool]) -> None:
    # PyTorch recomputes under the autocast of the CPU and of the device of the inputs. The inputs are meta tensors
    # here, so return the device whose autocast is enabled.
    original: Callable[..., str] = checkpoint._infer_device_type

    @wraps(original)
    def infer_device_type(*args: Any) -> str:
        device = original(*args)
        return enabled_device() or device if device == "meta" and is_capturing() else device

    replace(stack, checkpoint, "_infer_device_type", infer_device_type)


def _patch_policy(stack: ExitStack, selective: Any, active_mode: Callable[[], CaptureMode | None]) -> None:
    # A policy that saves a GPU attention kernel must also save the CPU kernel, which an estimate runs instead.
    original: Callable[..., None] = selective.__init__

    @wraps(original)
    def init(self: Any, policy_fn: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        mode = active_mode()
        is_estimate = mode is not None and mode.is_estimate
        original(self, partial(_ask_for_gpu_kernels, policy_fn) if is_estimate else policy_fn, *args, **kwargs)

    replace(stack, selective, "__init__", init)


def _ask_for_gpu_kernels(policy: Callable[..., Any], context: Any, operator: Any, *args: Any, **kwargs: Any) -> Any:
    found = policy(context, operator, *args, **kwargs)
    if getattr(operator, "__name__", "") != f"{_ATTENTION.format('flash')}_for_cpu.default":
        return found
    names = (name for name in _KERNELS_OF_GPU if hasattr(torch.ops.aten, name))
    of_gpu = (policy(context, getattr(torch.ops.aten, name).default, *args, **kwargs) for name in names)
    return next((each for each in (found, *of_gpu) if _saves(each)), found)


def _saves(policy: Any) -> bool:
    # An item of ``CheckpointPolicy``, or a bool
    return policy is True or getattr(policy, "name", "").endswith("_SAVE")


def _patch_fork(stack: ExitStack, is_capturing: Callable[[], bool]) -> None:
    original: Callable[..., Any] = torch.random.fork_rng

    @wraps(original)
    def fork_rng(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("device_type") == "meta" and is_capturing():  # it uses the state of the CPU
            kwargs |= {"devices": (), "device_type": "cpu"}
            return original(**dict(zip(("devices", "enabled"), args, strict=False)) | kwargs)
        return original(*args, **kwargs)

    replace(stack, torch.random, "fork_rng", fork_rng)


def _knows_meta(get_device_module: Callable[..., Any]) -> bool:
    try:
        get_device_module("meta")
    except AttributeError:
        return False
    return True


# Attention of jagged nested tensors, which PyTorch implements in Python


_FUNCTION = torch._C._nn.scaled_dot_product_attention

_OPERATOR = torch.ops.aten.scaled_dot_product_attention.default

_JAGGED = "attention of jagged tensors"


def patch_attention(stack: ExitStack, active_mode: Callable[[], CaptureMode | None]) -> None:
    """Record attention of jagged tensors as one call, without the operators inside.

    Args:
        stack: undoes the patch.
        active_mode: returns the mode of the running thread.
    """
    kind: Any = NestedTensor
    original = vars(kind)["__torch_function__"]

    def __torch_function__(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: N807
        run = partial(original.__func__, cls, func, types, args, kwargs)
        mode = active_mode() if func is _FUNCTION else None
        if mode is None or mode.paused.is_set or mode.is_over:
            return run()
        run = partial(_attend, mode, run, *args, **kwargs or {})
        return mode.run_as_one_call(_OPERATOR, args, kwargs or {}, run)

    replace(stack, kind, "__torch_function__", classmethod(__torch_function__))


def _attend(
    mode: CaptureMode, run: Callable[[], Any], query: Any, key: Any, value: Any, *rest: Any, **settings: Any
) -> Any:
    jagged = [x for x in (query, key, value) if type(x) is NestedTensor and x.is_meta]
    if not jagged:
        return run()
    if not all(mode.is_known(x.offsets()) for x in jagged):
        raise RuntimeError(f"{_JAGGED} needs the lengths of the samples, which meta tensors lack")
    samples = [x.transpose(1, 2) for x in jagged if x.dim() == 4]
    if len(samples) < 3 or not all(x.is_contiguous() for x in samples):
        from torch.utils import flop_counter  # noqa: F401 - PyTorch reads it without importing it

        return run()
    # On a CPU, PyTorch converts the operands to nested tensors of the layout ``strided``, which the meta device lacks.
    # The result is therefore made here, and has no backward pass.
    if torch.is_grad_enabled() and any(x.requires_grad for x in samples):
        raise RuntimeError(f"{_JAGGED} has no backward pass on meta tensors")
    first = samples[0].values()
    made = first.new_empty((*first.shape[:2], value.shape[-1]))
    lengths = {"min_seqlen": query._maybe_min_seqlen, "max_seqlen": query._maybe_max_seqlen}
    view: Any = sys.modules[NestedTensor.__module__].nested_view_from_values_offsets_lengths
    return view(made, query.offsets(), None, **lengths).transpose(1, 2)


# The session of one thread, shared by its captures
#
# While a thread captures, ``_CURRENT.session`` is its :class:`Session`, and ``THREAD.mode`` the mode of that session.
# :mod:`.dispatch_mode`, which this file imports, knows ``Session`` as the protocol :class:`.CapturingThread`.


class Session:
    """The recording of a thread, from its first capture to its last one.

    Captures may end in any order, and in another thread. Mode stack and dispatch keys are thread-local: if the last
    capture ends in another thread, the mode stays on the stack, without effect, until this thread runs a composite
    operator or captures again. The function mode, :class:`.ApiCallTracker`, may stay even then, also without effect: if
    the composite operator runs inside a function that the function mode handles, PyTorch has taken this mode off the
    stack, and puts it back afterwards.

    Args:
        mode: the mode that sees the operators.
        has_composites: whether composite operators are captured at the key ``PreDispatch``.

    Attributes:
        threads: the sessions of threads that this thread started, with their tokens; they end with this session.
        unseen_threads: other threads that ran modules without a capture (in an estimate: modules of its model).
    """

    def __init__(self, mode: CaptureMode, has_composites: bool) -> None:
        self.mode = mode
        mode.session = self
        self.has_composites = has_composites
        self.threads: dict[Session, object] = {}
        self.unseen_threads: set[int] = set()
        self._captures: set[object] = set()
        self._tracking: set[object] = set()
        self._api_calls: ApiCallTracker | None = None
        self._lock = threading.Lock()
        self._thread = threading.get_ident()
        self._undo_in_process, self._undo_in_thread = ExitStack(), ExitStack()

    def join(self, stack: ExitStack) -> object:
        """Add a capture until ``stack`` is closed; the first one begins the session.

        Returns a token, with which :meth:`leave` can end the capture earlier. Each action registers its undo before it
        runs, so that a failure or an interrupt leaves nothing behind.
        """
        token = object()
        stack.callback(self.leave, token)
        with self._lock:
            is_first = not self._captures
            self._captures.add(token)
        if is_first:
            self._start()
        return token

    def _start(self) -> None:
        self._undo_in_process.callback(release, self)
        acquire(self, self.has_composites)
        self._undo_in_thread.callback(setattr, THREAD, "mode", None)
        THREAD.mode = self.mode
        if self.has_composites:
            was_included = torch._C._dispatch_tls_is_dispatch_key_included(PRE_DISPATCH)
            self._undo_in_thread.callback(torch._C._dispatch_tls_set_dispatch_key_included, PRE_DISPATCH, was_included)
            torch._C._dispatch_tls_set_dispatch_key_included(PRE_DISPATCH, True)
            if autocast.is_any_enabled():
                autocast.register_kernels(active_casts)
        self._undo_in_thread.callback(self._stop_mode)
        self.mode.__enter__()
        self.mode.end_in_thread = self.restore
        _CURRENT.session = self

    @property
    def is_estimate(self) -> bool:
        """Whether this is an estimate rather than a run."""
        return self.mode.is_estimate

    def begin_thread(self, mode: CaptureMode, stack: ExitStack) -> None:
        """Capture in the current thread, started by the thread of this session, until ``stack`` or the session ends.

        Args:
            mode: the mode that sees the operators of the current thread.
            stack: ends the capture.
        """
        started = Session(mode, self.has_composites)
        self.threads[started] = started.join(stack)
        stack.callback(self.threads.pop, started, None)

    def note_unseen(self, module: Module) -> None:
        """Record that a thread without a capture runs a module."""
        if not self.mode.is_estimate or self.mode.recording.modules.knows(module):
            self.unseen_threads.add(threading.get_ident())

    def track_api_calls(self, stack: ExitStack) -> ApiCallTracker:
        """Track API calls for one more capture, until ``stack`` is closed."""
        from ..recording.modules import api_call_tracker

        token = object()
        stack.callback(self._stop_tracking, token)
        with self._lock:
            is_first = not self._tracking
            self._tracking.add(token)
        tracker = self._api_calls = api_call_tracker()
        if is_first:
            acquire_tracking(self)
            self.mode.api_calls = tracker
            tracker.start()
        return tracker

    def _stop_tracking(self, token: object) -> None:
        # If this runs in another thread, the mode stays on the stack of the first one; see :class:`Session`.
        with self._lock:
            self._tracking.discard(token)
            is_last = not self._tracking
        if not is_last:
            return
        self.mode.api_calls = None
        with ExitStack() as stack:
            stack.callback(release_tracking, self)
            if self._api_calls is not None:
                self._api_calls.is_over, self._api_calls.index = True, None
                if threading.get_ident() == self._thread:
                    self._api_calls.remove()

    def leave(self, token: object) -> None:
        """Remove the capture of a token; the last one ends the session."""
        with self._lock:
            self._captures.discard(token)
            is_last = not self._captures
        if not is_last:
            return
        for session, its_token in [*self.threads.items()]:
            session.leave(its_token)
        with self._undo_in_process:
            if threading.get_ident() == self._thread:
                self.restore()
            else:
                self.mode.end()

    def _stop_mode(self) -> None:
        # ``self.mode.stop`` is looked up when the session ends: :mod:`.surroundings` may have changed the class of the
        # mode.
        self.mode.stop()

    def restore(self) -> None:
        """Restore the state of the thread that began the session, in that thread."""
        _CURRENT.session = None
        self.mode.end_in_thread = self.mode.session = None
        with self._undo_in_thread:
            if self._api_calls is not None:
                self._api_calls.remove()


class _CurrentSession(threading.local):
    session: Session | None = None


_CURRENT = _CurrentSession()  # of the running thread; None if it does not capture


def join_session(stack: ExitStack, has_replay: bool, is_estimate: bool, has_composites: bool) -> Session:
    """Return the session of the running thread with one more capture; the first capture begins it.

    Args:
        stack: ends the capture.
        has_replay: whether repeated calls on meta tensors skip their kernels.
        is_estimate: whether this is an estimate rather than a run.
        has_composites: whether composite operators are captured at the key ``PreDispatch``.
    """
    if _CURRENT.session is not None and _CURRENT.session.mode.is_over:
        _CURRENT.session.restore()
    session = _CURRENT.session
    if session is None:
        session = Session(CaptureMode(has_replay, is_estimate), has_composites)
    session.join(stack)
    return session
