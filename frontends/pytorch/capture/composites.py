"""Composite operators, recorded as one call.

PyTorch decomposes a composite operator (``linear``, ``layer_norm``, ``lstm`` …) before a dispatch mode can see it, into
operators that depend on shapes, layout, device and grad mode. At the dispatch key ``PreDispatch``, which comes before
all others and which nothing uses in an ordinary run, it is still whole. A kernel registered at that key executes it,
records it and passes it on.

The kernels run only in threads whose local state includes that key, that is, while they capture. They are registered at
the first capture, which takes a millisecond, and stay registered. They do not affect other threads, tracing and export.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.autograd import forward_ad

from ..meta.operands import PLAIN, are_distributed, have_data, is_mixed, tensors_of, without_data
from ..operators.call_cache import CachedCall
from ..operators.composite_ops import ADDS_IN_PLACE, COMPOSITES, KERNELS_OF_CPU, WITHOUT_GRADIENT, exists, overload
from ..operators.plan import OperatorPlan
from . import autocast
from .dispatch_keys import AFTER, AFTER_CAPTURE, CAPTURED
from .dispatch_mode import CaptureMode
from .libraries import kernels_of_aten
from .stand_ins import run_stand_in

_NO_CONTEXT = nullcontext()
_grad_enabled = torch.is_grad_enabled
_functorch_level = torch._C._functorch.maybe_current_level
_mode_count = torch._C._len_torch_dispatch_stack
_current_node = torch._C._current_autograd_node


@cache
def register_kernels(active_mode: Callable[[], CaptureMode | None]) -> None:
    """Register a kernel for every composite operator, for the rest of the process.

    Args:
        active_mode: returns the mode of the running thread.
    """
    with kernels_of_aten() as library:
        for name in sorted(COMPOSITES):
            if exists(name):
                kernel = _kernel(name, active_mode)
                if name in WITHOUT_GRADIENT:
                    kernel = _unless_a_gradient_is_needed(name, kernel)
                library.impl(name, kernel, "PreDispatch", with_keyset=True)


def _kernel(name: str, active_mode: Callable[[], CaptureMode | None]) -> Callable[..., Any]:
    operator: OpOverload | None = None
    redispatch: Any = None

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal operator, redispatch
        if operator is None:  # PyTorch makes the object now, which takes long for all of them
            operator = overload(name)
            redispatch = operator._handle.redispatch_boxed  # operator.redispatch without its Python frame
        mode = active_mode()
        if mode is None or mode.recording.inside.is_set or mode.paused.is_set or _functorch_level() is not None:
            if mode is not None and autocast.is_any_enabled() and autocast.has_rule(operator, tensors_of(args, kwargs)):
                return mode.casts.run(operator, args, kwargs)
            return redispatch(keyset & AFTER, *args, **kwargs)
        if forward_ad._current_level >= 0 and _have_tangents(args, kwargs):
            return redispatch(keyset & AFTER, *args, **kwargs)
        if mode.is_over and mode.end_in_thread is not None:
            mode.end_in_thread()
            return operator(*args, **kwargs)
        if mode.spellings is not None and mode.spellings.is_listening:
            with mode.spellings.silenced():
                return _call(mode, operator, redispatch, keyset, args, kwargs)
        return _call(mode, operator, redispatch, keyset, args, kwargs)

    return kernel


def _have_tangents(args: Any, kwargs: Any) -> bool:
    """Return whether an operand has a tangent, for which other operators run beside those of an operator."""
    with torch._C._ExcludeDispatchKeyGuard(CAPTURED):
        duals = (torch._VF._unpack_dual(x, level=forward_ad._current_level) for x in tensors_of(args, kwargs))
        return any(tangent is not None for _, tangent in duals)


def _unless_a_gradient_is_needed(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    def kernel_without_gradient(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        if _grad_enabled() and any(tensor.requires_grad for tensor in tensors_of(args, kwargs)):
            return overload(name).redispatch(keyset & AFTER, *args, **kwargs)
        return kernel(keyset, *args, **kwargs)

    return kernel_without_gradient


def _call(
    mode: CaptureMode, operator: OpOverload, redispatch: Callable[..., Any], keyset: Any, args: Any, kwargs: Any
) -> Any:
    """Find a call in the cache, replay or run it, and show it to the observers."""
    plan = mode.cache.plans.by_id.get(id(operator)) or mode.cache.plans.of(operator)
    key, cached, tensors = mode.find_call(plan, args, kwargs)
    if cached is None and not all(type(tensor) in PLAIN for tensor in tensors) and are_distributed(tensors):
        return redispatch(keyset & AFTER, *args, **kwargs)
    if autocast.is_any_enabled():
        if autocast.casts_first(operator, keyset & AFTER):
            return redispatch(keyset & AFTER, *args, **kwargs)  # it comes again after its inputs were cast
        if autocast.has_rule(operator, tensors):
            return mode.casts.run(operator, args, kwargs)
        if plan.native in autocast.CASTS_INSIDE:
            key = cached = None  # what it returns depends on more than its operands
    call = CompositeCall(mode, plan, cached, tensors, redispatch, keyset, args, kwargs)
    run = _choose_run(call)
    ledger = mode.ledgers[0] if mode.ledgers and run is not _replay and run is not _run_outside else None
    mark = 0 if ledger is None else ledger.begin_frame()
    timed = mode.recording.measures_time and run is not _replay
    result = mode.recording.timed(tensors, kwargs, run, call) if timed else run(call)
    if cached is None or type(result) is _Partial:
        if type(result) is _Partial:
            return result.value
        cached = mode.add_call(plan, key, args, kwargs, tensors, result)
    mode.observe(cached, tensors, args, kwargs, result)
    if ledger is not None and cached.replay is not None and cached.frame is None:
        cached.frame = ledger.frame(mark, result)
    return result


class CompositeCall(NamedTuple):
    """A call of a composite operator.

    Attributes:
        mode: the capture.
        plan: how calls of the operator are treated.
        cached: an equal call that ran before; None if there was none.
        tensors: all tensors among the arguments.
        redispatch: passes the operator on to other dispatch keys than ``PreDispatch``, of those in ``keyset``.
        keyset: the dispatch keys of the call.
        args: its positional arguments.
        kwargs: its keyword arguments.
    """

    mode: CaptureMode
    plan: OperatorPlan
    cached: CachedCall | None
    tensors: Sequence[Tensor]
    redispatch: Callable[..., Any]
    keyset: Any
    args: Any
    kwargs: Any


class _Partial(NamedTuple):
    """The result of a composite operator of which only a part ran, which is recorded instead."""

    value: Any


def _run_below_modes(call: CompositeCall) -> Any:
    """Run an operator below other modes, which need not run all of it.

    The mode of selective checkpointing returns what it saved instead of recomputing it. In a backward pass the inner
    operators are therefore recorded, and replace the operator if they are fewer than in the forward pass.
    """
    mode, recording = call.mode, call.mode.recording
    key = (id(call.plan), *(x.shape for x in call.tensors))
    known = mode.inner_operators.get(key) if _current_node() is not None else None
    mode.n_arrived, is_partial = 0, False
    ends = [] if known is None else [log.begin_inner() for log in recording.logs]
    recording.records_inside = known is not None
    try:
        result = _run_inside(call)
        if known is None:
            mode.inner_operators[key] = mode.n_arrived
        else:
            is_partial = mode.n_arrived < known
    finally:  # a recomputation ends by an exception before its last product
        mode.n_arrived, recording.records_inside = -1, False
        for end in ends:
            end(is_partial)
    return _Partial(result) if is_partial else result


def _choose_run(call: CompositeCall) -> Callable[[CompositeCall], Any]:
    """Return how to run a call.

    A memory ledger sees the operators inside a composite operator, although they are not recorded, except where PyTorch
    would compute the others by another algorithm inside a dispatch mode.
    """
    cached, ledgers = call.cached, call.mode.ledgers
    if _mode_count() != 1:
        return _run_below_modes
    if cached and cached.replay and not _grad_enabled() and (not ledgers or cached.frame is not None):
        return _replay
    if ledgers and _name(call.plan) not in WITHOUT_GRADIENT:
        return _run_inside
    # if all tensors have data, no inner operator could be replayed or assumed
    return _run_outside if (have_data(call.tensors) if cached is None else cached.have_data) else _run_inside


def _replay(call: CompositeCall) -> Any:
    """Repeat a call whose result follows from its key; the memory inside is that of the first one."""
    cached: Any = call.cached
    with call.mode.without_capture:
        result = cached.replay(call.args)
    for ledger in call.mode.ledgers:
        ledger.replay_frame(cached.frame, call.tensors, result)
    return result


def _run_outside(call: CompositeCall) -> Any:
    """Run an operator as without a capture."""
    with call.mode.without_capture:
        return call.redispatch(call.keyset & AFTER_CAPTURE, *call.args, **call.kwargs)


def _run_inside(call: CompositeCall) -> Any:
    """Run an operator whose inner operators arrive in the mode, which does not record them."""
    mode, plan, args, kwargs = call.mode, call.plan, call.args, call.kwargs
    if mode.is_estimate and is_mixed(call.tensors):
        with mode.without_capture:
            args, kwargs = without_data((args, kwargs), keeps_integers=True)
    # a mode that handles the operator as a whole, as in inference, would run what is inside without autocast
    casts_inside = plan.native in autocast.CASTS_INSIDE and autocast.is_any_enabled()
    memory = _memory_inside(mode, plan) if mode.ledgers else _NO_CONTEXT
    with memory, mode.recording.inside:
        try:
            result = run_stand_in(mode, plan.native, args, kwargs)
            if result is None:
                keyset = call.keyset & (AFTER_CAPTURE if casts_inside else AFTER)
                result = call.redispatch(keyset, *args, **kwargs)
            return result
        except (RuntimeError, IndexError, ValueError) as error:
            mode.recording.refused.note(error, plan, args, kwargs)
            raise


def _memory_inside(mode: CaptureMode, plan: OperatorPlan) -> AbstractContextManager[None]:
    """Return a context in which memory ledgers count what an operator allocates inside as a run allocates it."""
    if _name(plan) in KERNELS_OF_CPU:
        return mode.ledgers.whole()
    return mode.ledgers.adding_in_place() if plan.native in ADDS_IN_PLACE else _NO_CONTEXT


def _name(plan: OperatorPlan) -> str:
    return plan.native.removeprefix("aten::")
