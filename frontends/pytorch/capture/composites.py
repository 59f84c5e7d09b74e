"""Composite operators, recorded as one call.

PyTorch decomposes a composite operator (``linear``, ``layer_norm``, ``lstm`` …) before a dispatch mode can see it, into
operators that depend on shapes, layout, device and grad mode. At the dispatch key ``PreDispatch``, which comes before
all others and which nothing uses in an ordinary run, it is still whole. A kernel registered at that key executes it,
records it and passes it on.

The kernels run only in threads whose local state includes that key, that is, while they capture. They are registered at
the first capture, which takes a millisecond, and stay registered. They do not affect other threads, tracing and export.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from typing import Any

import torch
from torch._ops import OpOverload

from ..meta.follow import follow
from ..meta.operands import PLAIN, are_distributed, have_data, is_mixed, tensors_of, without_data
from ..operators.composite_ops import ADDS_IN_PLACE, COMPOSITES, KERNELS_OF_CPU, WITHOUT_GRADIENT, exists, overload
from ..operators.plan import OperatorPlan
from ..recording.stopwatch import Stopwatch
from . import autocast
from .dispatch_keys import AFTER, AFTER_CAPTURE
from .dispatch_mode import CaptureMode
from .libraries import kernels_of_aten
from .stand_ins import run_stand_in

_grad_enabled = torch.is_grad_enabled
_functorch_level = torch._C._functorch.maybe_current_level
_mode_count = torch._C._len_torch_dispatch_stack


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
        if mode is None or mode.in_composite or mode.is_paused or _functorch_level() is not None:
            if mode is not None and autocast.is_any_enabled() and autocast.has_rule(operator, tensors_of(args, kwargs)):
                return mode.casts.run(operator, args, kwargs)
            return redispatch(keyset & AFTER, *args, **kwargs)
        if mode.is_over and mode.end_in_thread is not None:
            mode.end_in_thread()
            return operator(*args, **kwargs)
        if mode.spellings is not None and mode.spellings.is_listening:
            with mode.spellings.silenced():
                return _call(mode, operator, redispatch, keyset, args, kwargs)
        return _call(mode, operator, redispatch, keyset, args, kwargs)

    return kernel


def _unless_a_gradient_is_needed(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    def kernel_without_gradient(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        if _grad_enabled() and any(tensor.requires_grad for tensor in tensors_of(args, kwargs)):
            return overload(name).redispatch(keyset & AFTER, *args, **kwargs)
        return kernel(keyset, *args, **kwargs)

    return kernel_without_gradient


def _call(
    mode: CaptureMode, operator: OpOverload, redispatch: Callable[..., Any], keyset: Any, args: Any, kwargs: Any
) -> Any:
    """Find a call in the cache, replay or run it, and record it."""
    plans = mode.cache.plans
    plan = plans.by_id.get(id(operator)) or plans.of(operator)
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
    ledgers = mode.ledgers
    is_only_mode = _mode_count() == 1
    replay = None if cached is None or (ledgers and cached.frame is None) else cached.replay
    if is_only_mode and cached is not None and replay is not None and not _grad_enabled():
        with mode.without_capture:
            result = replay(args)
        for ledger in ledgers:
            ledger.replay_frame(cached.frame, args, result)
    elif (
        is_only_mode
        and (have_data(tensors) if cached is None else cached.have_data)
        and not (ledgers and _sees_inner(plan))
    ):  # no inner operator could be replayed or assumed: they run as without a capture
        watch = Stopwatch(tensors, kwargs) if mode.recording.measures_time else None
        with mode.without_capture:
            result = redispatch(keyset & AFTER_CAPTURE, *args, **kwargs)
        if watch is not None:
            mode.recording.reading = watch.stop()
        for ledger in ledgers:
            ledger.see(operator, args, kwargs, result)
    else:
        passed = (args, kwargs)
        if mode.is_estimate and is_mixed(tensors):
            with mode.without_capture:
                passed = without_data((args, kwargs), keeps_integers=True)
        mark = ledgers[0].begin_frame() if ledgers else 0
        casts_inside = plan.native in autocast.CASTS_INSIDE and autocast.is_any_enabled()
        # a mode that handles the operator as a whole, as in inference, would run what is inside without autocast
        with ExitStack() as stack:
            for ledger in ledgers if plan.native.removeprefix("aten::") in KERNELS_OF_CPU else ():
                stack.enter_context(ledger.whole())
            result = _run(mode, plan, redispatch, keyset & (AFTER_CAPTURE if casts_inside else AFTER), *passed)
        if cached is None:
            cached = mode.add_call(plan, key, args, kwargs, tensors, result)
        for ledger in ledgers:
            ledger.see(operator, args, kwargs, result)
        if ledgers and cached.replay is not None and cached.frame is None:
            cached.frame = ledgers[0].frame(mark, result)
    if cached is None:
        cached = mode.add_call(plan, key, args, kwargs, tensors, result)
    if cached.carries:
        follow(mode.values, plan.follow_rule, args, kwargs, tensors, result)
    mode.record(cached, tensors, args, kwargs, result)
    return result


def _sees_inner(plan: OperatorPlan) -> bool:
    """Return whether a memory ledger sees the operators inside a composite operator, which are not recorded.

    Inside a dispatch mode, PyTorch would compute the others by another algorithm.
    """
    return plan.native.removeprefix("aten::") not in WITHOUT_GRADIENT


def _run(
    mode: CaptureMode, plan: OperatorPlan, redispatch: Callable[..., Any], keyset: Any, args: Any, kwargs: Any
) -> Any:
    """Run an operator whose inner operators arrive in the mode, which does not record them."""
    mode.in_composite = True
    if plan.native in ADDS_IN_PLACE:
        for ledger in mode.ledgers:
            ledger.adds_in_place = True
    try:
        watch = Stopwatch(tensors_of(args, kwargs), kwargs) if mode.recording.measures_time else None
        result = run_stand_in(mode, plan.native, args, kwargs)
        if result is None:
            result = redispatch(keyset, *args, **kwargs)
        if watch is not None:
            mode.recording.reading = watch.stop()
    except (RuntimeError, IndexError, ValueError) as error:
        mode.recording.refused.note(error, plan, args, kwargs)
        raise
    finally:
        mode.in_composite = False
        for ledger in mode.ledgers:
            ledger.adds_in_place = False
    return result
