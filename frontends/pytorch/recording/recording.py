"""The recording of one thread: every call that ran is shown to the observers, of which the logs are the last.

:meth:`Recording.observe` is the only place where calls are noted. The observers are what is known of values, the memory
ledgers and, unless a composite operator is running, the logs of the captures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn import Module

from costcore.trace import coroutines

from ..flags import Flag
from ..meta.follow import follow
from ..meta.operands import all_tensors
from ..meta.values import Values
from ..operators.call_cache import CachedCall
from ..operators.plan import OperatorPlan, OperatorPlans
from ..operators.refused_call import RefusedCalls
from ..operators.scalar_fills import FillStep, ScalarFills
from ..tensors import nested_tensors
from .assumptions import Assumptions
from .call_log import CallLog
from .ledgers import Ledgers
from .location import Locator
from .module_calls import ModuleCalls, shapes_of
from .stopwatch import Reading, Stopwatch

Observer: TypeAlias = "Callable[[CachedCall, Sequence[Tensor], Any, Any, Any], None]"
"""Sees a call that ran: what calls with its key share, all tensors among its arguments, its arguments, its result."""

_current_node = torch._C._current_autograd_node
_sequence_number = torch.autograd._get_sequence_nr
_FILL = torch.ops.aten.fill_.Scalar


class Recording:
    """What one thread runs.

    Args:
        plans: the plans of operators.
        values: what is known of the values of meta tensors.
        is_estimate: whether this is an estimate rather than a run.

    Attributes:
        logs: one for every active capture of the thread; captures nest.
        inside: whether a composite operator is running, whose inner operators are not recorded.
        records_inside: whether the inner operators are recorded all the same.
        has_module_calls: whether any log records the calls of modules.
        ledgers: the memory ledgers of the captures that have one.
        locator: finds module and phase of a call.
        modules: the modules that are running.
        assumptions: what is assumed about data.
        measures_time: whether any log wants the duration of calls.
        reading: the duration of the call that is recorded next; None if it was not measured.
        refused: the operator call that raised an error.
    """

    def __init__(self, plans: OperatorPlans, values: Values, is_estimate: bool) -> None:
        self.logs: list[CallLog] = []
        self.ledgers = Ledgers(is_estimate)
        self.inside = Flag()
        self.records_inside = False
        self._values = values
        self._observers: list[Observer] = []
        self.locator = Locator(self.logs, _sequence_number())
        self.modules = self.locator.modules
        self.assumptions = Assumptions(self.logs, self.modules)
        self.measures_time = False
        self.has_module_calls = False
        self.reading: Reading | None = None
        self.refused = RefusedCalls()
        self._plans = plans
        self._locate: Callable[[int], tuple[str, str]] = self.locator.locate
        self._fills = ScalarFills()
        self._threads: list[Recording] = []
        """The recordings of the threads that this one started, and that still run."""
        self._numbers: dict[CallLog, int] = {}
        """The number of the capture of every log; see :mod:`costcore.trace.coroutines`."""
        self._has_coroutines = False
        """Whether logs were added in coroutines that run side by side."""
        self._last_clone: tuple[int, int] | None = None
        """The autograd sequence number at the last call, and the id of its operand, if it was a clone.

        Autograd clones a tensor that it saved before an in-place operator overwrites it. Unlike a clone in the user's
        code, this one has no node of its own, so that the sequence number stays the same.
        """

    def locate_by(self, locate: Callable[[int], tuple[str, str]]) -> None:
        """Take module and phase of calls from a function of the sequence number of autograd, not from what runs."""
        self._locate = locate

    def add(self, log: CallLog) -> None:
        """Append calls to one more log from now on."""
        entered = coroutines.entered()
        self._has_coroutines |= any(number not in entered for number in self._numbers.values())
        self._numbers[log] = coroutines.enter()
        self.logs.append(log)
        if log.ledger is not None:
            self.ledgers.append(log.ledger)
        self._logs_changed()

    def remove(self, log: CallLog) -> None:
        """Append calls to a log no longer."""
        if log in self._numbers:
            coroutines.leave(self._numbers.pop(log))
        self.logs[:] = [other for other in self.logs if other is not log]
        self.ledgers[:] = [ledger for ledger in self.ledgers if ledger is not log.ledger]
        self._has_coroutines &= len(self.logs) > 1
        self._logs_changed()
        for recording in self._threads:
            recording.remove(log)

    def begin_thread(self, logs: Sequence[CallLog], running: Sequence[tuple[Module, str]]) -> Recording:
        """Return the recording of a thread that this one started.

        Args:
            logs: the logs that it appends to.
            running: the modules that ran when it was started.
        """
        made = Recording(self._plans, self._values, self.ledgers.is_estimate)
        made.refused = self.refused
        self.locator.lead(made.locator, running)
        made.append_to(logs)
        self._threads.append(made)
        return made

    def append_to(self, logs: Sequence[CallLog]) -> None:
        """Append calls to the logs of another thread."""
        self.logs[:] = logs
        self.ledgers[:] = [log.ledger for log in logs if log.ledger is not None]
        self._logs_changed()

    def end_thread(self, made: Recording) -> None:
        """Note that a thread ended, and which modules it called."""
        self._threads.remove(made)
        self.modules.join(made.modules)
        made.append_to(())

    def _logs_changed(self) -> None:
        self.measures_time = any(log.recorder.measure_time is not False for log in self.logs)
        self.has_module_calls = any(log.module_calls is not None for log in self.logs)
        ledgers = [self.ledgers.observe] if self.ledgers else []
        self._observers = [self._follow, *ledgers, self._record] if self.logs else []  # no circle that outlives the run

    def observe(self, call: CachedCall, tensors: Sequence[Tensor], args: Any, kwargs: Any, result: Any) -> None:
        """Show a call that ran to every observer."""
        for see in self._observers:
            see(call, tensors, args, kwargs, result)

    def timed(self, tensors: Sequence[Tensor], kwargs: Any, run: Callable[..., Any], *args: Any) -> Any:
        """Return the result of ``run``, measured if any log wants the duration of the call that it is."""
        if not self.measures_time or self.inside.is_set:
            return run(*args)
        watch = Stopwatch(tensors, kwargs)
        result = run(*args)
        self.reading = watch.stop()
        return result

    def logs_here(self) -> Sequence[CallLog]:
        """Return the logs of the running coroutine; all of them if it has none."""
        entered = coroutines.entered()
        return [log for log in self.logs if self._numbers.get(log) in entered] or self.logs

    def begin_module_call(self, args: Any) -> list[tuple[ModuleCalls, int]]:
        """Record the call of the module that is running now, and return its number in each log that records it."""
        found = [log.module_calls for log in self.logs_here() if log.module_calls is not None]
        inputs, path = shapes_of(args), self.modules.path
        return [(calls, calls.begin(path, inputs)) for calls in found]

    def record_returned(self, result: Any) -> None:
        """Record which values the outermost module returned, unless it runs again for a backward pass."""
        if _current_node() is None:
            returned = nested_tensors(result)
            for log in self.logs_here() if self._has_coroutines else self.logs:
                log.append_returned(returned)

    def watch_unrecorded(self, plan: OperatorPlan, result: object) -> None:
        """Follow the result of an operator that is not recorded, which later calls may use."""
        self._fills.watch_unrecorded(plan, result)

    def _follow(self, call: CachedCall, tensors: Sequence[Tensor], args: Any, kwargs: Any, result: Any) -> None:
        """Find the values of results from those of operands."""
        if call.carries:
            follow(self._values, call.plan.follow_rule, args, kwargs, tensors, result)

    def _record(self, call: CachedCall, tensors: Sequence[Tensor], args: Any, kwargs: Any, result: Any) -> None:
        """Append a call to the logs, unless it is inside a composite operator."""
        if self.inside.is_set and not self.records_inside:
            return
        plan = call.plan
        if self._fills.number is not None:
            step = self._fills.step_of(plan, tensors)
            if step is FillStep.VIEW:
                return
            if step is FillStep.COPY:
                plan = self._plans.of(_FILL)
                call, tensors, args, kwargs = CachedCall(plan), tensors[:1], (args[0], 0), {}
        logs = self.logs_here() if self._has_coroutines else self.logs
        number = _sequence_number()
        module, phase = self._locate(number)
        if plan.is_clone or self._last_clone is not None:
            self._forget_clone(plan, tensors, number, logs)
        results = (result,) if isinstance(result, Tensor) else _results(plan, args, kwargs or {}, result)
        for log in logs:
            log.append(call, tensors, args, kwargs, results, module, phase, self.reading)
        self.reading = None

    def _forget_clone(
        self, plan: OperatorPlan, tensors: Sequence[Tensor], number: int, logs: Sequence[CallLog]
    ) -> None:
        """Remove the last call if autograd made it: a clone of what the present call overwrites."""
        if plan.is_clone:
            self._last_clone = (number, id(tensors[0]))
            return
        if plan.written and self._last_clone == (number, id(tensors[0])) and tensors[0].requires_grad:
            for log in logs:
                log.remove_last()
        self._last_clone = None


def _results(plan: OperatorPlan, args: Any, kwargs: Any, result: Any) -> Sequence[Any]:
    """Return all values that a call returned; those that it wrote to if it returned none."""
    if plan.returns_written:
        return [*all_tensors(plan.written_arguments(args, kwargs))]
    return result if isinstance(result, (list, tuple)) else plan.written_arguments(args, kwargs)
