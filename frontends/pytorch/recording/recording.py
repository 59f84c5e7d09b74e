"""The recording of one thread: observers see every finished call.

:meth:`Recording.observe` is the only entry. The observers are, in this order, the known values, the memory ledgers and,
outside composite operators, the logs of the captures. Sections: assumptions, memory ledgers, the module and phase of a
call, the log, clocks.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from operator import itemgetter
from time import perf_counter, thread_time
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from weakref import ref

import torch
from torch import Tensor
from torch.nn import Module

from costcore.counting import CALCULATOR_ERRORS
from costcore.ir import Layer, Role
from costcore.ir import Tensor as Operand
from costcore.registry import BACKWARD, calculators
from costcore.trace import interrupts
from costcore.trace.call import Call, user_line, user_traceback
from costcore.trace.call import Module as ModuleEntry
from costcore.trace.interrupts import collector_off
from costcore.trace.run import CPU_TIME, Recorder
from costcore.translate import Native, Translator

from ..meta.branches import CONDITION_IS_FALSE, CONDITION_IS_TRUE, OTHER_SIDE_FAILS, EndlessLoopError, is_inside_while
from ..meta.model_copy import keep_storages
from ..meta.propagate_values import MASKING, MaskedScores, allowed_pairs, propagate
from ..meta.values import Values, all_tensors
from ..naming import Flag
from ..operators.call_cache import CachedCall, CallTemplate
from ..operators.plan import FillStep, OperatorPlan, OperatorPlans, RefusedCalls, ScalarFills
from ..tensors import DataOperand, Number, is_contiguous, is_twice_ragged, nested_tensors, operand
from .ledger import ModuleCalls, shapes_of
from .modules import BUFFER, COMPUTED, EXTERNAL, GIVEN, LEARNED, N_ORIGINS, Identities, ModuleStack, NewPath

if TYPE_CHECKING:
    from .ledger import StorageLedger
    from .modules import ApiCallTracker

Observer: TypeAlias = "Callable[[CachedCall, Sequence[Tensor], Any, Any, Any], None]"
"""Sees a finished call: its cache entry, all tensors among its arguments, its arguments, and its result."""

_current_node = torch._C._current_autograd_node

_sequence_number = torch.autograd._get_sequence_nr

_FILL = torch.ops.aten.fill_.Scalar


ATTENTION = frozenset(
    (
        "aten::scaled_dot_product_attention",
        "higher_order::flex_attention",
        *(f"aten::_scaled_dot_product_{name}" for name in ("attention_math", "flash_attention", "efficient_attention")),
        *(f"aten::_scaled_dot_product_{name}" for name in ("cudnn_attention", "flash_attention_for_cpu")),
        *(f"aten::_scaled_dot_product_{name}_backward" for name in ("flash_attention", "flash_attention_for_cpu")),
        *(f"aten::_scaled_dot_product_{name}_backward" for name in ("efficient_attention", "cudnn_attention")),
    )
)
"""The operators of attention, by native name."""


class Recording:
    """The recording of one thread.

    Args:
        plans: the plans of operators.
        values: the known values of meta tensors.
        is_estimate: whether this is an estimate rather than a run.

    Attributes:
        logs: one log per active capture of the thread; captures nest.
        inside_call: whether a composite operator, or a module or function that is recorded as one call, is running; its
            inner operators are not recorded.
        records_inside: whether inner operators are recorded anyway.
        has_module_calls: whether any log records the calls of modules.
        ledgers: the memory ledgers of the captures that have one.
        locator: finds module and phase of a call.
        modules: the modules that are running.
        assumptions: the assumptions about data.
        measures_time: whether any log needs the duration of calls.
        counts_pairs: whether any log needs the pairs that masks of attention allow.
        pairs: the pairs of the next recorded call of attention, if the recorded arguments do not include its mask.
        reading: the duration of the next recorded call; None if it was not measured.
        refused: the operator call that raised an error.
        must_inspect: whether ``_inspect`` must see each call, for pairs of attention or for ``whole_paths``.
        whole_paths: paths of modules whose backward pass is recorded as one call.
    """

    ledgers: Ledgers
    inside_call: Flag
    locator: Locator
    modules: ModuleStack
    assumptions: Assumptions
    measures_time: bool
    counts_pairs: bool
    must_inspect: bool
    has_module_calls: bool
    refused: RefusedCalls

    def __init__(self, plans: OperatorPlans, values: Values, is_estimate: bool) -> None:
        self.logs: list[CallLog] = []
        self.ledgers = Ledgers(is_estimate)
        self.inside_call = Flag()
        self.records_inside = False
        self._values = values
        self._observers: list[Observer] = []
        self.locator = Locator(self.logs, _sequence_number())
        self.modules = self.locator.modules
        self.assumptions = Assumptions(self.logs, self.modules)
        self.measures_time = False
        self.counts_pairs = self.must_inspect = False
        self.pairs: int | None = None
        self._pairs_of_out: dict[int, int | None] = {}
        self._masked_scores = MaskedScores(values)
        self.has_module_calls = False
        self.reading: Reading | None = None
        self.refused = RefusedCalls()
        self.whole_paths: set[str] = set()
        self._plans = plans
        self._locate: Callable[[int], tuple[str, str]] = self.locator.locate
        self._fills = ScalarFills()
        self._threads: list[Recording] = []
        """The recordings of running threads that this one started."""
        self._numbers: dict[CallLog, int] = {}
        """The number of the capture of every log; see :mod:`costcore.trace.interrupts`."""
        self._has_coroutines = False
        """Whether logs were added in concurrent coroutines."""
        self._last_clone: tuple[int, int] | None = None
        """The autograd sequence number at the last call, and the id of its operand, if it was a clone.

        Autograd clones a saved tensor before an in-place operator overwrites it. Unlike a clone in the user's code,
        this one has no node, so the sequence number stays the same.
        """

    def locate_by(self, locate: Callable[[int], tuple[str, str]]) -> None:
        """Locate calls by a function of autograd's sequence number, not by the running modules."""
        self._locate = locate

    def add(self, log: CallLog) -> None:
        """Append calls to a further log from now on."""
        entered = interrupts.entered()
        self._has_coroutines |= any(number not in entered for number in self._numbers.values())
        self._numbers[log] = interrupts.enter()
        self.logs.append(log)
        if log.ledger is not None:
            self.ledgers.append(log.ledger)
        self._logs_changed()

    def remove(self, log: CallLog) -> None:
        """Stop appending calls to a log."""
        if log in self._numbers:
            interrupts.leave(self._numbers.pop(log))
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
        self.locator.share_with(made.locator, running)
        made.append_to(logs)
        self._threads.append(made)
        return made

    def append_to(self, logs: Sequence[CallLog]) -> None:
        """Append calls to the logs of another thread."""
        self.logs[:] = logs
        self.ledgers[:] = [log.ledger for log in logs if log.ledger is not None]
        self._logs_changed()

    def end_thread(self, made: Recording) -> None:
        """Record that a thread ended, and the modules that it called."""
        self._threads.remove(made)
        self.modules.absorb(made.modules)
        made.append_to(())

    def _logs_changed(self) -> None:
        self.counts_pairs = any(log.recorder.counts_pairs for log in self.logs)
        self.must_inspect = self.counts_pairs or bool(self.whole_paths)
        self.measures_time = any(log.recorder.measure_time is not False for log in self.logs)
        self.has_module_calls = any(log.module_calls is not None for log in self.logs)
        ledgers = [self.ledgers.observe] if self.ledgers else []
        # Without logs there are no observers: these bound methods would be a reference cycle that outlives the run.
        self._observers = [self._propagate, *ledgers, self._record] if self.logs else []

    def add_whole(self, path: str) -> None:
        """Record the backward pass of a module as one call from now on."""
        self.whole_paths.add(path)
        self.must_inspect = True

    def observe(self, call: CachedCall, tensors: Sequence[Tensor], args: Any, kwargs: Any, result: Any) -> None:
        """Pass a finished call to every observer."""
        for see in self._observers:
            see(call, tensors, args, kwargs, result)

    def timed(self, tensors: Sequence[Tensor], kwargs: Any, run: Callable[..., Any], *args: Any) -> Any:
        """Return the result of ``run``, with its duration measured if any log needs it."""
        if not self.measures_time or self.inside_call.is_set:
            return run(*args)
        watch = Stopwatch(tensors, kwargs)
        result = run(*args)
        self.reading = watch.stop()
        return result

    def logs_here(self) -> Sequence[CallLog]:
        """Return the logs of the running coroutine; all of them if it has none."""
        entered = interrupts.entered()
        return [log for log in self.logs if self._numbers.get(log) in entered] or self.logs

    def begin_module_call(self, args: Any) -> list[tuple[ModuleCalls, int]]:
        """Record the call of the running module, and return its number in each log that records it."""
        found = [log.module_calls for log in self.logs_here() if log.module_calls is not None]
        inputs, path = shapes_of(args), self.modules.path
        return [(calls, calls.begin(path, inputs)) for calls in found]

    def record_returned(self, result: Any) -> None:
        """Record which values the outermost module returned, unless a backward pass recomputes it."""
        if _current_node() is None:
            returned = nested_tensors(result)
            for log in self.logs_here() if self._has_coroutines else self.logs:
                log.append_returned(returned)

    def watch_unrecorded(self, plan: OperatorPlan, result: object) -> None:
        """Track the result of an unrecorded operator, which later calls may use."""
        self._fills.watch_unrecorded(plan, result)

    def _propagate(self, call: CachedCall, tensors: Sequence[Tensor], args: Any, kwargs: Any, result: Any) -> None:
        if call.may_change_values:
            propagate(self._values, call.plan.follow_rule, args, kwargs, tensors, result)

    def _record(self, call: CachedCall, tensors: Sequence[Tensor], args: Any, kwargs: Any, result: Any) -> None:
        if self.inside_call.is_set and not self.records_inside:
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
        if self.must_inspect and self._inspect(plan, args, kwargs, result, module, phase, logs):
            return
        if plan.is_clone or self._last_clone is not None:
            self._drop_autograd_clone(plan, tensors, number, logs)
        results = (result,) if isinstance(result, Tensor) else _results(plan, args, kwargs or {}, result)
        for log in logs:
            log.append(call, tensors, args, kwargs, results, module, phase, self.reading)
        self.reading = None

    def _note_pairs(self, plan: OperatorPlan, args: Any, kwargs: Any, result: Any, logs: Sequence[CallLog]) -> None:
        of_blocks, self.pairs = self.pairs, None
        given = plan.bind(args, kwargs or {})
        pairs = allowed_pairs(self._values, given) if of_blocks is None else of_blocks
        # A backward call gets its mask as floats. It has the same pairs as the forward call whose output it reads.
        if isinstance(out := given.get("out"), Tensor):
            pairs = self._pairs_of_out.get(out.untyped_storage()._cdata, pairs)
        else:
            made = next((x for x in nested_tensors(result) if not x.is_nested), None)
            if made is not None:
                self._pairs_of_out[made.untyped_storage()._cdata] = pairs
        if pairs is None:
            return
        for log in logs:
            log.recorder.attention_pairs[log.n_calls()] = pairs

    def _note_masked(self, plan: OperatorPlan, args: Any, kwargs: Any, result: Any, logs: Sequence[CallLog]) -> None:
        scores = result if isinstance(result, Tensor) else args[0]
        if scores.dim() < 2 or scores.numel() < 2:
            return
        count = self._masked_scores.of(plan.native, plan.bind(args, kwargs or {}), scores)
        for log in logs if count else ():
            log.recorder.masked_scores[log.n_calls()] = count

    def _inspect(
        self,
        plan: OperatorPlan,
        args: Any,
        kwargs: Any,
        result: Any,
        module: str,
        phase: str,
        logs: Sequence[CallLog],
    ) -> bool:
        # Record the pairs of attention; return whether the call is inside a backward pass that is recorded as one call.
        if self.counts_pairs and plan.native in ATTENTION:
            self._note_pairs(plan, args, kwargs, result, logs)
        elif self.counts_pairs and plan.native in MASKING:
            self._note_masked(plan, args, kwargs, result, logs)
        return bool(self.whole_paths) and phase == "backward" and self._is_in_whole(module, plan)

    def _is_in_whole(self, module: str, plan: OperatorPlan) -> bool:
        is_inside = any(module == path or module.startswith(f"{path}.") or not path for path in self.whole_paths)
        return is_inside and not plan.native.endswith(BACKWARD)

    def _drop_autograd_clone(
        self, plan: OperatorPlan, tensors: Sequence[Tensor], number: int, logs: Sequence[CallLog]
    ) -> None:
        # Autograd clones a saved tensor before an in-place operator overwrites it; see ``_last_clone``.
        if plan.is_clone:
            self._last_clone = (number, id(tensors[0]))
            return
        if plan.written and self._last_clone == (number, id(tensors[0])) and tensors[0].requires_grad:
            for log in logs:
                log.remove_last()
        self._last_clone = None


