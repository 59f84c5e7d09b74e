"""The dispatch mode, which runs, caches and records every operator.

Every operator takes three steps: find an equal call in the cache, choose how to run it, and notify the observers
(:meth:`.Recording.observe`). Composite operators take the same steps in :mod:`.composites`. After the mode come its
helpers: patched functions for old releases, CPU replacements, regrouped functions, and shards of parameters.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial, wraps
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor
from torch._C import TensorBase
from torch._ops import OpOverload
from torch.jit import ScriptModule
from torch.nn import Module, Parameter, functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode_stack,
    _len_torch_dispatch_stack,
    _pop_mode,
    _push_mode,
)

from costcore.errors import unknown
from costcore.trace.run import Recorder, Regrouping

from ..meta import replacements
from ..meta.branches import CONDITION_IS_TRUE, NUMBERS_ARE_ONE, Branches
from ..meta.propagate_values import DRAWN, SELECTED, TOO_LARGE, Change, assumptions_of, choose, propagate
from ..meta.replacements import SPARSE_RESULT, result_without_kernel, where_by_bytes, with_values_of
from ..meta.values import (
    META,
    PLAIN,
    Values,
    all_tensors,
    has_complex,
    is_mixed,
    is_plain_meta,
    sparse_on_meta,
    tensors_of,
    without_data,
)
from ..naming import Flag
from ..operators.call_cache import MOVE, CachedCall, CallCache, is_move
from ..operators.plan import COMPOSITES, CONTROL_FLOW, OperatorPlan, decomposed, exists, overload, run_kernel
from ..recording.recording import CallLog, Ledgers, Recording
from ..tensors import SPARSE_LAYOUTS, PackedWeights, cached_tensors, modules_of, nested_tensors, without_run
from .autocast import CAPTURED, Casts, LazyValues, replace

if TYPE_CHECKING:
    from ..recording.modules import ApiCallTracker


ONE_DEVICE = "memory: .to() from the meta device is treated as a no-op"

_NO_CONTEXT = nullcontext()


def _keep_settings(stack: ExitStack) -> None:
    pass


_DETACH = torch.ops.aten.detach.default


class CapturingThread(Protocol):
    """The :class:`.Session` of a thread that captures."""

    @property
    def is_estimate(self) -> bool:
        """Whether this is an estimate rather than a run."""

    def begin_thread(self, mode: CaptureMode, stack: ExitStack) -> None:
        """Capture in the current thread, started by the thread of this session, until ``stack`` is closed."""

    def note_unseen(self, module: Module) -> None:
        """Record that a thread without a capture runs a module."""


class OneCallTable(Protocol):
    """The :class:`.WholeCalls` of a capture: modules and functions that are recorded as one call."""

    def of(self, kind: type) -> Any:
        """Return how a class of modules is recorded as one call; None if its inside is recorded."""

    def run(self, *args: Any) -> Any:
        """Return the result of a call, recorded as one."""


class CaptureMode(TorchDispatchMode):
    """The capture of one thread.

    Args:
        has_replay: whether repeated calls on meta tensors skip their kernels.
        is_estimate: whether this is an estimate rather than a run. If one operand of a call is a meta tensor, an
            estimate moves the others to the meta device. It rejects the operands that a real run would reject.

    Attributes:
        cache: the calls seen before.
        recording: the records of the run.
        ledgers: the memory ledgers of the captures that have one.
        values: the known values of meta tensors.
        paused: whether operators run without being recorded.
        meta_modules: meta copies of modules that ran on their fast path.
        api_calls: tracks the API functions that the code calls, if a capture requests it.
        is_over: whether the last capture of this thread ended in another thread. The mode is then still on the stack,
            and operators run unrecorded.
        end_in_thread: restores the state of the thread; only that thread may call it.
        casts: casts meta operands under autocast.
        n_arrived: while a composite operator runs inside another dispatch mode, the number of inner operators that have
            reached this mode; else -1. The other mode may skip some of them.
        inner_operators: the number of inner operators of a composite operator, by operator and shapes.
        session: the session of the thread; None after the capture.
        makes_arrays: whether code outside of all modules may turn tensors without data into NumPy arrays.
        device: the device that meta tensors report to user code; None: ``meta``.
        moved: tensors that were moved to the meta device to get gradients, and the data that :meth:`stop` gives back.
        whole_calls: modules and functions with a cost of their own; None if there are none.
        branches: decides conditions without data; None to assume that they are True.
        thread_settings: applies settings to a thread that captured code starts, until the stack is closed.
        without_capture: a context in which operators run uncaptured; it does not nest.
        observe: passes a finished call to all observers.
    """

    has_replay: bool | Any
    paused: Flag
    is_over: bool
    casts: Casts
    n_arrived: int
    without_capture: Any
    cache: CallCache
    values: Values
    ledgers: Ledgers
    recording: Recording
    find_call: Callable[[OperatorPlan, Any, Any], tuple[tuple[Any, ...] | None, CachedCall | None, list[Any]]]
    add_call: Callable[[OperatorPlan, tuple[Any, ...] | None, Any, Any, Sequence[Any], Any], CachedCall]
    observe: Callable[[CachedCall, Sequence[Any], Any, Any, Any], None]

    supports_higher_order_operators = True

    def __init__(self, has_replay: bool = True, is_estimate: bool = False) -> None:
        super().__init__()
        self.has_replay = has_replay and _len_torch_dispatch_stack() == 0
        self.is_estimate = is_estimate
        self.paused = Flag()
        self.meta_modules: WeakKeyDictionary[Module, Module] = WeakKeyDictionary()
        self.is_over = False
        self.casts = Casts(is_estimate)
        self.n_arrived = -1
        self.inner_operators: dict[tuple[Any, ...], int] = {}
        self.end_in_thread: Callable[[], None] | None = None
        self.api_calls: ApiCallTracker | None = None
        self.session: CapturingThread | None = None
        self.branches: Branches | None = None
        self.whole_calls: OneCallTable | None = None
        self.makes_arrays = False
        self.device: Any = None
        self.moved: list[tuple[ref[Tensor], Tensor]] = []
        self.thread_settings: Callable[[ExitStack], None] = _keep_settings
        self.without_capture = torch._C._ExcludeDispatchKeyGuard(CAPTURED)
        self.cache = CallCache(self.has_replay, checks_operands=is_estimate)
        self.values = Values()
        self.recording = Recording(self.cache.plans, self.values, is_estimate)
        self.ledgers = self.recording.ledgers
        self.find_call = self.cache.find
        self.add_call = self.cache.add
        self.observe = self.recording.observe
        self._constants = GraphConstants()
        self._plans = self.cache.plans.by_id  # the fast path; empty if every call must check for unknown data
        self._packed = PackedWeights()
        logs = self.recording.logs
        self.cache.has_assumed = lambda: any(log.recorder.assumptions for log in logs)

    def share(self, parent: CaptureMode, recording: Recording) -> None:
        """Share known values and logs with the mode of the thread that started this one."""
        self.cache, self.values, self.meta_modules = parent.cache, parent.values, parent.meta_modules
        self.thread_settings, self.branches = parent.thread_settings, parent.branches
        self.whole_calls, self.device = parent.whole_calls, parent.device
        self._plans = {} if self.values.has_unknown_data else self.cache.plans.by_id
        self.find_call, self.add_call = self.cache.find, self.cache.add
        self.recording, self.ledgers, self.observe = recording, recording.ledgers, recording.observe

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # PyTorch would wrap every operator to disable the compiler. A capture disables it once:
        # :func:`.autocast.run_eagerly`.
        return False

    def stop(self) -> None:
        """Remove this mode from the mode stack, even if other modes were pushed after it, and forget all values."""
        self.thread_settings = _keep_settings
        try:
            stack = _get_current_dispatch_mode_stack()
            if self in stack:
                self._remove_from_below(stack[stack.index(self) + 1 :])
        finally:
            self.values.clear()
            for reference, data in self.moved:
                if (tensor := reference()) is not None and tensor.is_meta:
                    TensorBase.requires_grad_(data, tensor.requires_grad)
                    torch._C._swap_tensor_impl(tensor, data)

    def _remove_from_below(self, above: Sequence[TorchDispatchMode]) -> None:
        for _ in above:
            _pop_mode()
        try:
            self.__exit__(None, None, None)
        finally:
            for mode in above:
                _push_mode(mode)

    def end(self) -> None:
        """Stop recording, when the last capture ends in another thread."""
        self.is_over = True
        self.session = None
        self._plans = {}

    def disabled(self) -> AbstractContextManager[None]:
        """Context manager: do not track functions that the capture itself calls."""
        return nullcontext() if self.api_calls is None else self.api_calls.disabled()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator, and notify the observers."""
        if self.api_calls is not None and self.api_calls.enabled:
            with self.api_calls.disabled():
                return self.__torch_dispatch__(func, types, args, kwargs)
        plan = self._plans.get(id(func))  # hashing an operator runs Python code, which is slow
        if plan is None:
            if self.is_over:
                return func(*args, **(kwargs or {}))
            plan = self.cache.plans.of(func)
            if self.values.has_unknown_data and self.n_arrived < 0 and all(kind in PLAIN for kind in types):
                return self._choose_run(plan, args, kwargs or {})(plan, args, kwargs or {})
        if types and any(kind not in PLAIN and kind.__name__ == "DTensor" for kind in types):
            self._register_shards(args)
            return NotImplemented  # DTensor then runs operators on the local tensors
        if self.n_arrived >= 0 and plan.is_recorded:
            self.n_arrived += 1
        if plan.is_plain and not self.paused.is_set:
            return self._call(plan, args, kwargs)
        kwargs = kwargs or {}
        return self._choose_run(plan, args, kwargs)(plan, args, kwargs)

    # How an operator runs:
    # * ``_run_unrecorded``: only its result and its views matter;
    # * ``_run_on_meta``, ``_run_without_data``, ``_run_assumed``: an estimate lacks the data;
    # * ``_run_comparison``, ``_run_scalar_tensor``, ``_run_move``: calls of PyTorch itself, not of the model;
    # * ``_run_control_flow``, ``_run_packed``, ``_run_decomposed``: operators that stand for several;
    # * ``_call``: all others, replayed from the cache if an equal call has run.

    def _choose_run(self, plan: OperatorPlan, args: Any, kwargs: Any) -> Callable[[OperatorPlan, Any, Any], Any]:
        if self.paused.is_set:
            return self._run_unrecorded
        if plan.is_fill and self._may_get_gradients(plan, args, kwargs):
            return self._run_on_meta
        if not plan.is_recorded:
            return self._run_unrecorded
        if (
            self.is_estimate
            and (plan.is_random or self.values.has_unknown_data)
            and self._lacks_data(plan, args, kwargs)
        ):
            return self._run_without_data
        if plan.native == EQUAL and self._constants.include(self.recording.modules.innermost, args):
            return self._run_comparison
        if plan.func is MOVE:
            if not isinstance(args[0], Tensor):
                return self._run_scalar_tensor
            if (self.is_estimate or args[0].is_meta) and is_move(*args, **kwargs):
                return self._run_move
        if plan.assumed_result is not None and self._is_without_data(args):
            return self._run_assumed
        return self._choose_recorded_run(plan)

    def _run_scalar_tensor(self, plan: OperatorPlan, args: Any, kwargs: Any) -> Any:
        # Inside vmap, PyTorch calls ``_to_copy`` on the Python number of ``x * 2``.
        plan = self.cache.plans.of(torch.ops.aten.scalar_tensor.default)
        kwargs = {name: value for name, value in kwargs.items() if name in ("dtype", "device")}
        return self._choose_run(plan, args, kwargs)(plan, args, kwargs)

    def _may_get_gradients(self, plan: OperatorPlan, args: Any, kwargs: Any) -> bool:
        # A new tensor of floats becomes a meta tensor: the model may write results into it, and autograd requires its
        # gradient on the same device. Inside composite operators it stays, because kernels may write to its memory.
        is_of_model = self.is_estimate and torch.is_grad_enabled() and not self.recording.inside_call.is_set
        return is_of_model and _makes_floats_on_cpu(plan, args, kwargs)

    def _lacks_data(self, plan: OperatorPlan, args: Any, kwargs: Any) -> bool:
        # An estimate does not know the random numbers of a run, nor data that unknown values have overwritten.
        if plan.is_random and args and isinstance(args[0], Tensor) and args[0].is_meta:
            return False
        tensors = tensors_of(args, kwargs)
        if plan.is_random and not any(tensor.is_meta for tensor in tensors):
            return True
        return self.values.has_unknown_data and any(map(self.values.has_forgotten, tensors))

    def _run_without_data(self, plan: OperatorPlan, args: Any, kwargs: Any) -> Any:
        # The operands lose their data, so that the result is unknown.
        if plan.written:
            result = self._choose_recorded_run(plan)(plan, args, kwargs)
            for target in all_tensors(plan.written_arguments(args, kwargs)):
                # Parameters are excluded: they are initialized at random, but no branch depends on them.
                if type(target) is Tensor and not target.is_meta:
                    bounds = None if plan.follow_rule is None else plan.follow_rule.bounds(args, kwargs)
                    self.values.forget_data(target, DRAWN, bounds)
                    self._plans = {}
            return result
        moves = plan.func is MOVE and is_move(*args, **kwargs)
        originals = tensors_of(args, kwargs)
        args, kwargs = without_data(args), without_data(kwargs)
        for replacement, original in zip(tensors_of(args, kwargs), originals, strict=True):
            if replacement is not original:
                contents = self.values.contents(original)
                flags, bounds = (0, None) if contents is None else (contents.assumptions, contents.bounds)
                self.values.forget_data(replacement, flags, bounds)
                for log in self.recording.logs:
                    log.identities.register_replacement(replacement, original)
        if moves:  # as in :meth:`_run_move`
            return self._run_unrecorded(self.cache.plans.of(_DETACH), args[:1], {})
        names = [name for name, _ in plan.arguments]
        if "device" in names and plan.is_random:
            kwargs["device"] = META
        if kwargs.get("generator") is not None:
            kwargs["generator"] = None
        if plan.is_random:
            return self._choose_recorded_run(plan)(plan, args, kwargs)
        return self._choose_run(plan, args, kwargs)(plan, args, kwargs)

    def _run_on_meta(self, plan: OperatorPlan, args: Any, kwargs: Any) -> Any:
        run = self._choose_recorded_run(plan) if plan.is_recorded else self._run_unrecorded
        return run(plan, args, {**kwargs, "device": META})

    def _choose_recorded_run(self, plan: OperatorPlan) -> Callable[[OperatorPlan, Any, Any], Any]:
        if plan.is_control_flow:
            return self._run_control_flow
        if plan.has_packed_weight:
            return self._run_packed
        return self._run_decomposed if plan.decompose and not self.recording.inside_call.is_set else self._call

    def _call(self, plan: OperatorPlan, args: Any, kwargs: Any) -> Any:
        if (
            self.recording.inside_call.is_set
            and not (self.has_replay and any(x.is_meta for x in all_tensors(args)))
            and not self.recording.records_inside
        ):
            return self._run_uncached(plan, args, kwargs or {})
        key, cached, tensors = self.find_call(plan, args, kwargs)
        if cached is not None and cached.replay is not None:
            result = cached.replay(args)
        else:
            is_complex = has_complex(tensors) if cached is None else cached.has_complex
            with LazyValues() if is_complex else _NO_CONTEXT:
                result = self._run(plan, tensors, args, kwargs or {})
            if cached is None:
                if key is None and (filled := with_values_of(result, tensors)) is not result:
                    self.assume(SPARSE_RESULT)
                    result = filled
                cached = self.add_call(plan, key, args, kwargs, tensors, result)
        self.observe(cached, tensors, args, kwargs, result)
        return result

    def _run_uncached(self, plan: OperatorPlan, args: Any, kwargs: Any) -> Any:
        # Inside a composite operator on data nothing can be replayed, so the cache would only cost time.
        with LazyValues() if any(isinstance(x, Tensor) and x.is_complex() for x in args) else _NO_CONTEXT:
            result = run_kernel(plan.run, args, kwargs)
        if isinstance(result, Tensor) and result.numel():
            self._propagate_uncached(plan, args, kwargs, result)
        if self.ledgers:
            self.ledgers.see(plan.func, tensors_of(args, kwargs), args, kwargs, result)
        return result

    def _run(self, plan: OperatorPlan, tensors: Sequence[Tensor], args: Any, kwargs: Any) -> Any:
        result = self._run_fast(plan, tensors, args, kwargs)
        if result is not None:
            return result
        if self.is_estimate and is_mixed(tensors):
            bare, options = without_data(args), without_data(kwargs)
            if options.get("device") is not None:  # the device of the operand with data
                options["device"] = META
            result = self._run_fast(plan, tensors_of(bare, options), bare, options)
            if result is None:
                result = self._run_kernel(plan, bare, options)
            if not plan.written:
                return result
            self._plans = {}  # the data of args[0] is now unknown
            return args[0]
        return self.recording.timed(tensors, kwargs, self._run_kernel, plan, args, kwargs)

    def _run_kernel(self, plan: OperatorPlan, args: Any, kwargs: Any) -> Any:
        try:
            return run_kernel(plan.run, args, kwargs)
        except (RuntimeError, IndexError, ValueError) as error:
            if args and isinstance(args[0], Tensor) and (result := where_by_bytes(plan.native, args)) is not None:
                return result
            own = self._shape_rule(plan.native) if isinstance(error, RuntimeError) else None
            has_no_kernel = isinstance(error, NotImplementedError) or "unsupported device" in str(error)
            if own is not None or has_no_kernel:
                result = result_without_kernel(plan.native, args, kwargs, own)
                if result is not None:
                    if plan.native == "aten::_coalesce":
                        self.assume(SPARSE_RESULT)
                    error.__traceback__ = None  # else its frames hold the gradient, and autograd copies it
                    gc.collect(1)  # imports of PyTorch leave cycles that hold the frames; see ``run_kernel``
                    return result
            as_tensors = plan.with_scalar_tensors(args) if isinstance(error, RuntimeError) else None
            if as_tensors is None:
                self.recording.refused.note(error, plan, args, kwargs)
                raise
            return plan.run(*as_tensors, **kwargs)

    def _shape_rule(self, native: str) -> Callable[..., Any] | None:
        own = (log.recorder.costs_of.get(native) for log in self.recording.logs)
        return next((costs.shapes for costs in own if costs is not None and costs.shapes is not None), None)

    def _run_fast(self, plan: OperatorPlan, tensors: Sequence[Tensor], args: Any, kwargs: Any) -> Any:
        if plan.fast_kernel is None or not self.has_replay or not all(map(is_plain_meta, tensors)):
            return None
        return plan.fast_kernel(*args, **kwargs)

    def _run_unrecorded(self, plan: OperatorPlan, args: Any, kwargs: Any) -> Any:
        if self.paused.is_set and plan.assumed_result is not None and self._is_without_data(args):
            assumed = plan.assumed_result(*without_data(args), **kwargs)
            if assumed is not None:
                return assumed[0]
        result = None if plan.fast_kernel is None else self._run_fast(plan, tensors_of(args, kwargs), args, kwargs)
        if result is None:
            try:
                result = plan.run(*args, **kwargs)
            except NotImplementedError:  # as for sparse gradients in the step that makes the state of an optimizer
                result = result_without_kernel(plan.native, args, kwargs)
                if result is None:
                    raise
        if not self.paused.is_set:
            self._propagate_uncached(plan, args, kwargs, result)
        self.recording.watch_unrecorded(plan, result)
        if isinstance(result, Tensor) and not self.recording.inside_call.is_set:
            for log in self.recording.logs:
                if plan.is_alias:
                    log.identities.register_alias(result, args[0])
                else:
                    log.identities.register_created(result)
        if self.ledgers:
            self.ledgers.see(plan.func, tensors_of(args, kwargs), args, kwargs, result)
        return result

    def _run_comparison(self, plan: OperatorPlan, args: Any, kwargs: Any) -> Any:
        # TorchScript compares graph constants before the first runs; 0-d constants arrive as numbers.
        return self._run_unrecorded(plan, plan.with_scalar_tensors(args) or args, kwargs)

    def _run_move(self, plan: OperatorPlan, args: Any, kwargs: Any) -> Any:
        # In a run the tensor is on that device already: the move copies nothing.
        if args[0].is_meta:
            self.ledgers.note(ONE_DEVICE)
            return self._run_unrecorded(self.cache.plans.of(_DETACH), args[:1], {})
        is_sparse = self.is_estimate and args[0].layout in SPARSE_LAYOUTS  # PyTorch loses the elements
        result = sparse_on_meta(args[0]) if is_sparse else self._run_unrecorded(plan, args, kwargs)
        for log in self.recording.logs:
            log.identities.register_alias(result, args[0])
        return result

    def _run_assumed(self, plan: OperatorPlan, args: Any, kwargs: Any) -> Any:
        known = None if plan.known_result is None else plan.known_result(self.values, plan.func, *args, **kwargs)
        # A condition on the count of a mask (``if mask.sum() > 9``) stays unknown, so that both sides are tried.
        is_condition = known is not None and known[1] & SELECTED and isinstance(known[0], bool)
        if known is not None and not is_condition:
            result, flags = known
            for assumption in assumptions_of(flags):
                self.assume(assumption)
        else:
            assert plan.assumed_result is not None
            assumed = plan.assumed_result(*without_data(args), **kwargs)
            if assumed is None:
                return self._choose_recorded_run(plan)(plan, args, kwargs)
            result, assumption = assumed
            if self.branches is not None and not isinstance(result, (Tensor, tuple)):
                result, assumption = self._decide(self.branches, result, assumption, args)
            if not isinstance(result, (Tensor, tuple)):
                self.recording.assumptions.count_assumed_value()
            if assumption:
                self.assume(assumption)
            if plan.follow_rule is not None:
                choose(self.values, plan.follow_rule, args, kwargs, result)
        self.observe(*self.cache.find_by_result(plan, args, kwargs, result), args, kwargs, result)
        return result

    def _decide(self, branches: Branches, value: Any, assumption: str, args: Any) -> tuple[Any, str]:
        # The estimate tries both results of a condition, and of a comparison with a random number.
        flags = self.values.assumptions(all_tensors(args))
        path = self.recording.modules.path
        if assumption is CONDITION_IS_TRUE and not flags & TOO_LARGE:
            return branches.decide(path)
        if assumption is NUMBERS_ARE_ONE and _is_read_by_loader():
            return value, ""
        if flags & DRAWN and assumption is NUMBERS_ARE_ONE:
            contents = self.values.contents(args[0])
            bounds = None if contents is None else contents.bounds
            number, assumption = branches.decide_number(path, bounds or (0, 1))
            return type(value)(number), assumption
        return value, assumption

    def _run_control_flow(self, plan: OperatorPlan, args: Any, kwargs: Any) -> Any:
        # The operators in its functions are recorded.
        with LazyValues(), self:
            return CONTROL_FLOW[plan.func.name()](self, *args, **kwargs)

    def _run_packed(self, plan: OperatorPlan, args: Any, kwargs: Any) -> Any:
        # The observers get the weight and the bias in place of the object into which PyTorch packed them.
        unpacked = self._packed.replace(args, plan.native.partition("::")[2].startswith(("conv1d", "conv_transpose1d")))
        named = dict(zip(kwargs, self._packed.replace([*kwargs.values()], False), strict=True))
        result = without_run(plan.native, plan.bind(tuple(unpacked), named))
        if result is None:
            result = self._run(plan, (), args, kwargs)
        self.observe(CachedCall(plan), tensors_of(unpacked, named), tuple(unpacked), named, result)
        return result

    def _run_decomposed(self, plan: OperatorPlan, args: Any, kwargs: Any) -> Any:
        # The operators inside are recorded instead.
        is_nested = any(isinstance(x, Tensor) and x.is_nested for x in args)
        with LazyValues(), self:
            result = decomposed(plan.func, args, kwargs, is_nested)
        return self._call(plan, args, kwargs) if result is NotImplemented else result

    def _propagate_uncached(self, plan: OperatorPlan, args: Any, kwargs: Any, result: Any) -> None:
        # Observers propagate values through recorded calls only.
        rule = plan.follow_rule
        if isinstance(result, Tensor) and result.is_meta and rule is not None and rule.change is not Change.NOTHING:
            tensors = tensors_of(args, kwargs)
            if rule.may_change_values(args, kwargs, tensors, result):
                propagate(self.values, rule, args, kwargs, tensors, result)

    def _is_without_data(self, args: Any) -> bool:
        if len(args) == 0 or not isinstance(args[0], Tensor):
            return False
        return args[0].is_meta or (self.is_estimate and any(tensor.is_meta for tensor in all_tensors(args)))

    def is_known(self, tensor: Tensor) -> bool:
        """Return whether a tensor has data or known values."""
        return not tensor.is_meta or self.values.of(tensor) is not None

    def assume(self, assumption: str) -> None:
        """Record an assumption about data."""
        self.recording.assumptions.note(assumption)

    def run_as_one_call(self, operator: Any, args: Any, kwargs: Any, run: Callable[[], Any]) -> Any:
        """Return the result of ``run``, recorded as one call of ``operator``."""
        tensors = tensors_of(args, kwargs)
        result = self.recording.timed(tensors, kwargs, self.run_inside, run)
        self.observe(CachedCall(self.cache.plans.of(operator)), tensors, args, kwargs, result)
        return result

    def run_inside(self, run: Callable[[], Any]) -> Any:
        """Return the result of ``run``; operators inside are not recorded."""
        with self.recording.inside_call:
            return run()

    def note_returned(self, result: Any) -> None:
        """Label the memory of an outermost module's result as ``output``, and of caches in it as ``cached``."""
        if torch._C._current_autograd_node() is None:
            for ledger in self.ledgers:
                ledger.returned(nested_tensors(result))
                ledger.returned(cached_tensors(result), "cached")

    def join_shards(self, module: Module) -> None:
        """Register the shards of an outermost module; see :func:`join_shards`."""
        join_shards(module, self.recording.logs)

    def _register_shards(self, args: Any) -> None:
        for value in args:
            if isinstance(value, Parameter) and hasattr(value, "_local_tensor"):
                for log in self.recording.logs:
                    log.identities.register_shard(value._local_tensor)


