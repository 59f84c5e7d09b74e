"""Check arguments, compute the cost of each call, and report the operators that could not be counted."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from costcore.counting.pricing import TOO_LARGE, Pricer
from costcore.errors import AssumedReportError, CostError, CostWarning, IncompleteReportError, PartialReportError
from costcore.ir import Pattern
from costcore.ledger.caveats import uncounted_operators
from costcore.messages import unknown
from costcore.plugins import with_left_out
from costcore.registry.custom import CustomCalculators
from costcore.reports.report import Report
from costcore.trace.call import Assumption, Call, Uncounted, with_names
from costcore.trace.gc_paused import collector_off
from costcore.trace.recorder import CPU_TIME, Recorder
from costcore.trace.run import Run
from costcore.trace.trace import CallCost, Trace

LAYOUTS = ("framework", "free")

Progress: TypeAlias = "Callable[[Iterable[Any], str], Iterable[Any]]"


def check_arguments(fma_1flop: object, layout: object, **switches: object) -> None:
    """Check the arguments that ``estimate`` and the hook have in common.

    Args:
        fma_1flop: must be a bool.
        layout: must be one of :data:`LAYOUTS`.
        switches: further arguments by name, each of which must be a bool.

    Raises:
        TypeError, ValueError: if an argument is invalid; the message includes what is expected.
    """
    if not isinstance(fma_1flop, bool):
        raise TypeError(f"fma_1flop must be True (a fused multiply-add is one FLOP) or False (two) (got {fma_1flop!r})")
    if layout not in LAYOUTS:
        raise ValueError(unknown("layout", layout, LAYOUTS))
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise TypeError(f"{name} must be True or False (got {value!r})")


def check_clock(measure_time: object) -> None:
    """Check the argument ``measure_time`` of the hook.

    Raises:
        ValueError: if it is not a bool or the name of a clock.
    """
    if not isinstance(measure_time, bool) and measure_time != CPU_TIME:
        raise ValueError(
            f"measure_time must be True (time on the device that runs a call), {CPU_TIME!r} (CPU time of the thread) "
            f"or False (got {measure_time!r})"
        )


def make_report(recorder: Recorder, custom: CustomCalculators, fma_1flop: bool, layout: str) -> Report:
    """Return the report of the calls that were recorded so far."""
    recorder.flush()
    memory, calls = None, recorder.calls
    if recorder.memory_ledger is not None:
        from costcore.analyses.memory.saved import with_saved
        from costcore.trace.memory_ledger import decide_kinds

        raw = recorder.memory_ledger()
        memory = decide_kinds(raw, [call.phase for call in calls])
        calls = with_saved(calls, raw, memory)
    notes = [*recorder.notes, *custom.unused(calls)]
    if recorder.measure_time and recorder.calls and not recorder.seconds:
        notes.append("no time was measured: the frontends of this run do not measure single calls")
    elif recorder.measure_time == CPU_TIME and recorder.seconds:
        notes.append("measured time is CPU time of the thread that ran the calls, without that of other threads")
    run = Run(
        fma_1flop=fma_1flop,
        layout=layout,
        parameters=dict(recorder.parameters),
        n_params_model=recorder.n_params_model,
        modules=dict(recorder.modules),
        frameworks=dict(recorder.frameworks),
        assumptions=tuple(recorder.assumptions),
        notes=tuple(notes),
    ).recording(
        **recorder.records,
        regrouped=tuple(recorder.regrouped),
        returned=tuple(recorder.returned),
        module_calls=tuple(recorder.module_calls),
        inputs=tuple(recorder.inputs),
        buffers=tuple(recorder.buffers),
        dataflow=recorder.dataflow,
        memory=memory,
        nodes={i: recorder.nodes[call.name] for i, call in enumerate(calls) if call.name in recorder.nodes},
        patterns=_patterns(calls, custom),
        rank=recorder.rank,
        profile=recorder.profile,
    )
    with collector_off():
        return Report(Trace(_costs(recorder, calls, custom, layout), run))


def _costs(recorder: Recorder, calls: Sequence[Call], custom: CustomCalculators, layout: str) -> tuple[CallCost, ...]:
    """Return every recorded call, with its name and cost."""
    pricer = Pricer(custom.table(), layout)
    seconds = recorder.seconds
    records = []
    for i, call in enumerate(recorder.progress(with_names(calls), "computing costs")):
        if i in recorder.costs:
            record = CallCost(call, recorder.costs[i])
        elif i in recorder.failures:
            record = CallCost(call, None, Uncounted.CALCULATOR_FAILED, recorder.failures[i])
        else:
            record = pricer(call)
        records.append(record._replace(seconds=seconds[i]) if i in seconds else record)
    return tuple(records)


def _patterns(calls: Sequence[Call], custom: CustomCalculators) -> dict[int, Pattern]:
    """Return the patterns that calculators of this run state, by position of the call.

    Raises:
        CostError: if one of them is invalid.
    """
    stating = {name: calculator for name, calculator in custom.by_layer.items() if hasattr(calculator, "pattern")}
    if not stating:
        return {}
    from costcore.analyses.fusion.patterns import stated_pattern

    found = ((i, call.layer, stating.get(call.operator) or stating.get(call.layer.op)) for i, call in enumerate(calls))
    return {i: stated_pattern(calculator, layer) for i, layer, calculator in found if calculator is not None}


def warn_about(
    report: Report, custom: CustomCalculators | None = None, stacklevel: int = 3, strict: bool = False, source: str = ""
) -> None:
    """Warn of calls that are not counted, branches that were assumed, and unused calculators of custom operators.

    There is one warning for each reason why calls are not counted, and for each line of code with such a branch.

    Raises:
        PartialReportError: if a call is not counted and ``strict`` is True.
        AssumedReportError: if an assumption was made and ``strict`` is True.
        CostError: if a custom calculator or a calculator of a plug-in failed.
    """
    for message in custom.unused(report.trace.calls, without_built_in=True) if custom else ():
        warnings.warn(message, CostWarning, stacklevel=stacklevel)
    if strict and report.status != "complete":
        raise _refused(report)
    for message in _assumed_branches(report.assumptions):
        warnings.warn(message, CostWarning, stacklevel=stacklevel)
    calls_by_reason: dict[tuple[Uncounted, str], list[Call]] = {}
    for call, _, uncounted, reason, _ in report.trace:
        if uncounted is not None:
            calls_by_reason.setdefault((uncounted, reason), []).append(call)
    failures: list[str] = []
    too_large: list[str] = []
    for (uncounted, reason), calls in calls_by_reason.items():
        affected = f"{len(calls)} call{'s' * (len(calls) > 1)} of {calls[0].type!r}"
        location = f", first in module {calls[0].module!r}" if calls[0].module else ""
        if uncounted is Uncounted.CALCULATOR_FAILED:
            (too_large if reason.startswith(TOO_LARGE) else failures).append(f"{reason} ({affected}{location})")
        else:
            message = with_left_out(f"{reason}: {affected} not counted{location}; {uncounted.hint}")
            warnings.warn(message, CostWarning, stacklevel=stacklevel)
    if too_large:
        raise CostError(
            f"{source}{': ' * bool(source)}{too_large[0]}. No such tensor fits any memory: correct the sizes."
        )
    if failures:
        raise CostError(
            f"{'; '.join(failures)}. Correct it; the report of a ComputationalCostHook has all other "
            "calls, and these in ignored_layers."
        )


def _assumed_branches(assumptions: Iterable[Assumption]) -> Iterator[str]:
    """Yield a message for each line of code with a data-dependent branch, which several modules may share."""
    by_line: dict[tuple[str, str], list[Assumption]] = {}
    for each in assumptions:
        if each.is_branch:
            by_line.setdefault((each.what, each.line), []).append(each)
    for made in by_line.values():
        others = len({each.where for each in made}) - 1
        more = f" (and in {others} other module{'s' * (others > 1)})" if others else ""
        yield f"{made[0]}{more}. Count a real run with ComputationalCostHook."


def _refused(report: Report) -> IncompleteReportError:
    """Return the error for a report that ``strict`` refuses."""
    error: IncompleteReportError
    if operators := uncounted_operators(report.trace):
        message = f"the report is partial; not counted: {'; '.join(map(str, operators))}"
        error = PartialReportError(with_left_out(message))
    else:
        made = "; ".join(map(str, report.assumptions))
        error = AssumedReportError(
            f"the report is assumed: {made}. Give data for the inputs that decide, or count a run."
        )
    error.report = report
    return error