def _results(plan: OperatorPlan, args: Any, kwargs: Any, result: Any) -> Sequence[Any]:
    if plan.returns_written:
        return [*all_tensors(plan.written_arguments(args, kwargs))]
    return result if isinstance(result, (list, tuple)) else plan.written_arguments(args, kwargs)


# Assumptions about data, which meta tensors lack


MAX_ASSUMED_VALUES = 30_000
"""The maximum number of assumed numbers and conditions; a model that needs more seems to loop endlessly."""

MAX_ASSUMED_ROUNDS = 3_000
"""The maximum if the last one is read inside ``while``, where each round may run hundreds of operators."""

_BRANCHES = (CONDITION_IS_TRUE, CONDITION_IS_FALSE, OTHER_SIDE_FAILS)

REAL_RUN = "count a real run inside ComputationalCostHook"


class Assumptions:
    """The assumptions of one run.

    Args:
        logs: receive the assumptions.
        modules: the modules that are running.
    """

    def __init__(self, logs: Sequence[CallLog], modules: ModuleStack) -> None:
        self._logs = logs
        self._modules = modules
        self._n_assumed_values = 0

    def note(self, assumption: str) -> None:
        """Record an assumption, with the running module and the line of the user's code that needs the value."""
        line = user_line("torch")
        for log in self._logs:
            log.recorder.assume(assumption, self._modules.path, line, is_branch=assumption in _BRANCHES)

    def count_assumed_value(self) -> None:
        """Count a number or a condition that was assumed.

        Raises:
            CostError: after :data:`MAX_ASSUMED_VALUES` of them, or :data:`MAX_ASSUMED_ROUNDS`; the message includes
                the module.
        """
        self._n_assumed_values += 1
        n = self._n_assumed_values
        if n > MAX_ASSUMED_VALUES or (n % MAX_ASSUMED_ROUNDS == 0 and is_inside_while()):
            where = f"module {self._modules.path!r}" if self._modules.path else "the model"
            raise EndlessLoopError(
                f"{where}: values of meta tensors were read {n:,} times; it seems to loop until its data changes; "
                f"{REAL_RUN} instead"
            )