def _is_read_by_loader() -> bool:
    # A ``DataLoader`` reads random numbers as seeds, which affect no cost.
    frame: FrameType | None = sys._getframe()
    while frame is not None and str(frame.f_globals.get("__name__")).startswith(_OWN_PACKAGE):
        frame = frame.f_back
    return frame is not None and str(frame.f_globals.get("__name__")).startswith("torch.utils.data")


_OWN_PACKAGE = __name__.rpartition(".capture")[0]


class ThreadState(threading.local):
    """State of the running thread.

    Attributes:
        mode: the capture of the thread; None if it does not capture.
    """

    mode: CaptureMode | None = None


THREAD = ThreadState()


# Patches of composite operators, for releases of PyTorch without the key ``PreDispatch``
#
# Patched Python functions see less than kernels at that key: composite calls from TorchScript or C++ are recorded as
# their inner operators. MACs and parameters are the same.


_METHODS = {"matmul": ("__matmul__",)}
"""Further names of a method, by operator."""


def patch_functions(stack: ExitStack, active_mode: Callable[[], CaptureMode | None]) -> None:
    """Replace every function and method of PyTorch that is a composite operator.

    Args:
        stack: undoes the patches.
        active_mode: returns the mode of the running thread.
    """
    operators: dict[str, list[OpOverload]] = {}
    for name in sorted(COMPOSITES):
        if exists(name):
            operators.setdefault(name.partition(".")[0], []).append(overload(name))
    for name, overloads in operators.items():
        for owner, attribute in _functions(name):
            _patch(stack, owner, attribute, f"aten::{name}", overloads, active_mode)


