"""From a recorded run to its report: settings checked, calls priced, unknown operators told."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from costcore.counting.pricing import Pricer
from costcore.errors import CostError, CostWarning, PartialReportError
from costcore.registry.custom import CustomCalculators
from costcore.reports.caveats import unknown_operators
from costcore.reports.report import Report
from costcore.trace.call import Call, Uncounted
from costcore.trace.recorder import Recorder
from costcore.trace.run import Run
from costcore.trace.trace import CallCost, Trace

LAYOUTS = ("framework", "free")

Progress: TypeAlias = "Callable[[Iterable[Any], str], Iterable[Any]]"


def check_settings(fma_1flop: object, layout: object, **switches: object) -> None:
    """Refuse settings that mean nothing.

    Raises:
        TypeError, ValueError: saying what is accepted.
    """
    if not isinstance(fma_1flop, bool):
        raise TypeError(f"fma_1flop must be True (a fused multiply-add is one FLOP) or False (two), got {fma_1flop!r}")
    if layout not in LAYOUTS:
        raise ValueError(f"layout={layout!r} is not known; accepted are {', '.join(map(repr, LAYOUTS))}")
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise TypeError(f"{name} must be True or False, got {value!r}")


def count(recorder: Recorder, custom: CustomCalculators, layout: str) -> tuple[CallCost, ...]:
    """Return every recorded call, named, with its cost."""
    pricer = Pricer(custom.table(), layout)
    seconds = recorder.seconds if recorder.measure_time else {}  # a hook beside this one may have asked for them
    records = []
    for i, call in enumerate(recorder.progress(number(recorder.calls), "pricing")):
        if i in recorder.costs:
            record = CallCost(call, recorder.costs[i])
        elif i in recorder.failures:
            record = CallCost(call, None, Uncounted.CALCULATOR_FAILED, recorder.failures[i])
        else:
            record = pricer(call)
        records.append(record._replace(seconds=seconds[i]) if i in seconds else record)
    return tuple(records)


def make_report(recorder: Recorder, custom: CustomCalculators, fma_1flop: bool, layout: str) -> Report:
    """Return the report of what was recorded so far."""
    recorder.flush()
    notes = [*recorder.notes, *custom.unused(recorder.calls)]
    if recorder.measure_time and recorder.calls and not recorder.seconds:
        notes.append("no time was measured: the frontends of this run do not measure single calls")
    run = Run(
        fma_1flop=fma_1flop,
        layout=layout,
        parameters=dict(recorder.parameters),
        n_params_model=recorder.n_params_model,
        modules=dict(recorder.modules),
        frameworks=dict(recorder.frameworks),
        assumptions=tuple(recorder.assumptions),
        notes=tuple(notes),
        regrouped=tuple(recorder.regrouped),
    )
    return Report(Trace(count(recorder, custom, layout), run))


def number(calls: Iterable[Call]) -> list[Call]:
    """Return the calls named ``<type>-<n>``, n from 1 for each type."""
    seen: dict[str, int] = {}
    named = []
    for call in calls:
        n = seen[call.type] = seen.get(call.type, 0) + 1
        named.append(call.named(f"{call.type}-{n}"))
    return named


def warn(report: Report, custom: CustomCalculators | None = None, stacklevel: int = 3, strict: bool = False) -> None:
    """Warn once for every kind of operator that could not be counted, and for every calculator that was never used.

    Raises:
        PartialReportError: if there is such an operator and ``strict`` is True.
        CostError: if a custom calculator or one of a plug-in failed.
    """
    for sentence in custom.unused(report.trace.calls, only_foreign=True) if custom else ():
        warnings.warn(sentence, CostWarning, stacklevel=stacklevel)
    if strict and (unknown_kinds := unknown_operators(report.trace)):
        error = PartialReportError(f"the report is partial; not counted: {'; '.join(map(str, unknown_kinds))}")
        error.report = report
        raise error
    uncounted: dict[tuple[Uncounted, str], list[Call]] = {}
    for call, _, why, reason, _ in report.trace:
        if why is not None:
            uncounted.setdefault((why, reason), []).append(call)
    failed: list[str] = []
    for (why, reason), calls in uncounted.items():
        counted = f"{len(calls)} call{'s' * (len(calls) > 1)} of {calls[0].type!r}"
        place = f", first in module {calls[0].module!r}" if calls[0].module else ""
        if why is Uncounted.CALCULATOR_FAILED:
            failed.append(f"{reason} ({counted}{place})")
        else:
            warnings.warn(f"{reason}: {counted} not counted{place}; {why.hint}", CostWarning, stacklevel=stacklevel)
    if failed:
        raise CostError("; ".join(failed) + "; everything else is counted, and these calls are in ignored_layers")