# Memory ledgers of one thread


_INDEXING = frozenset(
    map(id, (torch.ops.aten.index.Tensor, torch.ops.aten.index_put.default, torch.ops.aten.index_put_.default))
)
"""The operators of ``x[[0, 2]]``: PyTorch makes a tensor of the list, on the meta device without an operator."""


class Ledgers(list["StorageLedger"]):
    """The ledgers of the captures that have one.

    Args:
        is_estimate: whether this is an estimate rather than a run.
    """

    def __init__(self, is_estimate: bool) -> None:
        super().__init__()
        self.is_estimate = is_estimate

    def observe(self, call: CachedCall, tensors: Sequence[Tensor], args: Any, kwargs: Any, result: Any) -> None:
        """Register the memory of the results of a call."""
        self.see(call.plan.func, tensors, args, kwargs, result)

    def see(self, operator: Any, tensors: Sequence[Tensor], args: Any, kwargs: Any, result: Any) -> None:
        """Register the memory of the results of an operator."""
        keep_storages(operator, args, result)
        if self.is_estimate and id(operator) in _INDEXING:
            for index in args[1]:
                if index is not None and index.is_meta:
                    self.allocated(index)
        for ledger in self:
            ledger.see(operator, tensors, kwargs, result)

    def allocated(self, tensor: Tensor) -> None:
        """Register the memory of a tensor that PyTorch made, but no operator returned."""
        for ledger in self:
            ledger.allocated(tensor)

    def note(self, note: str, is_approximation: bool = False) -> None:
        """Add a note on the figures."""
        for ledger in self:
            ledger.note(note, is_approximation)

    def as_one_kernel(self) -> AbstractContextManager[None]:
        """Context manager: count no memory freed inside; a CPU runs this as one kernel."""
        return _in_all([ledger.as_one_kernel() for ledger in self])

    def paused(self) -> AbstractContextManager[None]:
        """Context manager: record no memory."""
        return _in_all([ledger.paused for ledger in self])

    def adding_in_place(self) -> AbstractContextManager[None]:
        """Context manager: a composite operator runs that adds in place, but not inside a dispatch mode."""
        return _in_all([ledger.adding_in_place for ledger in self])