def _functions(name: str) -> Iterator[tuple[Any, str]]:
    # ``torch.nn.functional`` and ``torch._VF`` bind the same builtin again.
    for owner in (torch, torch.nn.functional, torch._C._nn, torch._VF, Tensor):
        for attribute in (name, *_METHODS.get(name, ())):
            if _is_native(getattr(owner, attribute, None)):
                yield owner, attribute


def _is_native(function: Any) -> bool:
    return callable(function) and not hasattr(function, "__code__") and not isinstance(function, type)


def _patch(
    stack: ExitStack,
    owner: Any,
    attribute: str,
    native: str,
    overloads: list[OpOverload],
    active_mode: Callable[[], CaptureMode | None],
) -> None:
    original = getattr(owner, attribute)

    @wraps(original)
    def patched(*args: Any, **kwargs: Any) -> Any:
        mode = active_mode()
        if mode is None or mode.paused.is_set or _is_transformed(args, kwargs):
            return original(*args, **kwargs)
        operator = next((o for o in overloads if _fits(o, args, kwargs)), None)
        if operator is None:
            return original(*args, **kwargs)
        run = partial(_run, original, mode, native, args, kwargs)
        return mode.run_as_one_call(operator, args, _schema_names(operator, kwargs), run)

    replace(stack, owner, attribute, patched)


