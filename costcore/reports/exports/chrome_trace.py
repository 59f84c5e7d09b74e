"""A report as a trace for Perfetto and chrome://tracing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from costcore.reports.exports.facts import facts, json_text, status
from costcore.reports.module_paths import names_along
from costcore.reports.report_data import ReportData
from costcore.trace.trace import CallCost

UNIT = 1000
"""What a call takes where nothing was measured (nanoseconds)."""


class _Span(NamedTuple):
    """A bar of the trace: a module or a call. Times are whole nanoseconds, so that nested bars end together."""

    name: str
    depth: int
    start: int
    end: int
    item: CallCost | None = None


def to_chrome_trace(report: ReportData) -> str:
    """The run as a trace that Perfetto and chrome://tracing open: calls inside their modules, one track a phase.

    Durations are the measured ones where there are any (``measure_time=True``), and calls without one then a
    nanosecond, the least that viewers nest; else every call takes one microsecond. The trace's metadata say which.

    Source of the format: Trace Event Format, JSON object form, with complete (``X``) and metadata (``M``) events.
    """
    measured = any(item.seconds is not None for item in report.trace)
    layers = report.layer_report
    phases: dict[str, list[_Span]] = {}
    now = 0
    for item in report.trace:
        end = now + (max(1, round((item.seconds or 0) * 10**9)) if measured else UNIT)
        phases.setdefault(item.call.phase, []).append(_Span(item.call.name, 0, now, end, item))
        now = end
    events = [_name("process_name", 0, "model")]
    for thread, (phase, calls) in enumerate(phases.items()):
        events.append(_name("thread_name", thread, phase))
        for span in sorted(_nested(calls), key=lambda span: (span.start, span.depth)):
            times = {"ts": span.start / 1000, "dur": (span.end - span.start) / 1000}
            args: dict[str, Any] = {}
            category = "module"
            if span.item is not None:
                category = "call" if span.item.cost is not None else "unknown"
                args = facts(span.item.call, layers.get(span.name))
                if measured and span.item.seconds is None:
                    args["duration"] = "not measured"
            where = {"pid": 0, "tid": thread}
            events.append({"name": span.name, "cat": category, "ph": "X", **times, **where, "args": args})
    about = {
        "tool": f"costcore {report.trace.run.version}",
        "convention": report.trace.run.convention,
        "durations": "measured" if measured else "one microsecond a call: nothing was measured",
        "status": status(report),
        **{f"version of {name}": version for name, version in report.trace.run.frameworks.items()},
    }
    return json_text({"traceEvents": events, "displayTimeUnit": "ns", "otherData": about})


def _nested(calls: Iterable[_Span]) -> Iterator[_Span]:
    """The calls of one phase, and around them the modules they are in, each for as long as it is not left."""
    around: list[_Span] = []
    for call in calls:
        names = names_along(call.item.call.module) if call.item is not None else []
        same = 0
        while same < min(len(names), len(around)) and around[same].name == names[same]:
            same += 1
        yield from around[same:]
        around = [span._replace(end=call.end) for span in around[:same]]
        around += [_Span(name, depth, call.start, call.end) for depth, name in enumerate(names[same:], start=same)]
        yield call._replace(depth=len(around))
    yield from around


def _name(what: str, thread: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": 0, "tid": thread, "args": {"name": name}}