@contextmanager
def _in_all(contexts: Iterable[AbstractContextManager[None]]) -> Iterator[None]:
    with ExitStack() as stack:
        for context in contexts:
            stack.enter_context(context)
        yield


# Location of a call: its module, and the phase of the run


_grad_enabled = torch.is_grad_enabled

_current_graph = torch._C._current_graph_task_id

_NO_GRAPH = -1

_BACKWARD_FUNCTION = "_engine_run_backward"
"""The function of PyTorch that runs the backward pass."""


def _weak_rename(locator: Locator) -> Callable[[NewPath], None]:
    # A strong reference from the module stack would keep the locator, and with it the model, alive.
    located = ref(locator)

    def rename(new_path: NewPath) -> None:
        found = located()
        if found is not None:
            found.rename(new_path)

    return rename


class Locator:
    """The locator of module and phase for the operators of one thread.

    An autograd node has the sequence number at which the forward pass made it. The module that ran at that number is
    the module of the node.

    Args:
        logs: store the module that first read a parameter.
        number: the current sequence number of autograd.

    Attributes:
        modules: the modules that are running.
        outside: the phase of operators that run neither in a backward pass nor in a step of an optimizer.
    """

    modules: ModuleStack
    outside: str

    def __init__(self, logs: Sequence[CallLog], number: int) -> None:
        self.modules = ModuleStack(_weak_rename(self))  # a reference cycle would keep the model alive
        self.outside = "forward"
        self._logs = logs
        self._number = number
        self._numbers: list[int] = []
        """The sequence numbers at which a call was located, each once, ascending."""
        self._paths: list[str] = []
        """The paths of the modules that ran when autograd reached the numbers in ``_numbers``, in that order."""
        self._step: CodeType | None = None
        """The code of the step of an optimizer that may be running."""
        self.has_stepped = False
        """Whether an optimizer has made a step."""
        self._n_around_step = 0
        """The number of modules that ran when it began."""
        self._step_depths = 0, 0
        """The last two stack depths at which that function was found. Most operators of a step run at one of two
        depths, so that looking there first is fast."""

    def share_with(self, other: Locator, running: Sequence[tuple[Module, str]]) -> None:
        """Share the locations with the locator of a thread that was started while the modules ``running`` ran."""
        other.use_state(self.outside, self._numbers, self._paths)
        self.modules.share_with(other.modules, running)

    def use_state(self, outside: str, numbers: list[int], paths: list[str]) -> None:
        """Use the phase and the locations of another thread."""
        self.outside, self._numbers, self._paths = outside, numbers, paths

    def catch_up(self) -> int:
        """Continue from the last sequence number at which any thread located a call, and return it."""
        if self._numbers:
            self._number = max(self._number, self._numbers[-1])
        return self._number

    def rename(self, new_path: NewPath) -> None:
        """Change the module paths of all recorded calls, and of the backward calls that belong to them."""
        self._paths[:] = map(new_path, self._paths)
        for log in self._logs:
            log.rename_modules(new_path)

    def begin_optimizer_step(self) -> None:
        """Record that the function two frames up, a step of an optimizer, begins."""
        self._step = sys._getframe(2).f_code
        self.has_stepped = True
        self._n_around_step = len(self.modules.running)

    def locate(self, number: int) -> tuple[str, str]:
        """Return module path and phase of the operator that is running.

        Args:
            number: the current sequence number of autograd.
        """
        node = _current_node()
        if node is None and _current_graph() == _NO_GRAPH:
            module = self.modules.path
            phase = self.outside if self._step is None or not self._is_in_optimizer_step() else "optimizer"
        elif node is None:  # a callback at the end of a backward pass
            module, phase = self.modules.path, "backward"
        else:
            phase = _backward_phase(self.modules.is_running)
            module = self._module_of_node(node) if phase == "backward" else self._recomputed_module()
        if number > self._number:
            self._number = number
            self._numbers.append(number)
            self._paths.append(module)
        return module, phase

    def _is_in_optimizer_step(self) -> bool:
        # A closure that the step calls runs with gradients or in a further module. No hook reports the end of a
        # step that raises an exception. So the step is running as long as its function is on the stack.
        if _grad_enabled() or len(self.modules.running) > self._n_around_step:
            return False
        first, second = self._step_depths
        try:
            if sys._getframe(first).f_code is self._step or sys._getframe(second).f_code is self._step:
                return True
        except ValueError:  # the stack is not that deep
            pass
        frame: FrameType | None = sys._getframe()
        depth = 0
        while frame is not None and frame.f_code is not self._step:
            frame, depth = frame.f_back, depth + 1
        if frame is None:
            self._step = None
        self._step_depths = depth, first
        return frame is not None

    def _recomputed_module(self) -> str:
        # Code that calls ``module.forward`` directly enters no module: find ``forward`` on the stack.
        if self.modules.is_running:
            return self.modules.path
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and frame.f_code.co_name != _BACKWARD_FUNCTION:
            if frame.f_code.co_name == "forward":
                path = self.modules.path_of(frame.f_locals.get("self"))
                if path is not None:
                    return path
            frame = frame.f_back
        return self.modules.path

    def _module_of_node(self, node: Any) -> str:
        parameter = getattr(node, "variable", None)
        if isinstance(parameter, Tensor):
            return self._logs[-1].module_of(parameter) if self._logs else ""
        at = bisect_right(self._numbers, node._sequence_nr())
        return self._paths[at] if at < len(self._paths) else ""