def _is_transformed(args: Any, kwargs: Any) -> bool:
    # Under ``vmap``, or for DTensors, PyTorch runs the operator again on batches or on local shards.
    if torch._C._functorch.maybe_current_level() is not None:
        return True
    return any(hasattr(tensor, "_local_tensor") for tensor in tensors_of(args, kwargs))


def _run(original: Callable[..., Any], mode: CaptureMode, native: str, args: Any, kwargs: Any) -> Any:
    result = run_cpu_replacement(mode, native, args, kwargs)
    return original(*args, **kwargs) if result is None else result


def _schema_names(operator: OpOverload, kwargs: dict[str, Any]) -> dict[str, Any]:
    # Python says ``input`` where the schema says ``self``.
    names = {argument.name for argument in operator._schema.arguments}
    return {"self" if name == "input" and name not in names else name: value for name, value in kwargs.items()}


def _fits(operator: OpOverload, args: Any, kwargs: Any) -> bool:
    arguments = operator._schema.arguments
    if len(args) > len(arguments):
        return False
    passed = dict(zip((argument.name for argument in arguments), args, strict=False))
    passed.update(_schema_names(operator, kwargs))
    types = {argument.name: str(argument.type) for argument in arguments}
    return passed.keys() <= types.keys() and all(_has_type(value, types[name]) for name, value in passed.items())


