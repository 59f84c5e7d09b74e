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
from costcore.trace.call import Priced
from costcore.trace.recorder import OTHER_THREADS, Recorder
from costcore.trace.run import Run

LAYOUTS = ("framework", "free")

HINTS = {
    "no calculator": "see ignored_layers, or add one (calculators=… of estimate, add_custom_cost_calculator of a hook)",
    "no shapes": "the report's notes say where they are lost",
    OTHER_THREADS: "a hook sees the thread it was entered in; enter one in each of them",
}
"""What can be done about calls that are not counted, by how the reason begins."""

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


def price(recorder: Recorder, custom: CustomCalculators, layout: str) -> list[Priced]:
    """Every recorded call with its cost."""
    pricer = Pricer(custom.table(), layout)
    seconds = recorder.seconds if recorder.measure_time else {}  # a hook beside this one may have asked for them
    priced = []
    for i, call in enumerate(recorder.progress(recorder.calls, "pricing")):
        if i in recorder.costs or i in recorder.failures:
            item = Priced(call, recorder.costs.get(i), recorder.failures.get(i, ""))
        else:
            item = pricer(call)
        priced.append(item._replace(seconds=seconds[i]) if i in seconds else item)
    return priced


def make_report(recorder: Recorder, custom: CustomCalculators, fma_1flop: bool, layout: str) -> Report:
    """The report of what was recorded so far."""
    notes = [*recorder.notes, *custom.unused(recorder.calls)]
    if recorder.measure_time and recorder.calls and not recorder.seconds:
        notes.append("no time was measured: the frontends of this run do not measure single calls")
    run = Run(
        fma_1flop,
        layout,
        dict(recorder.parameters),
        recorder.n_params_model,
        dict(recorder.modules),
        dict(recorder.frameworks),
        tuple(recorder.assumptions),
        tuple(notes),
    )
    return Report(number(price(recorder, custom, layout)), run)


def number(priced: list[Priced]) -> list[Priced]:
    """Name every call ``<type>-<n>``, n from 1 for each type."""
    seen: dict[str, int] = {}
    for item in priced:
        kind = item.call.type
        seen[kind] = seen.get(kind, 0) + 1
        item.call.name = f"{kind}-{seen[kind]}"
    return priced


def tell(report: Report, custom: CustomCalculators | None = None, stacklevel: int = 3, strict: bool = False) -> None:
    """Warn once for every kind of operator that could not be priced, and for every calculator of one that never ran.

    Raises:
        PartialReportError: where there is one and ``strict`` allows none.
        CostError: where a calculator of the user's, or a plug-in's, failed.
    """
    for sentence in custom.unused((item.call for item in report._priced), only_foreign=True) if custom else ():
        warnings.warn(sentence, CostWarning, stacklevel=stacklevel)
    if strict and (unknown_kinds := unknown_operators(report._priced)):
        error = PartialReportError(f"the report is partial; not counted: {'; '.join(map(str, unknown_kinds))}")
        error.report = report
        raise error
    unknown: dict[str, list[dict[str, Any]]] = {}
    for entry in report.ignored_layers.values():
        unknown.setdefault(entry["reason"], []).append(entry)
    failed: list[str] = []
    for reason, entries in unknown.items():
        first = entries[0]
        calls = f"{len(entries)} call{'s' * (len(entries) > 1)} of {first['type']!r}"
        place = f", first in module {first['module']!r}" if first["module"] else ""
        hint = next((hint for start, hint in HINTS.items() if reason.startswith(start)), None)
        if hint is None:
            failed.append(f"{reason} ({calls}{place})")
        else:
            warnings.warn(f"{reason}: {calls} not counted{place}; {hint}", CostWarning, stacklevel=stacklevel)
    if failed:
        raise CostError("; ".join(failed) + "; everything else is counted, and these calls stand in ignored_layers")
