"""Count whatever runs inside a ``with`` block."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import wraps
from types import TracebackType
from typing import Any

from costcore.api.build_report import check_settings, make_report, warn
from costcore.errors import CostError
from costcore.registry.custom import CustomCalculators
from costcore.registry.frontends import load, loaded
from costcore.reports.report import Report
from costcore.trace.call import Assumption
from costcore.trace.recorder import Recorder


class ComputationalCostHook:
    """Counts what runs inside it, in every framework that is imported.

    ``with ComputationalCostHook() as cch: y = net(x)``. One object can be used again after it was left, and then
    starts afresh; two objects nested in each other both count. A run that ends in an exception leaves a report of
    what was counted until then.

    Args:
        fma_1flop: whether a fused multiply-add counts as one FLOP (True) or two (False).
        layout: ``"framework"`` counts data movement as the framework does it; ``"free"`` makes pure layout operators
            (transposing, broadcasting, slicing, splitting, contiguous copies) free in every framework.
        tracebacks: whether every call says where in the user's code it was made (unknown operators always do).
        frontends: names of the frontends to use, ``["pytorch"]``; those whose framework is imported where not given.
        measure_time: whether the time that every call takes is measured, where the framework runs calls one by one.
            It holds for this run on this machine: ``seconds`` in the reports, and the last columns of ``show_layers``.
        strict: whether leaving the block raises where an operator could not be counted; the report stays.

    Raises:
        TypeError, ValueError: for a setting that is not accepted; says what is.
        CostError: for a frontend whose framework cannot be imported.
    """

    def __init__(
        self,
        fma_1flop: bool = True,
        *,
        layout: str = "framework",
        tracebacks: bool = False,
        frontends: Sequence[str] | None = None,
        measure_time: bool = False,
        strict: bool = False,
    ) -> None:
        check_settings(fma_1flop, layout, tracebacks=tracebacks, measure_time=measure_time, strict=strict)
        if isinstance(frontends, str):
            raise TypeError(f"frontends must be a list of names, [{frontends!r}], not a string")
        self._names = None if frontends is None else list(frontends)
        for name in self._names or ():
            load(name)
        self._fma_1flop = fma_1flop
        self._layout = layout
        self._tracebacks = tracebacks
        self._measure_time = measure_time
        self._strict = strict
        self._custom = CustomCalculators(fma_1flop)
        self._recorder = Recorder()
        self._stack: ExitStack | None = None
        self._report: Report | None = None

    def add_custom_cost_calculator(self, op: object, calculator: Any) -> None:
        """Price ``op`` by ``calculator`` for this hook only.

        Args:
            op: a neutral name (``"conv"``), a full name (``"mylib::stft"``), or a framework's own function or class.
            calculator: ``calculator(layer)``, which returns a :class:`Cost`, or a tuple
                ``(flops, mread, mwrite, params[, macs])``; :meth:`CustomCalculators.add` tells more.

        Raises:
            TypeError, ValueError: for an operator or a calculator that is not accepted; says what is.
        """
        self._custom.add(op, calculator)
        self._report = None

    def __enter__(self) -> ComputationalCostHook:
        if self._stack is not None:
            raise CostError("this ComputationalCostHook is counting already; nest a second object instead")
        self._recorder = Recorder(self._tracebacks, self._custom.by_native, measure_time=self._measure_time)
        self._report = None
        with ExitStack() as stack:
            for name in loaded() if self._names is None else self._names:
                context = load(name).capture(self._recorder)
                if context is not None:
                    stack.enter_context(context)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        stack, self._stack = self._stack, None
        if stack is not None:
            stack.__exit__(kind, error, traceback)
        if kind is None:
            warn(self.report, self._custom, strict=self._strict)

    @property
    def report(self) -> Report:
        """The report of the last run, or of what ran so far."""
        if self._report is None or self._stack is not None:
            self._report = make_report(self._recorder, self._custom, self._fma_1flop, self._layout)
        return self._report

    @property
    def layer_report(self) -> dict[str, dict[str, Any]]:
        """See :attr:`Report.layer_report`."""
        return self.report.layer_report

    @property
    def summary_report(self) -> dict[str, dict[str, Any]]:
        """See :attr:`Report.summary_report`."""
        return self.report.summary_report

    @property
    def total_report(self) -> dict[str, Any]:
        """See :attr:`Report.total_report`."""
        return self.report.total_report

    @property
    def ignored_layers(self) -> dict[str, dict[str, Any]]:
        """See :attr:`Report.ignored_layers`."""
        return self.report.ignored_layers

    @property
    def assumptions(self) -> list[Assumption]:
        """See :attr:`Report.assumptions`."""
        return self.report.assumptions

    @wraps(Report.show_report)
    def show_report(self, *arguments: Any, **options: Any) -> None:
        """See :meth:`Report.show_report`."""
        self.report.show_report(*arguments, **options)

    @wraps(Report.show_summary_report)
    def show_summary_report(self, *arguments: Any, **options: Any) -> None:
        """See :meth:`Report.show_summary_report`."""
        self.report.show_summary_report(*arguments, **options)