def _has_type(value: Any, schema_type: str) -> bool:
    if value is None:
        return schema_type.startswith("Optional")
    if isinstance(value, Tensor):
        return schema_type in ("Tensor", "Optional[Tensor]")
    if isinstance(value, str):
        return schema_type in ("str", "Optional[str]")
    if isinstance(value, (list, tuple)):
        return "List" in schema_type
    return "Tensor" not in schema_type and "str" not in schema_type


# CPU replacements of operators that PyTorch decomposes on the meta device


PACKED = "memory: a recurrent layer on a packed sequence runs other operators on the meta device than on a CPU"

LENGTHS = "memory: the tensors that ctc_loss saves depend on the longest target: assumed to have the maximum length"

_RECURRENT = frozenset((replacements.LSTM_NAME, *replacements.CPU_REPLACEMENTS))

_CPU_REPLACEMENTS: Mapping[str, Callable[..., Any]] = {
    replacements.SDPA_NAME: replacements.fused_attention,
    replacements.LSTM_NAME: replacements.lstm,
    "aten::ctc_loss": replacements.ctc_loss,
    "aten::group_norm": replacements.group_norm,
    **replacements.CPU_REPLACEMENTS,
}
"""Functions by operator; they return None if PyTorch's own operator is right."""


def _makes_floats_on_cpu(plan: OperatorPlan, args: Any, kwargs: Any) -> bool:
    like = args[0] if args and isinstance(args[0], Tensor) else None
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    if (like is not None and like.is_meta) or (device is not None and device.type != "cpu"):
        return False
    if dtype is None:
        value = args[1] if plan.native == "aten::full" and len(args) > 1 else 0.0
        dtype = like.dtype if like is not None else torch.get_default_dtype() if type(value) is float else torch.int64
    return bool(dtype.is_floating_point)


