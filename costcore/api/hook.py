"""Count everything that runs inside a ``with`` block."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, NoReturn, SupportsIndex

from costcore.api.build_report import check_arguments, check_clock, make_report, warn_about
from costcore.errors import CostError, CostWarning
from costcore.messages import did_you_mean
from costcore.registry.custom import CustomCalculators
from costcore.registry.frontends import load, loaded, specs
from costcore.reports.report import Report
from costcore.tables.answer import Answer
from costcore.tables.result import OfReport
from costcore.trace.interrupts import HeldInterrupts
from costcore.trace.recorder import Recorder

_NO_MEMORY = (
    "memory=True: no frontend of this hook records memory. Those of PyTorch and Chainer do, if the framework is "
    "imported before the hook is entered."
)


def _unhooked(name: str) -> str:
    """Return that a hook records nothing of a framework, and what to do instead."""
    return f"ComputationalCostHook records nothing that {name} runs. {specs()[name].unhooked}"


class ComputationalCostHook(OfReport):
    """A context manager that counts what runs inside it, in every imported framework.

    ``with ComputationalCostHook() as cch: y = net(x)``. A hook can be used again, and then starts from zero. If two
    hooks are nested or overlap, both count; hooks of several coroutines each count what their own coroutine runs, and
    those it starts. If the block raises an exception, the report has the calls up to it. A hook counts the thread that
    entered it, and must be left in that thread.

    Args:
        fma_1flop: count a fused multiply-add as one FLOP (True) or two (False).
        layout: ``"framework"`` counts data movement as the framework executes it. ``"free"`` ignores it: operators that
            only move data (transposition, broadcasting, slicing, splitting, contiguous copies) are zero-cost.
        tracebacks: store the location in the user's code of every call. For unsupported operators it is always stored.
        spelled: record by which function or symbol the code called every operator (``torch.nn.functional.relu``,
            ``operator.add``), and every module call, as some counting conventions need; PyTorch only.
        frontends: names of the frontends to use, ``["pytorch"]``. Default: those whose framework is imported.
        measure_time: True measures the time of every call, if the framework runs calls one by one: with the clock of
            the host, and with events on its stream if an accelerator runs it (PyTorch). ``"cpu_time"`` measures CPU
            time of the thread, which other programs do not lengthen, but which lacks the time of other threads. It is
            reported as ``seconds``, and in the last columns of ``show_layers``.
        strict: raise an error at the end of the block if the status of the report is not ``complete``. The report
            stays available.
        memory: record when memory is allocated and freed (PyTorch, Chainer): :attr:`Report.memory`,
            :meth:`Report.show_memory`.

    Raises:
        TypeError, ValueError: if an argument is invalid.
        CostError: if the framework of a frontend cannot be imported.
    """

    def __init__(
        self,
        fma_1flop: bool = True,
        *,
        layout: str = "framework",
        tracebacks: bool = False,
        spelled: bool = False,
        frontends: Sequence[str] | None = None,
        measure_time: bool | str = False,
        strict: bool = False,
        memory: bool = False,
    ) -> None:
        switches = {"tracebacks": tracebacks, "spelled": spelled, "strict": strict}
        switches["memory"] = memory
        check_arguments(fma_1flop, layout, **switches)
        check_clock(measure_time)
        if isinstance(frontends, str):
            raise TypeError(
                f"frontends must be a list of names, such as [{frontends!r}] (got the string {frontends!r})"
            )
        self._names = None if frontends is None else list(frontends)
        for name in self._names or ():
            load(name)
            if specs()[name].unhooked:
                raise CostError(_unhooked(name))
        self._fma_1flop = fma_1flop
        self._layout = layout
        self._tracebacks = tracebacks
        self._spelled = spelled
        self._measure_time = measure_time
        self._strict = strict
        self._memory = memory
        self._watched: list[Any] = []
        self._custom = CustomCalculators(fma_1flop)
        self._recorder = Recorder()
        self._stack: ExitStack | None = None
        self._thread = 0
        self._interrupts = HeldInterrupts()
        self._report: Report | None = None

    def add_custom_cost_calculator(self, op: object, calculator: Any) -> None:
        """Use ``calculator`` (a cost formula) for the operator ``op``, for this hook only.

        Args:
            op: a canonical operator name (``"conv"``), a framework's own name (``"mylib::stft"``), or a framework's own
                function or class.
            calculator: a function ``calculator(layer)`` that returns a :class:`Cost`, or a tuple
                ``(flops, mread, mwrite, params[, macs])``. For Chainer functions, ``calculator(function, inputs,
                **options)`` is supported too, which returns elements instead of bytes.

        Raises:
            TypeError, ValueError: if the operator is unknown or the calculator is invalid.
        """
        self._custom.add(op, calculator)
        self._report = None

    def watch(self, *values: Any) -> None:
        """Count memory that lives before the block, even if no operator reads it.

        Without it, memory that lives before the block is counted if an operator reads or writes it.

        Args:
            values: models, optimizers and tensors, or lists, tuples and dicts of these.

        Raises:
            CostError: without ``memory=True``, or if no imported framework records memory.
            TypeError: for anything else.
        """
        if not self._memory:
            raise CostError("watch needs ComputationalCostHook(memory=True), which records memory")
        if self._stack is None:
            self._watched += values
        elif self._recorder.watch_memory is None:
            raise CostError(_NO_MEMORY)
        else:
            self._recorder.watch_memory(values)
            self._report = None

    def __enter__(self) -> ComputationalCostHook:
        if self._stack is not None:
            raise CostError("this ComputationalCostHook is already active. To nest hooks, create a second one.")
        try:
            self._interrupts.hold()
            self._begin()
            self._interrupts.release()
            return self
        except BaseException:  # of a frontend, or Ctrl-C meanwhile: there is no block that __exit__ would end
            self._interrupts.hold()
            stack, self._stack = self._stack, None
            if stack is not None:
                stack.close()
            self._interrupts.release()
            raise

    def _begin(self) -> None:
        """Start to record; how to end it is in ``_stack``."""
        self._recorder = Recorder(
            self._tracebacks,
            self._custom.by_native,
            measure_time=self._measure_time,
            spelled=self._spelled,
            memory=self._memory,
        )
        self._report = None
        self._stack = self._capture(self._recorder)
        watched, self._watched = self._watched, []
        if watched:
            self.watch(*watched)
        self._thread = threading.get_ident()

    def _capture(self, recorder: Recorder) -> ExitStack:
        with ExitStack() as stack:
            for name in loaded() if self._names is None else self._names:
                context = load(name).capture(recorder)
                if context is not None:
                    stack.enter_context(context)
            if recorder.memory and recorder.memory_ledger is None:
                raise CostError(_NO_MEMORY)
            return stack.pop_all()

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._interrupts.hold()
        finally:
            try:
                self._end(error_type, error, traceback)
            finally:
                self._interrupts.release()
        if error_type is None:
            if not self._recorder.calls:
                self._say_what_is_not_recorded()
            warn_about(self.report, self._custom, strict=self._strict)

    def _end(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop recording, and restore what was before."""
        stack, self._stack, self._report = self._stack, None, None
        if stack is None:
            self._capture(Recorder()).close()  # left in another thread before: restores the state of this one
        else:
            stack.__exit__(error_type, error, traceback)
            if self._thread != threading.get_ident():
                raise CostError(
                    "this ComputationalCostHook was left in another thread than the one that entered it. Enter and "
                    "leave it in the thread whose calls it counts. The report has what ran there until now."
                )

    def _say_what_is_not_recorded(self) -> None:
        """Warn of frameworks whose code no hook records, and add a note to the report, which is empty."""
        for name in loaded() if self._names is None else self._names:
            if specs()[name].unhooked:
                self._recorder.notes.append(_unhooked(name))
                warnings.warn(_unhooked(name), CostWarning, stacklevel=3)

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Refuse to be pickled or copied: a hook is tied to its process and thread.

        Raises:
            TypeError: always; the message says what to pickle instead.
        """
        raise TypeError(
            "cannot pickle or copy a ComputationalCostHook. Pickle hook.report, or save it by hook.report.to_json(), "
            "and create a hook in every process."
        )

    def __repr__(self) -> str:
        return f"<ComputationalCostHook: {self.report!r}>"

    def _answer(self) -> Answer:
        return self.report._answer()

    @property
    def report(self) -> Report:
        """The report of the last run, or of the current one so far."""
        if self._report is None or self._stack is not None:
            self._report = make_report(self._recorder, self._custom, self._fma_1flop, self._layout)
        return self._report

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of :attr:`report`: the hook has every property and method of a report."""
        if name.startswith("_") or not hasattr(Report, name):
            known = [each for each in dir(type(self)) + dir(Report) if not each.startswith("_")]
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{did_you_mean([name], known)}")
        return getattr(self.report, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(name for name in dir(Report) if not name.startswith("_"))})