def _backward_phase(in_module: bool) -> str:
    # Grad mode does not tell a recomputation from the backward pass: ``create_graph`` enables it in the backward pass,
    # and ``autograd.Function`` disables it in a recomputation. But below the autograd engine, modules and
    # ``torch.utils.checkpoint`` run only in a recomputation.
    if not in_module and not _grad_enabled():
        return "backward"
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_name != _BACKWARD_FUNCTION:
        name = frame.f_code.co_filename
        if name.endswith("checkpoint.py") or frame.f_code.co_name == "_call_impl":
            return "recompute"
        frame = frame.f_back
    return "backward"


# The log of one capture


Annotation: TypeAlias = "tuple[Reading | None, str, str, tuple[str, ...], int]"
"""Data that few calls have: the measured duration, ``where``, ``function``, ``given`` and ``module_call``."""

_NOT_ANNOTATED: Annotation = (None, "", "", (), 0)

PRODUCTS = frozenset(("attention", "einsum", "linear", "matmul"))
"""Operators whose cost cannot be computed from the number of elements alone."""

Picker: TypeAlias = "Callable[[tuple[Any, ...]], tuple[int, ...]]"


class CallLog:
    """The operator calls of one capture.

    During the run, a call is a tuple of small numbers and strings, which is cheap and keeps no tensor alive: number of
    the template, module, phase, operand ids of arguments and results, and at the end 0, the operand id of all Python
    numbers. :meth:`flush` turns the tuples into :class:`Call` objects before the calls of the recorder are read.

    Args:
        recorder: receives the calls.
        translator: turns operator calls into layers.
        modules: the modules that are running.
        api_calls: tracks the running API function, if it is recorded.

    Attributes:
        module_calls: the module calls, if they are recorded.
    """

    identities: Identities
    module_calls: ModuleCalls | None

    def __init__(
        self, recorder: Recorder, translator: Translator, modules: ModuleStack, api_calls: ApiCallTracker | None = None
    ) -> None:
        self.recorder = recorder
        self.identities = Identities(recorder, modules)
        self._rows: list[tuple[Any, ...]] = []
        self._api_calls = api_calls
        self.module_calls = None if api_calls is None else ModuleCalls(recorder.module_calls)
        self._annotates_all = recorder.tracebacks or api_calls is not None
        self._annotations: dict[int, Annotation] = {}
        self._outer: tuple[list[tuple[Any, ...]], dict[int, Annotation]] | None = None
        """The rows and annotations of the log, while inner calls are kept apart."""
        self._numbers: dict[CallTemplate, int] = {}
        self._templates: list[tuple[Layer, str, str, str, tuple[int, ...], Sequence[int], Picker, int]] = []
        """For every template: its layer, the names of its operator and overload, the positions of non-contiguous and of
        learned operands, the getter of input and output ids from a row, and the number of inputs."""
        self._translate = translator.by(self._operand)
        self._is_backward_operator = False
        self._modules: dict[int, str] = {}
        """Path of the module that first read a parameter, by the id of the parameter."""
        recorder.pending.append(self.flush)
        self.ledger: StorageLedger | None = None
        """The memory of the run, if the recorder requests it."""
        if recorder.memory:
            from .ledger import StorageLedger

            self.ledger = StorageLedger(self.identities, self.n_calls)
            recorder.memory_ledger = self.ledger.result
            recorder.watch_memory = self.ledger.watch_all

    def n_calls(self) -> int:
        """Return the number of recorded calls."""
        return len(self.recorder.calls) + len(self._rows if self._outer is None else self._outer[0])

    def begin_inner(self) -> Callable[[bool], None]:
        """Collect the following calls separately, until the returned function is called.

        ``end(True)`` appends these calls to the log, ``end(False)`` drops them. Collections nest.
        """
        outer, rows, annotations = self._outer, self._rows, self._annotations
        self._outer = (rows, annotations) if outer is None else outer
        self._rows, self._annotations = [], {}

        def end(adds: bool) -> None:
            if adds:
                annotations.update({len(rows) + i: each for i, each in self._annotations.items()})
                rows.extend(self._rows)
            self._outer, self._rows, self._annotations = outer, rows, annotations

        return end

    def append(
        self,
        call: CachedCall,
        tensors: Sequence[Tensor],
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None,
        results: Sequence[Any],
        module: str,
        phase: str,
        reading: Reading | None,
    ) -> None:
        """Append one call.

        Args:
            call: its cache entry.
            tensors: all tensors among its arguments.
            args: its positional arguments.
            kwargs: its keyword arguments.
            results: all values that it returned.
            module: path of its module.
            phase: phase of the run.
            reading: its duration, if it was measured.
        """
        identities = self.identities
        by_address = identities.by_address
        values: list[int] = []
        origins = 1
        for tensor in tensors:
            found = by_address.get(id(tensor))
            if found is None or found[0]() is not tensor:
                found = identities.register_external(tensor)
                if self.ledger is not None:
                    self.ledger.watch_operand(tensor)
            values.append(found[1])
            origins = N_ORIGINS * origins + found[2]
        for value in results:
            if isinstance(value, Tensor):
                found = identities.register_result(value)
                values.append(found[1])
                origins = N_ORIGINS * origins + found[2]
        template = call.templates.get(origins)
        if template is None:
            template = call.templates[origins] = self._template(call.plan, tensors, args, kwargs or {}, results)
        number = self._numbers.get(template)
        if number is None:
            number = self._number(template, call.plan)
        for i in template.by_use:
            if values[i] not in identities.parameters:
                identities.register_parameter(tensors[i], values[i])
        if reading is not None or not template.is_supported or self._annotates_all:
            self._annotations[len(self._rows)] = self._annotation(template, phase, reading)
        self._rows.append((number, module, phase, *values, 0))

    def rows_since(self, position: int) -> Sequence[tuple[Any, ...]] | None:
        """Return the calls from a position on, for :meth:`repeat`; None if they have annotations, pairs or memory."""
        first = position - len(self.recorder.calls)
        if first < 0 or self._outer is not None or self.ledger is not None:
            return None
        noted = *self.recorder.attention_pairs, *self.recorder.masked_scores
        if any(at >= position for at in noted) or any(at >= first for at in self._annotations):
            return None
        return self._rows[first:]

    def repeat(self, rows: Iterable[tuple[Any, ...]], module: str, phase: str) -> None:
        """Append calls again, for other tensors with the same shapes, dtypes and strides.

        Args:
            rows: the calls, as :meth:`rows_since` returns them.
            module: path of their module.
            phase: phase of the run.
        """
        identities, new_id = self.identities, self.recorder.new_id
        parameters, storages, sizes = identities.parameters, identities.storages, identities.sizes
        operands, memories, learned = {0: 0}, {0: 0}, {0: 0}
        for row in rows:
            values = []
            for value in row[3:]:
                operand = operands.get(value)
                if operand is None:
                    operand = operands[value] = new_id()
                    memory = storages[value]
                    if memory not in memories:
                        memories[memory] = new_id()
                    storages[operand] = memories[memory]
                    parameter = parameters.get(value, 0)
                    if parameter:
                        if parameter not in learned:
                            learned[parameter] = self.recorder.parameter(sizes[parameter])
                            identities.used_as_weights[learned[parameter]] = sizes[parameter]
                        parameters[operand] = learned[parameter]
                values.append(operand)
            self._rows.append((row[0], module, phase, *values))

    def append_returned(self, tensors: Sequence[Tensor]) -> None:
        """Append tensors that the outermost module returned."""
        identities = self.identities
        self.recorder.returned += [identities.of(tensor)[1] for tensor in tensors]

    def flush(self) -> None:
        """Append the calls to the recorder."""
        rows, annotations = self._rows, self._annotations
        if not rows or self._outer is not None:
            return
        self._rows, self._annotations = [], {}
        calls = self.recorder.calls
        first = len(calls)
        self._read_clocks(first, annotations)
        templates, new = self._templates, tuple.__new__
        storage_of, parameters = self.identities.storages.__getitem__, self.identities.parameters
        read: tuple[int, ...]
        with collector_off():
            for i, row in enumerate(rows):
                layer, kind, name, overload, strided, learned, pick, n_inputs = templates[row[0]]
                module, phase, operands = row[1], row[2], pick(row)
                inputs, outputs = operands[:n_inputs], operands[n_inputs:]
                storages = (*map(storage_of, operands),)
                if learned:
                    read = tuple([parameters[row[3 + at]] for at in learned])
                    for parameter in read:
                        self._modules.setdefault(parameter, module)
                else:
                    read = ()
                _, where, function, given, module_call = annotations.get(i, _NOT_ANNOTATED)
                # The fields of a call in their order: keywords would cost as much as all the rest.
                # fmt: off
                calls.append(new(Call, (
                    layer, kind, name, "", module, phase, 1, "", inputs, outputs, storages, read, (), where, None,
                    overload, strided, function, given, module_call,
                )))
                # fmt: on

    def _read_clocks(self, first: int, annotations: Mapping[int, Annotation]) -> None:
        # ``first`` is the position of the first flushed call; annotations are numbered from it.
        clock = self.recorder.measure_time
        readings = {first + i: each[0] for i, each in annotations.items() if each[0] is not None}
        if clock is not False and readings:
            self.recorder.seconds.update(zip(readings, seconds_of(readings.values(), clock), strict=True))

    def close(self) -> None:
        """Flush the log; no call follows."""
        self.flush()
        if self.ledger is not None:
            self.ledger.close()
        self.recorder.pending.remove(self.flush)
        self.identities.release()

    def rename_modules(self, new_path: NewPath) -> None:
        """Change the paths of the modules of all calls so far."""
        self._rows[:] = [(row[0], new_path(row[1]), *row[2:]) for row in self._rows]
        # The recorder may also have calls of other frameworks, whose names have no ``::``.
        self.recorder.calls[:] = [
            call._replace(module=new_path(call.module)) if "::" in call.native else call for call in self.recorder.calls
        ]
        self._modules = {parameter: new_path(path) for parameter, path in self._modules.items()}
        if self.module_calls is not None:
            self.module_calls.rename(new_path)

    def locate_by_parameters(self, modules: Mapping[str, ModuleEntry], path: str) -> None:
        """Move calls of the module at ``path`` that read a parameter to the module that owns the parameter."""
        owners = {parameter: owner for owner, module in modules.items() for parameter in module.parameters}
        self.flush()
        self.recorder.calls[:] = [
            call._replace(module=owners.get(call.parameters[0], path))
            if call.parameters and call.module == path
            else call
            for call in self.recorder.calls
        ]

    def remove_last(self) -> None:
        """Remove the last call."""
        if self._rows:
            self._rows.pop()
            self._annotations.pop(len(self._rows), None)
        else:
            self.recorder.calls.pop()
            self.recorder.seconds.pop(len(self.recorder.calls), None)

    def module_of(self, parameter: Tensor) -> str:
        """Return the path of the module that first read a parameter."""
        self.flush()
        return self._modules.get(self.identities.parameter_of(parameter), "")

    def _number(self, template: CallTemplate, plan: OperatorPlan) -> int:
        number = self._numbers[template] = len(self._templates)
        layer = self.recorder.intern(template.layer)
        pick = _picker([3 + at if at >= 0 else -1 for at in template.inputs + template.outputs])
        names, n_inputs = (plan.type, plan.shown, plan.overload), len(template.inputs)
        self._templates.append((layer, *names, template.strided, template.learned, pick, n_inputs))
        return number

    def _annotation(self, template: CallTemplate, phase: str, reading: Reading | None) -> Annotation:
        where = "" if template.is_supported and not self.recorder.tracebacks else user_traceback("torch")
        function, given = ("", ()) if self._api_calls is None else self._api_calls.facts()
        module_call = 0 if self.module_calls is None or phase == "backward" else self.module_calls.innermost
        return reading, where, function, given, module_call

    def _template(
        self,
        plan: OperatorPlan,
        tensors: Sequence[Tensor],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        results: Sequence[Any],
    ) -> CallTemplate:
        bound = plan.bind(args, kwargs)
        self._is_backward_operator = "_backward" in plan.native
        # An in-place or overloaded operator may have its own row; otherwise the row of its base name is used.
        translation = self._translate(Native(plan.row, bound, results))
        if not translation.has_row and plan.row != plan.native:
            translation = self._translate(Native(plan.native, bound, results))
        if translation.layer.op in PRODUCTS and any(map(is_twice_ragged, (*tensors, *results))):
            translation = self._translate(Native(f"{plan.native} of ragged matrices", bound, results))
        if not translation.has_row and plan.native not in self.recorder.calculators:
            flops = _registered_flops(plan.func, args, kwargs, results)
            if flops is not None:
                layer = translation.layer
                made = Layer("registered_formula", layer.inputs, layer.outputs, {"flops": flops})
                translation = translation._replace(layer=made, has_row=True)
        position = {id(tensor): i for i, tensor in reversed(list(enumerate(tensors)))}
        returned = {id(value): i for i, value in enumerate(v for v in results if isinstance(v, Tensor))}
        layer = translation.layer
        inputs = [_unwrapped(value) for value in translation.inputs]
        supported = calculators()
        return CallTemplate(
            layer,
            tuple(-1 if type(value) is Number else position[id(value)] for value in inputs),
            tuple(len(tensors) + returned[id(value)] for value in translation.outputs),
            translation.has_row and (layer.op in supported or plan.native in supported),
            tuple(i for i, value in enumerate(inputs) if isinstance(value, Tensor) and not is_contiguous(value)),
            {i for i, tensor in enumerate(tensors) if self.identities.of(tensor)[2] == LEARNED},
        )

    def _operand(self, value: Any, role: Role) -> Operand | None:
        # The row states the usual role of an operand; the origin of the tensor decides.
        if type(value) is DataOperand:
            value, role = value.value, "data"
        if isinstance(value, Tensor):
            origin = self.identities.of(value)[2]
            if origin == LEARNED:
                role = "param"
            elif origin == COMPUTED and role != "data":
                role = "data"
            elif role == "param" and origin in (BUFFER, GIVEN):
                role = "state" if origin == BUFFER else "data"
            elif role == "param" and origin == EXTERNAL and self._is_backward_operator:
                role = "data"  # only the forward pass shows which tensors are weights
        return operand(value, role)