def run_cpu_replacement(mode: CaptureMode, native: str, args: Any, kwargs: Any) -> Any:
    """Run an operator as the CPU does, if PyTorch would decompose it on the meta device.

    Args:
        mode: the mode; its memory ledgers get a note if the memory is approximate.
        native: the name of the operator.
        args: the positional arguments.
        kwargs: the keyword arguments.

    Returns:
        The result; None if PyTorch's own operator is right.
    """
    replacement = _CPU_REPLACEMENTS.get(native)
    result = None if replacement is None else replacement(*args, **kwargs)
    note = _approximation(native, args, result is not None) if isinstance(args[0], Tensor) and args[0].is_meta else ""
    if note:
        mode.ledgers.note(note, is_approximation=True)
    return result


def _approximation(native: str, args: Any, has_replacement: bool) -> str:
    if native == "aten::ctc_loss":
        return LENGTHS
    if native in _RECURRENT and isinstance(args[1], Tensor) and args[1].dtype is torch.int64:  # sizes of the steps
        return PACKED
    if native != replacements.LSTM_NAME or not torch.is_grad_enabled():
        return ""
    if not has_replacement:
        return replacements.STEPS
    return replacements.RESERVE if replacements.fuses(*args) else replacements.PEAK


# Python functions of several operators, recorded as one on request


