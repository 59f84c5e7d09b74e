"""Count everything that runs inside a ``with`` block."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from costcore.api.build_report import check_arguments, make_report, warn_about
from costcore.errors import CostError
from costcore.messages import did_you_mean
from costcore.registry.custom import CustomCalculators
from costcore.registry.frontends import load, loaded
from costcore.reports.report import Report
from costcore.trace.recorder import Recorder


class ComputationalCostHook:
    """A context manager that counts what runs inside it, in every imported framework.

    ``with ComputationalCostHook() as cch: y = net(x)``. A hook can be used again, and then starts from zero. If two
    hooks are nested, both count. If the block raises an exception, the report has the calls up to it.

    Args:
        fma_1flop: count a fused multiply-add as one FLOP (True) or two (False).
        layout: ``"framework"`` counts data movement as the framework executes it. ``"free"`` ignores it: operators that
            only move data (transposition, broadcasting, slicing, splitting, contiguous copies) are zero-cost.
        tracebacks: store the location in the user's code of every call. For unsupported operators it is always stored.
        frontends: names of the frontends to use, ``["pytorch"]``. Default: those whose framework is imported.
        measure_time: measure the time of every call, if the framework runs calls one by one. It is reported as
            ``seconds``, and in the last columns of ``show_layers``.
        strict: raise an error at the end of the block if the status of the report is not ``complete``. The report
            stays available.

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
        frontends: Sequence[str] | None = None,
        measure_time: bool = False,
        strict: bool = False,
    ) -> None:
        check_arguments(fma_1flop, layout, tracebacks=tracebacks, measure_time=measure_time, strict=strict)
        if isinstance(frontends, str):
            raise TypeError(
                f"frontends must be a list of names, such as [{frontends!r}] (got the string {frontends!r})"
            )
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

    def __enter__(self) -> ComputationalCostHook:
        if self._stack is not None:
            raise CostError("this ComputationalCostHook is already active. To nest hooks, create a second one.")
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
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        stack, self._stack, self._report = self._stack, None, None
        if stack is not None:
            stack.__exit__(error_type, error, traceback)
        if error_type is None:
            warn_about(self.report, self._custom, strict=self._strict)

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