def _registered_flops(operator: Any, args: Any, kwargs: Any, results: Sequence[Any]) -> int | None:
    # A package may register formulas of its operators with ``torch.utils.flop_counter.register_flop_formula``.
    counter: Any = sys.modules.get("torch.utils.flop_counter")
    formula = None if counter is None else counter.flop_registry.get(getattr(operator, "_overloadpacket", None))
    if formula is None:
        return None
    try:
        flops = formula(*args, **kwargs, out_val=results[0] if len(results) == 1 else tuple(results))
    except CALCULATOR_ERRORS:
        return None  # the operator is listed as not supported
    return flops if isinstance(flops, int) and flops >= 0 else None


def _picker(places: Sequence[int]) -> Picker:
    # ``itemgetter`` returns a tuple only for two or more.
    if len(places) > 1:
        return itemgetter(*places)
    return lambda row: tuple([row[at] for at in places])


def _unwrapped(value: Any) -> Any:
    return value.value if type(value) is DataOperand else value


# Clocks: the host, CPU time of the thread, events of an accelerator


HOSTS = ("cpu", "meta")
"""Types of devices that run operators synchronously."""


class Events(NamedTuple):
    """Two events on the stream of an accelerator, before and after a call.

    Attributes:
        device: the accelerator.
        start, end: the events, which record time.
    """

    device: torch.device
    start: Any
    end: Any