def _norm(input: Tensor, p: float = 2.0, *args: Any, **kwargs: Any) -> str | None:
    return {1: "l1_normalize", 2: "l2_normalize"}.get(p)  # type: ignore[call-overload, no-any-return]


def _pool(input: Tensor, norm_type: float, *args: Any, **kwargs: Any) -> str | None:
    return "lp_pool" if norm_type == 2 else None


def _softmin(input: Tensor, dim: int | None = None, *args: Any, **kwargs: Any) -> str | None:
    return None if dim is None else "softmin"


def _always(op: str) -> Callable[..., str]:
    return lambda *args, **kwargs: op


FUNCTIONS: Mapping[Callable[..., Any], Callable[..., str | None]] = {
    functional.normalize: _norm,
    functional.local_response_norm: _always("local_response_norm"),
    functional.lp_pool1d: _pool,
    functional.lp_pool2d: _pool,
    functional.lp_pool3d: _pool,
    functional.softmin: _softmin,
    functional.softsign: _always("softsign"),
    functional.tanhshrink: _always("tanh_shrink"),
}
"""Maps a function to a callable that takes the same arguments and returns the operator to record; None: record the
inner operators."""

OPERATORS = ("l1_normalize", "l2_normalize", "local_response_norm", "lp_pool", "softmin", "softsign", "tanh_shrink")


def check_regroup(regroup: object) -> Collection[str]:
    """Return the operators that the option ``regroup`` selects.

    Raises:
        TypeError, ValueError: if the option is invalid; the message lists what is expected.
    """
    if isinstance(regroup, bool):
        return OPERATORS if regroup else ()
    if isinstance(regroup, str) or not isinstance(regroup, Collection):
        raise TypeError(f"regroup must be True, False or names of operators (got {regroup!r})")
    for name in regroup:
        if name not in OPERATORS:
            raise ValueError(f"regroup: {unknown('operator', name, OPERATORS)}")
    return regroup


