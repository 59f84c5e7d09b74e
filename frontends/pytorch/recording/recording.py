"""The recording of one thread, which locates every operator call and appends it to all active logs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from costcore.trace import coroutines

from ..meta.operands import all_tensors
from ..operators.call_cache import CachedCall
from ..operators.plan import OperatorPlan, OperatorPlans
from ..operators.refused_call import RefusedCalls
from ..operators.scalar_fills import FillStep, ScalarFills
from ..tensors import nested_tensors
from .assumptions import Assumptions
from .call_log import CallLog
from .location import Locator
from .module_calls import ModuleCalls, shapes_of
from .stopwatch import Reading

if TYPE_CHECKING:
    from .ledger import StorageLedger

_current_node = torch._C._current_autograd_node
_sequence_number = torch.autograd._get_sequence_nr
_FILL = torch.ops.aten.fill_.Scalar


class Recording:
    """What one thread runs.

    Args:
        plans: the plans of operators.

    Attributes:
        logs: one for every active capture of the thread; captures nest.
        has_module_calls: whether any log records the calls of modules.
        ledgers: the memory ledgers of those that have one.
        locator: finds module and phase of a call.
        modules: the modules that are running.
        assumptions: what is assumed about data.
        measures_time: whether any log wants the duration of calls.
        reading: the duration of the call that is recorded next; None if it was not measured.
        refused: the operator call that raised an error.
    """

    def __init__(self, plans: OperatorPlans) -> None:
        self.logs: list[CallLog] = []
        self.ledgers: list[StorageLedger] = []
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

    def _logs_changed(self) -> None:
        self.measures_time = any(log.recorder.measure_time is not False for log in self.logs)
        self.has_module_calls = any(log.module_calls is not None for log in self.logs)

    def _logs_here(self) -> Sequence[CallLog]:
        """Return the logs of the running coroutine; all of them if it has none."""
        entered = coroutines.entered()
        return [log for log in self.logs if self._numbers[log] in entered] or self.logs

    def begin_module_call(self, args: Any) -> list[tuple[ModuleCalls, int]]:
        """Record the call of the module that is running now, and return its number in each log that records it."""
        found = [log.module_calls for log in self._logs_here() if log.module_calls is not None]
        inputs, path = shapes_of(args), self.modules.path
        return [(calls, calls.begin(path, inputs)) for calls in found]

    def record_returned(self, result: Any) -> None:
        """Record which values the outermost module returned, unless it runs again for a backward pass."""
        if _current_node() is None:
            returned = nested_tensors(result)
            for log in self._logs_here() if self._has_coroutines else self.logs:
                log.append_returned(returned)

    def watch_unrecorded(self, plan: OperatorPlan, result: object) -> None:
        """Follow the result of an operator that is not recorded, which later calls may use."""
        self._fills.watch_unrecorded(plan, result)

    def record(self, call: CachedCall, tensors: Sequence[Tensor], args: Any, kwargs: Any, result: Any) -> None:
        """Record one call: ``tensors`` are all tensors among its arguments."""
        plan = call.plan
        if self._fills.number is not None:
            step = self._fills.step_of(plan, tensors)
            if step is FillStep.VIEW:
                return
            if step is FillStep.COPY:
                plan = self._plans.of(_FILL)
                call, tensors, args, kwargs = CachedCall(plan), tensors[:1], (args[0], 0), {}
        logs = self._logs_here() if self._has_coroutines else self.logs
        number = _sequence_number()
        module, phase = self._locate(number)
        if plan.is_clone:
            self._last_clone = (number, id(tensors[0]))
        elif self._last_clone is not None:
            if plan.written and self._last_clone == (number, id(tensors[0])) and tensors[0].requires_grad:
                for log in logs:
                    log.remove_last()
            self._last_clone = None
        results: Sequence[Any]
        if isinstance(result, Tensor):
            results = (result,)
        elif plan.returns_written:
            results = [*all_tensors(plan.written_arguments(args, kwargs or {}))]
        elif isinstance(result, (list, tuple)):
            results = result
        else:
            results = plan.written_arguments(args, kwargs or {})
        for log in logs:
            log.append(call, tensors, args, kwargs, results, module, phase, self.reading)
        self.reading = None
