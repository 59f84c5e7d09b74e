"""``chrome_trace``: the run as a trace for Perfetto and chrome://tracing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from costcore.ledger.module_paths import names_along
from costcore.reports.data.report_data import ReportData
from costcore.reports.exports.facts import call_facts, json_text, status
from costcore.trace.memory_ledger import KINDS
from costcore.trace.trace import CallCost

UNMEASURED_DURATION = 1000
"""Duration of every call if no time was measured (nanoseconds)."""


class _Span(NamedTuple):
    """A bar of the trace: a module or a call. Times are integers in nanoseconds, so that nested bars end together."""

    name: str
    depth: int
    start: int
    end: int
    record: CallCost | None = None


def to_chrome_trace(report: ReportData) -> str:
    """Return the run as a trace for Perfetto and chrome://tracing: calls inside their modules, one track per phase.

    If memory was recorded, a counter has the live bytes of every call by kind, at their highest moment.

    Durations are the measured ones if time was measured (``measure_time=True``). A call that was not measured then
    takes one nanosecond, the smallest duration that viewers nest. If no time was measured, every call takes one
    microsecond. The metadata of the trace state which is the case.

    Source of the format: Trace Event Format, JSON object form, with complete (``X``), counter (``C``) and metadata
    (``M``) events.
    """
    measured = any(record.seconds is not None for record in report.trace)
    layers = report.layer_report
    phases: dict[str, list[_Span]] = {}
    now = 0
    starts = []
    for record in report.trace:
        starts.append(now)
        end = now + (max(1, round((record.seconds or 0) * 10**9)) if measured else UNMEASURED_DURATION)
        phases.setdefault(record.call.phase, []).append(_Span(record.call.name, 0, now, end, record))
        now = end
    events = [_metadata("process_name", 0, "model")]
    for thread, (phase, calls) in enumerate(phases.items()):
        events.append(_metadata("thread_name", thread, phase))
        for span in sorted(_nested(calls), key=lambda span: (span.start, span.depth)):
            times = {"ts": span.start / 1000, "dur": (span.end - span.start) / 1000}
            args: dict[str, Any] = {}
            category = "module"
            if span.record is not None:
                category = "call" if span.record.cost is not None else "unknown"
                args = call_facts(span.record.call, layers.get(span.name))
                if measured and span.record.seconds is None:
                    args["duration"] = "not measured"
            track = {"pid": 0, "tid": thread}
            events.append({"name": span.name, "cat": category, "ph": "X", **times, **track, "args": args})
    events += _counters(report, starts)
    metadata = {
        "tool": f"costcore {report.trace.run.version}",
        "convention": report.trace.run.convention,
        "durations": "measured" if measured else "one microsecond per call: time was not measured",
        "status": status(report),
        **{f"version of {name}": version for name, version in report.trace.run.frameworks.items()},
    }
    return json_text({"traceEvents": events, "displayTimeUnit": "ns", "otherData": metadata})


def _counters(report: ReportData, starts: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yield the live bytes by kind at the start of each call; zero for a kind without blocks, as viewers stack them."""
    timeline = [] if report.memory is None else report.memory.timeline
    kinds = [kind for kind in KINDS if any(kind in by_kind for _, _, by_kind in timeline)]
    for call, _, by_kind in timeline:
        args = {kind: by_kind.get(kind, 0) for kind in kinds}
        yield {"name": "live bytes", "ph": "C", "ts": starts[call] / 1000, "pid": 0, "args": args}


def _nested(calls: Iterable[_Span]) -> Iterator[_Span]:
    """Yield the calls of one phase and their modules; a module lasts for as long as consecutive calls are inside it."""
    open_modules: list[_Span] = []
    for call in calls:
        names = names_along(call.record.call.module) if call.record is not None else []
        common = 0
        while common < min(len(names), len(open_modules)) and open_modules[common].name == names[common]:
            common += 1
        yield from open_modules[common:]
        open_modules = [span._replace(end=call.end) for span in open_modules[:common]]
        entered = enumerate(names[common:], start=common)
        open_modules += [_Span(name, depth, call.start, call.end) for depth, name in entered]
        yield call._replace(depth=len(open_modules))
    yield from open_modules


def _metadata(kind: str, thread: int, name: str) -> dict[str, Any]:
    """Return the event that names a process or a thread."""
    return {"name": kind, "ph": "M", "pid": 0, "tid": thread, "args": {"name": name}}