class Reading(NamedTuple):
    """The duration of one call, in seconds.

    Attributes:
        wall: by the clock of the host.
        cpu: CPU time of the thread.
        events: the events of a call on an accelerator, which runs asynchronously; None for other calls.
    """

    wall: float
    cpu: float
    events: Events | None = None


class Stopwatch:
    """A stopwatch for one call: created before it, read by :meth:`stop` after it.

    An accelerator without events is synchronized before and after the call. A call that is only captured into a graph
    (by ``torch.cuda.graph``) has no time.

    Args:
        tensors: all tensors among the arguments of the call.
        kwargs: its keyword arguments.
    """

    __slots__ = ("_cpu", "_device", "_is_graph", "_start", "_wall")

    def __init__(self, tensors: Sequence[Tensor], kwargs: Mapping[str, Any] | None = None) -> None:
        self._device = accelerator_of(tensors, kwargs or {})
        self._is_graph = self._device is not None and _is_capturing(self._device)
        if self._is_graph:
            self._device = None
        self._start = None if self._device is None else _event_or_wait(self._device)
        self._cpu = thread_time()
        self._wall = perf_counter()  # the inner pair of readings, since the other clock takes longer to read

    def stop(self) -> Reading | None:
        """Return the time since the stopwatch was created."""
        if self._is_graph:
            return None
        device = self._device
        end = None if device is None else _event_or_wait(device)
        wall = perf_counter() - self._wall
        cpu = thread_time() - self._cpu
        if device is None or end is None:
            return Reading(wall, cpu)
        return Reading(wall, cpu, Events(device, self._start, end))


