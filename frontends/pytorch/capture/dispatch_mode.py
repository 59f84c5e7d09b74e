"""The dispatch mode: every operator on its way to the device is executed, cached and recorded here.

An operator takes three steps, here and, if it is composite, in :mod:`.composites`: find an equal call in the cache,
choose how to run it, and show it to the observers (:meth:`.Recording.observe`). What is written in place is seen
like any other call: the observers get the operator with its operands.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode_stack,
    _len_torch_dispatch_stack,
    _pop_mode,
    _push_mode,
)

from ..flags import Flag
from ..meta.branches import Branches
from ..meta.choices import DRAWN, TOO_LARGE, assumptions_of
from ..meta.data_dependent import CONDITION_IS_TRUE, NUMBERS_ARE_ONE
from ..meta.follow import Change, choose, follow
from ..meta.operands import (
    META,
    PLAIN,
    all_tensors,
    has_complex,
    is_mixed,
    is_plain_meta,
    tensors_in,
    tensors_of,
    without_data,
)
from ..meta.values import Values
from ..operators.call_cache import CachedCall, CallCache
from ..operators.control_flow import CONTROL_FLOW
from ..operators.kernels import decomposed, run_kernel
from ..operators.moves import MOVE, is_move
from ..operators.plan import OperatorPlan
from ..packed_weights import PackedWeights, without_run
from ..recording.recording import Recording
from .autocast import Casts
from .dispatch_keys import CAPTURED, LazyValues
from .sharded_parameters import join_shards
from .torchscript import EQUAL, GraphConstants

if TYPE_CHECKING:
    from ..recording.spelling import Spellings

ONE_DEVICE = "memory: tensors that move from the meta device to another one are taken to stay where they are"

_NO_CONTEXT = nullcontext()


def _keep_settings(stack: ExitStack) -> None:
    """Leave the settings of a thread as they are."""


_DETACH = torch.ops.aten.detach.default


class CapturingThread(Protocol):
    """A thread that captures."""

    @property
    def is_estimate(self) -> bool:
        """Whether this is an estimate rather than a run."""

    def begin_thread(self, mode: CaptureMode, stack: ExitStack) -> None:
        """Capture in the present thread, which this one started, until ``stack`` is closed."""

    def note_unseen(self, module: Module) -> None:
        """Note that a thread without a capture runs a module."""


class CaptureMode(TorchDispatchMode):
    """The capture of one thread.

    Args:
        has_replay: whether repeated calls on meta tensors skip their kernels.
        is_estimate: whether this is an estimate rather than a run: operands with data that meet meta tensors are moved
            to the meta device, and calls are rejected whose operands a real run would reject.

    Attributes:
        cache: the calls seen before.
        recording: what is recorded of the run.
        ledgers: the memory ledgers of the captures that have one.
        values: what is known of the values of meta tensors.
        paused: whether operators run without being recorded.
        meta_modules: copies on the meta device of modules that ran on their fast path.
        spellings: follows which functions the code calls, if a capture asks for that.
        is_over: whether the last capture of the thread ended in another thread, so that operators just run.
        end_in_thread: restores the state of the thread, in that thread.
        casts: casts meta operands under autocast.
        n_arrived: how many operators arrived since a composite operator began below other modes; -1: none runs.
        inner_operators: how many operators a composite operator consists of below other modes, by operator and shapes.
        session: the thread that captures; None after the capture.
        branches: decides conditions without data; None if they are True.
        thread_settings: makes the settings of a thread that the capture starts, until the stack is closed.
        without_capture: a context in which operators run as if nothing was captured; it does not nest.
        observe: shows a call that ran to all observers.
    """

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
        self.spellings: Spellings | None = None
        self.session: CapturingThread | None = None
        self.branches: Branches | None = None
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
        self._plans = self.cache.plans.by_id
        self._packed = PackedWeights()
        logs = self.recording.logs
        self.cache.has_assumed = lambda: any(log.recorder.assumptions for log in logs)

    def share(self, parent: CaptureMode, recording: Recording) -> None:
        """Share what is known with the mode of the thread that started this one."""
        self.cache, self.values, self.meta_modules = parent.cache, parent.values, parent.meta_modules
        self.thread_settings, self.branches = parent.thread_settings, parent.branches
        self._plans = {} if self.values.has_unknown_data else self.cache.plans.by_id
        self.find_call, self.add_call = self.cache.find, self.cache.add
        self.recording, self.ledgers, self.observe = recording, recording.ledgers, recording.observe

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Omit the wrapper with which PyTorch disables the compiler around every operator.

        A capture disables it once; see :func:`.compiled_models.run_eagerly`.
        """
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

    def _remove_from_below(self, above: Sequence[TorchDispatchMode]) -> None:
        for _ in above:
            _pop_mode()
        try:
            self.__exit__(None, None, None)
        finally:
            for mode in above:
                _push_mode(mode)

    def end(self) -> None:
        """Record nothing from now on, called from another thread."""
        self.is_over = True
        self.session = None
        self._plans = {}

    def silenced(self) -> AbstractContextManager[None]:
        """Return a context in which functions that the capture itself calls are not followed."""
        return nullcontext() if self.spellings is None else self.spellings.silenced()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator on its way to the device, and show it to the observers."""
        if self.spellings is not None and self.spellings.is_listening:
            with self.spellings.silenced():
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
            return NotImplemented  # it comes again as operators on the local tensors
        if self.n_arrived >= 0 and plan.is_recorded:
            self.n_arrived += 1
        if plan.is_plain and not self.paused.is_set:
            return self._call(plan, args, kwargs)
        kwargs = kwargs or {}
        return self._choose_run(plan, args, kwargs)(plan, args, kwargs)

    def _choose_run(self, plan: OperatorPlan, args: Any, kwargs: Any) -> Callable[[OperatorPlan, Any, Any], Any]:
        """Return what runs an operator that may be unrecorded, assumed, or replaced by others."""
        if not plan.is_recorded or self.paused.is_set:
            return self._run_unrecorded
        if (
            self.is_estimate
            and (plan.is_random or self.values.has_unknown_data)
            and self._lacks_data(plan, args, kwargs)
        ):
            return self._run_without_data
        if plan.native == EQUAL and self._constants.include(self.recording.modules.innermost, args):
            return self._run_comparison
        if plan.func is MOVE and (self.is_estimate or args[0].is_meta) and is_move(*args, **kwargs):
            return self._run_move
        if plan.assumed_result is not None and self._is_without_data(args):
            return self._run_assumed
        return self._choose_whole(plan)

    def _lacks_data(self, plan: OperatorPlan, args: Any, kwargs: Any) -> bool:
        """Return whether an operator on data draws random numbers, or reads data that are not those of a run."""
        if not self.is_estimate or (args and isinstance(args[0], Tensor) and args[0].is_meta and plan.is_random):
            return False
        tensors = tensors_of(args, kwargs)
        if plan.is_random and not any(tensor.is_meta for tensor in tensors):
            return True
        return self.values.has_unknown_data and any(map(self.values.has_forgotten, tensors))

    def _run_without_data(self, plan: OperatorPlan, args: Any, kwargs: Any) -> Any:
        """Run an operator that draws random numbers, or reads data that are not those of a run: nothing is known."""
        if plan.written:
            result = self._choose_whole(plan)(plan, args, kwargs)
            for target in all_tensors(plan.written_arguments(args, kwargs)):
                if type(target) is Tensor and not target.is_meta:  # parameters are drawn too, and never decide
                    self.values.forget_data(target, DRAWN)
                    self._plans = {}
            return result
        originals = tensors_of(args, kwargs)
        args, kwargs = without_data(args), without_data(kwargs)
        for stand_in, original in zip(tensors_of(args, kwargs), originals, strict=True):
            if stand_in is not original:
                for log in self.recording.logs:
                    log.identities.register_stand_in(stand_in, original)
        names = [name for name, _ in plan.arguments]
        if "device" in names and plan.is_random:
            kwargs["device"] = META
        if kwargs.get("generator") is not None:
            kwargs["generator"] = None
        if plan.is_random:
            return self._choose_whole(plan)(plan, args, kwargs)
        return self._choose_run(plan, args, kwargs)(plan, args, kwargs)

    def _choose_whole(self, plan: OperatorPlan) -> Callable[[OperatorPlan, Any, Any], Any]:
        """Return what runs an operator whose result is computed."""
        if plan.is_control_flow:
            return self._run_control_flow
        if plan.has_packed_weight:
            return self._run_packed
        return self._run_decomposed if plan.decompose and not self.recording.inside.is_set else self._call

    def _call(self, plan: OperatorPlan, args: Any, kwargs: Any) -> Any:
        """Find a call in the cache, replay or run it, and show it to the observers."""
        if (
            self.recording.inside.is_set
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
                cached = self.add_call(plan, key, args, kwargs, tensors, result)
        self.observe(cached, tensors, args, kwargs, result)
        return result

    def _run_uncached(self, plan: OperatorPlan, args: Any, kwargs: Any) -> Any:
        """Run an operator inside a composite operator, on data, as it is."""
        with LazyValues() if any(isinstance(x, Tensor) and x.is_complex() for x in args) else _NO_CONTEXT:
            result = run_kernel(plan.run, args, kwargs)
        if isinstance(result, Tensor) and result.numel():
            self._follow_uncached(plan, args, kwargs, result)
        if self.ledgers:
            self.ledgers.see(plan.func, tensors_of(args, kwargs), args, kwargs, result)
        return result

    def _run(self, plan: OperatorPlan, tensors: Sequence[Tensor], args: Any, kwargs: Any) -> Any:
        """Run the fastest kernel that gives the result."""
        result = self._run_fast(plan, tensors, args, kwargs)
        if result is not None:
            return result
        if self.is_estimate and is_mixed(tensors):
            result = plan.run(*without_data(args), **without_data(kwargs))
            if not plan.written:
                return result
            self._plans = {}  # the data of what is written are no longer known
            return args[0]
        return self.recording.timed(tensors, kwargs, self._run_kernel, plan, args, kwargs)

    def _run_kernel(self, plan: OperatorPlan, args: Any, kwargs: Any) -> Any:
        try:
            return run_kernel(plan.run, args, kwargs)
        except (RuntimeError, IndexError, ValueError) as error:
            as_tensors = plan.with_scalar_tensors(args) if isinstance(error, RuntimeError) else None
            if as_tensors is None:
                self.recording.refused.note(error, plan, args, kwargs)
                raise
            return plan.run(*as_tensors, **kwargs)

    def _run_fast(self, plan: OperatorPlan, tensors: Sequence[Tensor], args: Any, kwargs: Any) -> Any:
        """Return the result of the fast kernel; None if there is none, or it leaves the call to PyTorch."""
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
            result = plan.run(*args, **kwargs)
        if not self.paused.is_set:
            self._follow_uncached(plan, args, kwargs, result)
        self.recording.watch_unrecorded(plan, result)
        if isinstance(result, Tensor) and not self.recording.inside.is_set:
            for log in self.recording.logs:
                if plan.is_alias:
                    log.identities.register_alias(result, args[0])
                else:
                    log.identities.register_created(result)
        if self.ledgers:
            self.ledgers.see(plan.func, tensors_of(args, kwargs), args, kwargs, result)
        return result

    def _run_comparison(self, plan: OperatorPlan, args: Any, kwargs: Any) -> Any:
        """Compare constants of TorchScript, which are numbers if they have no dimensions."""
        return self._run_unrecorded(plan, plan.with_scalar_tensors(args) or args, kwargs)

    def _run_move(self, plan: OperatorPlan, args: Any, kwargs: Any) -> Any:
        """Run a copy between the meta device and another one, which in a run are the same device: nothing is copied."""
        if args[0].is_meta:
            self.ledgers.note(ONE_DEVICE)
            return self._run_unrecorded(self.cache.plans.of(_DETACH), args[:1], {})
        result = self._run_unrecorded(plan, args, kwargs)
        for log in self.recording.logs:
            log.identities.register_alias(result, args[0])
        return result

    def _run_assumed(self, plan: OperatorPlan, args: Any, kwargs: Any) -> Any:
        """Return the result of a data-dependent operator: on known values, or an assumed one."""
        known = None if plan.known_result is None else plan.known_result(self.values, plan.func, *args, **kwargs)
        if known is not None:
            result, flags = known
            for assumption in assumptions_of(flags):
                self.assume(assumption)
        else:
            assert plan.assumed_result is not None
            assumed = plan.assumed_result(*without_data(args), **kwargs)
            if assumed is None:
                return self._choose_whole(plan)(plan, args, kwargs)
            result, assumption = assumed
            if self.branches is not None and not isinstance(result, (Tensor, tuple)):
                result, assumption = self._decided(self.branches, result, assumption, args)
            if not isinstance(result, (Tensor, tuple)):
                self.recording.assumptions.count_assumed_value()
            if assumption:
                self.assume(assumption)
            if plan.follow_rule is not None:
                choose(self.values, plan.follow_rule, args, kwargs, result)
        self.observe(*self.cache.decided(plan, args, kwargs, result), args, kwargs, result)
        return result

    def _decided(self, branches: Branches, value: Any, assumption: str, args: Any) -> tuple[Any, str]:
        """Return a condition, or a random number, that is read, and what it assumes: both sides are tried."""
        flags = self.values.assumptions(all_tensors(args))
        path = self.recording.modules.path
        if assumption is CONDITION_IS_TRUE and not flags & TOO_LARGE:
            return branches.decide(path)
        if flags & DRAWN and assumption is NUMBERS_ARE_ONE:
            number, assumption = branches.decide_number(path)
            return type(value)(number), assumption
        return value, assumption

    def _run_control_flow(self, plan: OperatorPlan, args: Any, kwargs: Any) -> Any:
        """Run an operator whose arguments are functions; the operators in these are recorded."""
        with LazyValues(), self:
            return CONTROL_FLOW[plan.func.name()](self, *args, **kwargs)

    def _run_packed(self, plan: OperatorPlan, args: Any, kwargs: Any) -> Any:
        """Run an operator with a packed weight, and show it with the weight and bias that are packed."""
        unpacked = self._packed.replace(args, plan.native.partition("::")[2].startswith(("conv1d", "conv_transpose1d")))
        named = dict(zip(kwargs, self._packed.replace([*kwargs.values()], False), strict=True))
        result = without_run(plan.native, plan.bind(tuple(unpacked), named))
        if result is None:
            result = self._run(plan, (), args, kwargs)
        self.observe(CachedCall(plan), tensors_of(unpacked, named), tuple(unpacked), named, result)
        return result

    def _run_decomposed(self, plan: OperatorPlan, args: Any, kwargs: Any) -> Any:
        """Run the operators of which an operator consists; they are recorded in its place."""
        is_nested = any(isinstance(x, Tensor) and x.is_nested for x in args)
        with LazyValues(), self:
            result = decomposed(plan.func, args, kwargs, is_nested)
        return self._call(plan, args, kwargs) if result is NotImplemented else result

    def _follow_uncached(self, plan: OperatorPlan, args: Any, kwargs: Any, result: Any) -> None:
        """Update the known values after a call that is not cached."""
        rule = plan.follow_rule
        if isinstance(result, Tensor) and result.is_meta and rule is not None and rule.change is not Change.NOTHING:
            tensors = tensors_of(args, kwargs)
            if rule.carries(args, kwargs, tensors, result):
                follow(self.values, rule, args, kwargs, tensors, result)

    def _is_without_data(self, args: Any) -> bool:
        """Return whether the first argument is a meta tensor, or meets one in an estimate."""
        if len(args) == 0 or not isinstance(args[0], Tensor):
            return False
        return args[0].is_meta or (self.is_estimate and any(tensor.is_meta for tensor in all_tensors(args)))

    def is_known(self, tensor: Tensor) -> bool:
        """Return whether a tensor has data, or values that are known."""
        return not tensor.is_meta or self.values.of(tensor) is not None

    def assume(self, assumption: str) -> None:
        """Note an assumption about data."""
        self.recording.assumptions.note(assumption)

    def run_as_one_call(self, operator: Any, args: Any, kwargs: Any, run: Callable[[], Any]) -> Any:
        """Return the result of ``run``, recorded as one call of ``operator``."""
        tensors = tensors_of(args, kwargs)
        result = self.recording.timed(tensors, kwargs, self._run_inside, run)
        self.observe(CachedCall(self.cache.plans.of(operator)), tensors, args, kwargs, result)
        return result

    def _run_inside(self, run: Callable[[], Any]) -> Any:
        with self.recording.inside:
            return run()

    def note_returned(self, result: Any) -> None:
        """Note what an outermost module returned: its memory is output."""
        if torch._C._current_autograd_node() is None:
            for ledger in self.ledgers:
                ledger.returned(tensors_in(result))

    def join_shards(self, module: Module) -> None:
        """Note which shards of an outermost module are parts of parameters that it read."""
        join_shards(module, self.recording.logs)

    def _register_shards(self, args: Any) -> None:
        """Register the local shards of distributed parameters as parameters."""
        for value in args:
            if isinstance(value, Parameter) and hasattr(value, "_local_tensor"):
                for log in self.recording.logs:
                    log.identities.register_shard(value._local_tensor)


class Thread(threading.local):
    """State of the running thread.

    Attributes:
        mode: its capture; None if it does not capture.
    """

    mode: CaptureMode | None = None


THREAD = Thread()
