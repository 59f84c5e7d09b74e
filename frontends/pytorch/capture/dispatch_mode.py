"""Everything that runs in one thread, seen from below: one dispatch mode, and the frames above it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode_stack,
    _pop_mode,
    _push_mode,
)

from costcore.errors import CostError

from ..meta import sdpa
from ..meta.operands import (
    PLAIN,
    are_distributed,
    have_data,
    is_mixed,
    is_plain_meta,
    tensors_of,
    without_data,
)
from ..operators.call_cache import CachedCall, knowledge
from ..operators.call_key import CallKey, call_key
from ..operators.control_flow import CONTROL_FLOW
from ..operators.dtype_checks import check_dtypes
from ..operators.plan import OperatorPlan
from ..operators.scalar_fills import ScalarFills
from ..recording.call_log import CallLog
from ..recording.location import Locator
from . import autocast
from .composites import AFTER, HIDDEN, UNSEEN, casts_first

_grad_enabled = torch.is_grad_enabled
_sequence_number = torch.autograd._get_sequence_nr
_functorch_level = torch._C._functorch.maybe_current_level
_any_autocast = torch._C._is_any_autocast_enabled
_hidden = torch._C._ExcludeDispatchKeyGuard
_mode_count = torch._C._len_torch_dispatch_stack
_FILL = torch.ops.aten.fill_.Scalar

MAX_ANSWERS = 100_000
"""So many answers to questions about data that is not there are taken for an endless loop."""

REAL_RUN = "count a real run inside ComputationalCostHook"


class CaptureMode(TorchDispatchMode):
    """The capture of one thread; every recorder in ``sinks`` is told of everything.

    Args:
        has_replay: whether the results of repeated calls on tensors without data are made without running them.
        is_estimate: whether operands with data are taken for such without, beside others without; and whether types
            of operands are refused that a run with data would refuse.
    """

    supports_higher_order_operators = True

    def __init__(self, has_replay: bool = True, is_estimate: bool = False) -> None:
        super().__init__()
        self.sinks: list[CallLog] = []
        self._takes_data_away = is_estimate
        self.places = Locator(_sequence_number())
        self.modules = self.places.modules
        self.is_paused = False
        self._in_frame = False
        self._has_memo = has_replay and _mode_count() == 0
        self.knowledge = knowledge(self._has_memo, is_estimate)
        self._plans = self.knowledge.plans
        self._entries = self.knowledge.entries
        self._own_entries: dict[CallKey, CachedCall] = {}
        """What is known of calls that may hold something of the user's."""
        self._cloned: tuple[int, int] | None = None
        """The autograd number at the last call, and its operand, where it was a copy.

        Autograd keeps a copy of what an in-place operator is about to overwrite. Unlike a copy of the user's it has no
        node of its own, so the number does not change between the two.
        """
        self._fills = ScalarFills()
        self._assumed = 0
        self._measures = False
        self._seconds: float | None = None

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Spare the wrapper that would disable the compiler once per operator; it is told to stand aside as a whole."""
        return False

    def add(self, sink: CallLog) -> None:
        """One recorder more."""
        self.sinks.append(sink)
        self._measures = any(sink.recorder.measure_time for sink in self.sinks)

    def remove(self, sink: CallLog) -> None:
        """One recorder less."""
        self.sinks.remove(sink)
        self._measures = any(sink.recorder.measure_time for sink in self.sinks)

    def stop(self) -> None:
        """Take the mode off the stack, wherever it stands by now."""
        stack = _get_current_dispatch_mode_stack()
        above = stack[stack.index(self) + 1 :]
        for _ in above:
            _pop_mode()
        self.__exit__(None, None, None)
        for mode in above:
            _push_mode(mode)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """An operator on its way to the device: a piece of a frame, or a call to record."""
        plan = self._plans.get(id(func))  # hashing an operator is Python, and slow
        if plan is None:
            plan = self.knowledge.plan(func)
        if types and any(kind not in PLAIN and kind.__name__ == "DTensor" for kind in types):
            self._meet_shards(args)
            return NotImplemented  # it comes again as operators on the local tensors
        if not plan.is_plain or self.is_paused:
            return self._unusual(plan, args, kwargs or {})
        if self._in_frame and not (self._has_memo and any(isinstance(x, Tensor) and x.is_meta for x in args)):
            return plan.func(*args, **kwargs) if kwargs else plan.func(*args)
        return self._call(plan, args, kwargs)

    def _unusual(self, plan: OperatorPlan, args: Any, kwargs: Any) -> Any:
        """An operator that is not listed, or not run as it is."""
        if not plan.is_recorded or self.is_paused:
            return self._unlisted(plan, args, kwargs)
        if plan.assumed_result is not None and len(args) > 0 and isinstance(args[0], Tensor) and args[0].is_meta:
            assumed = plan.assumed_result(*args, **kwargs)
            if assumed is not None:
                return self._assume(plan, args, kwargs, *assumed)
        if plan.is_control_flow:
            with self:
                return CONTROL_FLOW[plan.func.name()](self.assume, *args, **kwargs)
        if plan.decompose and not self._in_frame:
            with self:
                return plan.func.decompose(*args, **kwargs)
        if self._in_frame and not (self._has_memo and any(isinstance(x, Tensor) and x.is_meta for x in args)):
            return plan.func(*args, **kwargs)
        return self._call(plan, args, kwargs)

    def _call(self, plan: OperatorPlan, args: Any, kwargs: Any) -> Any:
        key, entry, tensors = self._find(plan, args, kwargs)
        if entry is not None and entry.replay is not None:
            result = entry.replay(args)
        else:
            result = self._run(plan, tensors, args, kwargs or {})
            if entry is None:
                entry = self._entry(plan, key, args, kwargs, tensors, result)
        if not self._in_frame:
            self._note(entry, tensors, args, kwargs, result)
        return result

    def _find(
        self, plan: OperatorPlan, args: Any, kwargs: Any
    ) -> tuple[CallKey | None, CachedCall | None, list[Tensor]]:
        """The key of a call, what is known of it, and the tensors among its arguments."""
        tensors: list[Tensor] = []
        try:
            key = call_key(plan, args, kwargs, tensors)
            entry = self._entries.get(key)
        except (RuntimeError, TypeError):  # sparse tensors have no strides, ragged ones unhashable shapes
            return None, None, tensors_of(args, kwargs)
        return key, entry or self._own_entries.get(key), tensors

    def _run(self, plan: OperatorPlan, tensors: Sequence[Tensor], args: Any, kwargs: Any) -> Any:
        if plan.fast_kernel is not None and self._has_memo and all(map(is_plain_meta, tensors)):
            result = plan.fast_kernel(*args, **kwargs)
            if result is not None:
                return result
        if self._takes_data_away and is_mixed(tensors):
            result = plan.func(*without_data(args), **without_data(kwargs))
            return args[0] if plan.written else result
        start = perf_counter() if self._measures else 0.0
        try:
            result = plan.func(*args, **kwargs)
        except RuntimeError:
            given = plan.with_scalar_tensors(args)
            if given is None:
                raise
            result = plan.func(*given, **kwargs)
        if self._measures and not self._in_frame:
            self._seconds = perf_counter() - start
        return result

    def frame(self, operator: Any, keyset: Any, args: Any, kwargs: Any) -> Any:
        """A composite operator, before it is taken apart."""
        if self._in_frame or self.is_paused or _functorch_level() is not None:
            return operator.redispatch(keyset & AFTER, *args, **kwargs)
        plan = self._plans.get(id(operator)) or self.knowledge.plan(operator)
        key, entry, tensors = self._find(plan, args, kwargs)
        if entry is None and not all(type(tensor) in PLAIN for tensor in tensors) and are_distributed(tensors):
            return operator.redispatch(keyset & AFTER, *args, **kwargs)
        if _any_autocast():
            if casts_first(operator, keyset & AFTER):
                return operator.redispatch(keyset & AFTER, *args, **kwargs)  # it comes again after its inputs were cast
            dtype = autocast.type_for(operator, tensors)
            if dtype is not None:
                return operator(*autocast.cast(args, dtype), **autocast.cast(kwargs, dtype))
            if plan.native in autocast.INSIDE:
                key = entry = None  # what it returns depends on more than its operands
        if entry is not None and entry.replay is not None and not _grad_enabled() and _mode_count() == 1:
            with _hidden(HIDDEN):
                result = entry.replay(args)
        else:
            has_data = have_data(tensors) if entry is None else entry.have_data
            given = (args, kwargs)
            if self._takes_data_away and not has_data and is_mixed(tensors):
                given = without_data((args, kwargs), keeps_integers=True)
            result = self._run_frame(operator, plan, keyset, *given, has_data)
            if entry is None:
                entry = self._entry(plan, key, args, kwargs, tensors, result)
        self._note(entry, tensors, args, kwargs, result)
        return result

    def whole(self, operator: Any, args: Any, kwargs: Any, run: Callable[[], Any]) -> Any:
        """An operator that is recorded itself, and not what ``run`` runs to do it."""
        was_in_frame, self._in_frame = self._in_frame, True
        try:
            result = run()
        finally:
            self._in_frame = was_in_frame
        if not self._in_frame:
            self._note(CachedCall(self.knowledge.plan(operator)), tensors_of(args, kwargs), args, kwargs, result)
        return result

    def _run_frame(self, operator: Any, plan: OperatorPlan, keyset: Any, args: Any, kwargs: Any, has_data: bool) -> Any:
        self._in_frame = True
        try:
            start = perf_counter()
            if has_data and _mode_count() == 1:  # nothing that could be spared or assumed lies below
                with _hidden(HIDDEN):
                    result = operator.redispatch(keyset & UNSEEN, *args, **kwargs)
            else:
                if plan.native == autocast.FUSED and _any_autocast():
                    args = autocast.cast(args, autocast.lower_type())
                result = sdpa.fused(*args, **kwargs) if plan.native == sdpa.NAME else None
                if result is None:
                    result = operator.redispatch(keyset & AFTER, *args, **kwargs)
            if self._measures:
                self._seconds = perf_counter() - start
        finally:
            self._in_frame = False
        return result

    def _entry(
        self, plan: OperatorPlan, key: CallKey | None, args: Any, kwargs: Any, tensors: Sequence[Tensor], result: Any
    ) -> CachedCall:
        if self._takes_data_away and not _any_autocast():
            check_dtypes(plan, tensors, args, kwargs or {})
        replay = None
        if key is not None and self._has_memo and plan.replay_rule is not None:
            replay = plan.replay_rule(args, tensors, result)
        entry = CachedCall(plan, replay, key is not None and have_data(tensors))
        if key is None or (plan.has_varying_shapes and not all(tensor.is_meta for tensor in tensors)):
            return entry
        if not self.knowledge.keep(key, entry):
            self._own_entries[key] = entry
        return entry

    def _assume(self, plan: OperatorPlan, args: Any, kwargs: Any, result: Any, assumption: str) -> Any:
        self._assumed += not isinstance(result, (Tensor, tuple))
        if self._assumed > MAX_ANSWERS:
            raise CostError(
                f"module {self.modules.path!r} asked {MAX_ANSWERS} times for data of tensors without data: it "
                f"seems to loop until its data changes; {REAL_RUN} instead"
            )
        if assumption:
            self.assume(assumption)
        if not self._in_frame:
            tensors: list[Tensor] = []
            try:
                key = call_key(plan, args, kwargs, tensors)
                entry = self._own_entries.setdefault(key, CachedCall(plan))
            except (RuntimeError, TypeError):
                entry, tensors = CachedCall(plan), tensors_of(args, kwargs)
            self._note(entry, tensors, args, kwargs, result)
        return result

    def assume(self, assumption: str) -> None:
        """Note what was assumed of data, at the module that runs."""
        for sink in self.sinks:
            sink.recorder.assume(assumption, self.modules.path)

    def _unlisted(self, plan: OperatorPlan, args: Any, kwargs: Any) -> Any:
        result = plan.func(*args, **kwargs)
        self._fills.made(plan, result)
        if plan.is_alias and isinstance(result, Tensor) and not self._in_frame:
            for sink in self.sinks:
                sink.identities.same(result, args[0])
        return result

    def _meet_shards(self, args: Any) -> None:
        """The part of a parameter that this process holds is a parameter to the operators on it."""
        for value in args:
            if isinstance(value, Parameter) and hasattr(value, "_local_tensor"):
                for sink in self.sinks:
                    sink.identities.take_for_learned(value._local_tensor)

    def _note(self, entry: CachedCall, tensors: Sequence[Tensor], args: Any, kwargs: Any, result: Any) -> None:
        plan = entry.plan
        step = self._fills.step(plan, tensors) if self._fills.number is not None else ""
        if step == "view":
            return
        if step == "fill":
            plan = self.knowledge.plan(_FILL)
            entry, tensors, args, kwargs = CachedCall(plan), tensors[:1], (args[0], 0), {}
        number = _sequence_number()
        module, phase = self.places.here(number, self._home_of)
        if plan.is_clone:
            self._cloned = (number, id(tensors[0]))
        elif self._cloned is not None:
            if plan.written and self._cloned == (number, id(tensors[0])) and tensors[0].requires_grad:
                for sink in self.sinks:
                    sink.forget_last()
            self._cloned = None
        results: Sequence[Any]
        if isinstance(result, Tensor):
            results = (result,)
        elif isinstance(result, (list, tuple)):
            results = result
        else:
            results = plan.written_arguments(args, kwargs or {})
        for sink in self.sinks:
            sink.note(entry, tensors, args, kwargs, results, module, phase, self._seconds)
        self._seconds = None

    def _home_of(self, parameter: Tensor) -> str:
        return self.sinks[-1].home_of(parameter) if self.sinks else ""