def accelerator_of(tensors: Sequence[Tensor], kwargs: Mapping[str, Any]) -> torch.device | None:
    """Return the accelerator that runs a call, by its tensors and its argument ``device``; None for the host."""
    devices = [tensor.device for tensor in tensors]
    if kwargs.get("device") is not None:
        devices.append(torch.device(kwargs["device"]))
    return next((device for device in devices if device.type not in HOSTS and _is_available(device)), None)


def _is_available(device: torch.device) -> bool:
    # Fake tensors may name a device that this machine lacks.
    module = getattr(torch, device.type, None)
    return module is not None and bool(module.is_available())


def _is_capturing(device: torch.device) -> bool:
    # Calls captured by ``torch.cuda.graph`` do not run now.
    query = getattr(getattr(torch, device.type), "is_current_stream_capturing", None)
    return query is not None and bool(query())


def _event_or_wait(device: torch.device) -> Any:
    module: Any = getattr(torch, device.type)
    if not hasattr(module, "Event"):
        module.synchronize()
        return None
    event = module.Event(enable_timing=True)
    event.record(module.current_stream(device))
    return event


def seconds_of(readings: Iterable[Reading], clock: bool | str) -> list[float]:
    """Return the seconds of every reading by the requested clock.

    Every accelerator is synchronized once, before its events are read.

    Args:
        readings: the readings.
        clock: :data:`CPU_TIME`, or True for the time on the device that ran the call.
    """
    readings = list(readings)
    if clock == CPU_TIME:
        return [reading.cpu for reading in readings]
    for device in {reading.events.device for reading in readings if reading.events is not None}:
        getattr(torch, device.type).synchronize(device)
    return [_on_device(reading) for reading in readings]


def _on_device(reading: Reading) -> float:
    if reading.events is None:
        return reading.wall
    milliseconds: float = reading.events.start.elapsed_time(reading.events.end)
    return milliseconds / 1000