class RegroupedFunctions(TorchFunctionMode):
    """A function mode that records each call of a function in :data:`FUNCTIONS` as one operator.

    The function runs unchanged, and its inner operators are not recorded. The backward pass is not regrouped: it
    consists of the derivatives of the inner operators.

    Args:
        mode: the capture.
        recorder: receives the regrouped functions.
        operators: the requested operators.
    """

    def __init__(self, mode: CaptureMode, recorder: Recorder, operators: Collection[str]) -> None:
        super().__init__()
        self.mode = mode
        self.recorder = recorder
        self.operators = operators

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a function of PyTorch; record it as one operator if requested."""
        kwargs = kwargs or {}
        run = partial(func, *args, **kwargs)
        op = FUNCTIONS[func](*args, **kwargs) if func in FUNCTIONS else None
        if op is None or op not in self.operators or self.mode.recording.inside_call.is_set or self.mode.paused.is_set:
            return run()
        path = self.mode.recording.modules.path
        self.recorder.regrouped.append(Regrouping(op, (f"{path} ({func.__name__})" if path else func.__name__,)))
        with nullcontext() if self.mode.api_calls is None else self.mode.api_calls.running(func):
            return self.mode.run_as_one_call(func, args, kwargs, run)


# Distributed tensors: this process counts its own shards


_SHAPE_PROPAGATION = (
    ("torch.distributed.tensor._sharding_prop", "ShardingPropagator", "_propagate_tensor_meta_non_cached"),
    ("torch.distributed._tensor._sharding_prop", "ShardingPropagator", "_propagate_tensor_meta"),
    ("torch.distributed.tensor._decompositions", "DecompShardingStrategy", "propagate_strategy"),
)
"""Methods (module, class, name) that run operators on global shapes to infer the shape of a result."""


def patch_shape_propagation(stack: ExitStack, active_mode: Callable[[], CaptureMode | None]) -> None:
    """Pause the capture while PyTorch runs operators on global shapes, only to infer shapes.

    Args:
        stack: undoes the patches.
        active_mode: returns the mode of the running thread.
    """
    for module, kind, name in _SHAPE_PROPAGATION:
        owner: Any = getattr(sys.modules.get(module), kind, None)
        original = getattr(owner, name, None)
        if original is not None:
            _pause_in(stack, owner, name, original, active_mode)


def _pause_in(
    stack: ExitStack, owner: Any, name: str, original: Any, active_mode: Callable[[], CaptureMode | None]
) -> None:
    @wraps(original)
    def unrecorded(*args: Any, **kwargs: Any) -> Any:
        mode = active_mode()
        if mode is None:
            return original(*args, **kwargs)
        with mode.paused, mode.ledgers.paused():
            return original(*args, **kwargs)

    replace(stack, owner, name, unrecorded)


# The optimizer of TorchScript, which runs operators before the first runs of a model


EQUAL = "aten::equal"
"""The operator with which the optimizer compares the constants of a graph, to merge equal ones."""


class GraphConstants:
    """The constant tensors in the graphs of a TorchScript model, such as frozen weights."""

    def __init__(self) -> None:
        self._model: ref[Module] | None = None
        self._addresses: frozenset[int] = frozenset()

    def include(self, model: Module | None, tensors: Sequence[object]) -> bool:
        """Return whether all operands of a comparison are graph constants, so that TorchScript's optimizer compares.

        The program itself never compares only constants, because TorchScript folds such operators. 0-d constants arrive
        as numbers, so the optimizer also makes the comparisons of numbers.
        """
        compared = [tensor for tensor in tensors if isinstance(tensor, Tensor)]
        if compared and not isinstance(model, ScriptModule):
            return False
        if isinstance(model, ScriptModule) and (self._model is None or self._model() is not model):
            self._model, self._addresses = ref(model), _constants(model)
        return all(tensor.data_ptr() in self._addresses for tensor in compared)


def _constants(model: ScriptModule) -> frozenset[int]:
    nodes = (
        node
        for name in model._c._method_names()
        for node in model._c._get_method(name).graph.findAllNodes("prim::Constant")
        if node.hasAttribute("value") and node.kindOf("value") == "t"
    )
    return frozenset(node.t("value").data_ptr() for node in nodes) - {0}  # 0: an empty constant


# Parameters of ``fully_shard``: modules hold a local shard, and read the gathered parameter


_PACKAGE = "torch.distributed.fsdp._fully_shard"


def join_shards(model: Module, logs: Iterable[CallLog]) -> None:
    """Register the local shards, which optimizers update, as parts of the gathered parameters that the model reads."""
    kind = getattr(sys.modules.get(_PACKAGE), "FSDPModule", None)
    if kind is None or not kind.__subclasses__():  # fully_shard makes a subclass for every class of modules
        return
    for part, whole in _shards(model):
        for log in logs:
            log.identities.register_part(part, whole)


def _shards(model: Module) -> Iterator[tuple[Tensor, Tensor]]:
    for module in modules_of(model):
        state: Any = module._get_fsdp_state() if hasattr(module, "_get_fsdp_state") else None
        groups = getattr(state, "_fsdp_param_groups", [getattr(state, "_fsdp_param_group", None)])
        for group in filter(None, groups):
            for parameter in group.fsdp_params:
                whole = getattr(parameter, "_unsharded_param", None)
                if whole is not None:
                    yield parameter.sharded_param._local_tensor, getattr(whole, "_local_tensor", whole)
