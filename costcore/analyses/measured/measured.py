"""Where the time of a run goes: measured time, bound and lost time of its calls, and other work.

The limit of a call is its bound or, if longer, the time in which main memory moves all its bytes. Measured time above
the limit is lost. The span of a profile is its duration: calls, other work and idle time add up to it. Two measured
runs can be compared group by group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from math import fsum
from typing import Any, NamedTuple

from costcore.analyses.devices.device import TF32
from costcore.analyses.timing.bound import may_round, product_dtype
from costcore.analyses.timing.times import Times
from costcore.errors import CostError, unknown
from costcore.ir import Cost, Operations
from costcore.ledger.ledger import check_top
from costcore.tables.answer import Content, Figure
from costcore.tables.html import Span, key, section, timeline
from costcore.tables.pictures import Picture, Theme, bars_of
from costcore.tables.result import Result, Table
from costcore.text.amounts import duration
from costcore.text.output import Column
from costcore.trace.call import Call
from costcore.trace.run import Profile
from costcore.trace.trace import Trace

IDLE = "idle"

LOST = (
    "lost: measured time above the bound or, if longer, above the time to move all bytes of a call at memory bandwidth"
)

FUSED_IS_TWO = "FLOP/s: a fused multiply-add is two FLOPs, as in the peaks of devices; in other FLOPs it is one"

COLUMNS = (
    Column("n_layers", "# Calls", "count"),
    Column("seconds", "Measured", "duration"),
    Column("span_seconds", "In span", "duration"),
    Column("span_seconds%", "Of span", "percent"),
    Column("bound_seconds", "Bound", "duration"),
    Column("lost_seconds", "Lost", "duration"),
    Column("of_bound", "At limit", "percent"),
    Column("achieved_flops", "FLOP/s", "flops"),
    Column("achieved_bandwidth", "B/s", "flops"),
)


class Measured(Result):
    """Where the time of a run goes.

    The parts of the span add up to it exactly: the calls, other work, and idle time (:attr:`parts`).

    Args:
        trace: the run.
        profile: its measurements.
        times: the bounds on the device; None without a device.
        n_missed: how many calls of the run were not measured.
        key: the groups of the table that is shown, see :meth:`by`; None for classes, or operators without modules.
        top: the maximum number of groups that are shown with ``key``.

    Attributes:
        calls: every call that was measured.
    """

    trace: Trace
    profile: Profile
    times: Times | None
    n_missed: int

    def __init__(
        self,
        trace: Trace,
        profile: Profile,
        times: Times | None,
        n_missed: int = 0,
        key: str | None = None,
        top: int | None = None,
    ) -> None:
        self.trace, self.profile, self.times, self.n_missed = trace, profile, times, n_missed
        self._key, self._top = key, top
        self.calls: list[MeasuredCall] = measured_calls(trace, profile, times)
        if not self.calls:
            raise CostError("no call of the run was measured")

    def __repr__(self) -> str:
        return f"<Measured: {len(self.calls)} calls, {duration(self.profile.span / 1e9)}>"

    @cached_property
    def total(self) -> MeasuredGroup:
        """All calls together."""
        return summed("total", self.calls)

    @property
    def parts(self) -> dict[str, int]:
        """The nanoseconds of the span by activity: calls, each kind of other work, and idle time."""
        parts = {"calls": sum(each.alone for each in self.calls)}
        for each in self.profile.elsewhere:
            parts[each.what] = parts.get(each.what, 0) + each.alone
        return {**parts, IDLE: self.profile.idle}

    @cached_property
    def mfu(self) -> float | None:
        """The MFU: the time of all matrix products at the data-sheet peak of the device, as a share of the span.

        Only products of the forward and backward pass count, each at the peak of its dtype. None without a device or
        products, or if a peak is unknown.
        """
        if self.times is None or not self.profile.span:
            return None
        device, tf32, seconds = self.times.device, self.times.tf32, 0.0
        for i, record in enumerate(self.trace):
            call, macs = record.call, 0 if record.cost is None else record.cost.macs
            is_measured = i in self.profile.calls or i in self.profile.inside
            if not macs or not is_measured or call.phase not in ("forward", "backward"):
                continue
            dtype = product_dtype(call.layer)
            is_rounded = dtype == "float32" and may_round(call.layer, tf32) and TF32 in device.peak.get("matrix", {})
            rates = (device.printed_rate(engine, TF32 if is_rounded else dtype) for engine in ("matrix", "vector"))
            peak = next((rate for rate in rates if rate), None)
            if peak is None:
                return None
            seconds += 2 * macs * call.times / peak
        return seconds / (self.profile.span / 1e9) if seconds else None

    def showing(self, key: str, top: int | None = None) -> Measured:
        """Return a view that shows the table of this key; arguments as for :meth:`table`."""
        self.table(key, top)
        return Measured(self.trace, self.profile, self.times, self.n_missed, key, top)

    def by(self, key: str = "class") -> list[MeasuredGroup]:
        """Return the sums by ``call``, ``type``, ``op``, ``module``, ``class`` or ``phase``, the most lost time first.

        Raises:
            ValueError: for another key.
        """
        return grouped(self.calls, self.trace, key)

    @property
    def below_bound(self) -> list[MeasuredCall]:
        """The calls that took less time than their bound: errors of the bound, of the device, or of the trace."""
        return [each for each in self.calls if each.bound is not None and 0 < each.time < each.bound * 1e9]

    def table(self, by: str = "class", top: int | None = None) -> Table:
        """Return a table of the groups, then of other work; the total is the span.

        Args:
            by: see :meth:`by`.
            top: the maximum number of groups; the others are one row.

        Raises:
            TypeError, ValueError: for another key, or if ``top`` is not a positive integer.
        """
        check_top(top)
        groups = self.by(by)
        hidden = groups[top:] if top is not None else []
        rows = [self._row(group) for group in groups[:top]]
        if hidden:
            names = {group.name for group in hidden}
            of_call = keys_of(self.trace)[by]
            rows.append(self._row(summed("others", [each for each in self.calls if of_call(each.call) in names])))
        rows += [self._other(what, alone) for what, alone in self.parts.items() if what != "calls" and alone]
        columns = [Column("name", TITLES[by]), *COLUMNS]
        if self.times is None:
            columns = [column for column in columns if column.key not in ("bound_seconds", "lost_seconds", "of_bound")]
        total = self._row(self.total) | {"span_seconds": self.profile.span / 1e9, "span_seconds%": 100.0}
        if not self.profile.span:
            total.pop("span_seconds%")
        return Table(f"By {TITLES[by].lower()}, most lost time first", columns, rows, total=total, remarks=self.remarks)

    def _row(self, group: MeasuredGroup) -> dict[str, Any]:
        row: dict[str, Any] = {
            "name": group.name or "(outside of modules)",
            "n_layers": group.n_calls,
            "seconds": group.seconds,
            "span_seconds": group.alone,
            "bound_seconds": group.bound,
            "lost_seconds": group.lost,
        }
        if self.profile.span:
            row["span_seconds%"] = 100 * group.alone * 1e9 / self.profile.span
        if group.of_bound is not None:
            row["of_bound"] = group.of_bound
        if group.seconds and group.n_bytes:  # at least one of its calls is counted
            row["achieved_flops"] = round(group.flops / group.seconds)
            row["achieved_bandwidth"] = round(group.n_bytes / group.seconds)
        return row

    def _other(self, what: str, alone: int) -> dict[str, Any]:
        row: dict[str, Any] = {
            "name": what,
            "span_seconds": alone / 1e9,
            "span_seconds%": 100 * alone / self.profile.span,
        }
        work = [each for each in self.profile.elsewhere if each.what == what]
        if work:
            row |= {"n_layers": sum(each.n for each in work), "seconds": sum(each.time for each in work) / 1e9}
        return row

    def _content(self) -> Content:
        profile, total = self.profile, self.total
        where = profile.device or "an unnamed device"
        figures = [
            Figure("span", "Span", profile.span / 1e9, "duration", f"of the {profile.clock}, {where}", "measured"),
            Figure("calls", "In calls", total.alone, "duration", self._share(total.alone), "measured"),
            Figure("idle", "Idle", profile.idle / 1e9, "duration", self._idle_note(), "measured"),
        ]
        if self.times is not None and total.bound is not None:
            least = self._min_seconds(self.times, total.bound)
            of = f"{least / total.seconds:.0%} of the time of the calls, on {self.times.device.name}"
            figures.append(Figure("bound", "At least", least, "duration", of if total.seconds else "", "bound"))
            worst = max(self.by(self._key or "class"), key=lambda group: group.lost or 0.0)
            note = f"most in {worst.name or 'calls outside of modules'}: {duration(worst.lost)}"
            figures.append(Figure("lost", "Lost", total.lost, "duration", note, "bound"))
        if self.mfu is not None and self.times is not None:
            peak = f"the data-sheet peak of {self.times.device.name}"
            of = f"matrix products of forward and backward pass, relative to {peak}"
            figures.append(Figure("mfu", "MFU", 100 * self.mfu, "percent", of, "measured"))
        table = self.table(self._default_key, MOST_ROWS) if self._key is None else self.table(self._key, self._top)
        return Content("Where the time goes", figures, [table], self.remarks, model=self.trace.run.model)

    @property
    def _default_key(self) -> str:
        return "class" if any(group.name for group in self.by("class")) else "op"

    def _pictures(self) -> str:
        by = self._default_key
        lanes = [*self._lanes(by)]
        phases = [phase for phase in PHASES if any(span.kind == PHASES[phase] for _, lane in lanes for span in lane)]
        keys = "".join(key(PHASES[phase], phase) for phase in phases)
        drawn = timeline(lanes, self.profile.span / 1e9, keys) if self.profile.span else ""
        return section(f"Timeline by {TITLES[by].lower()}", drawn)

    def _lanes(self, by: str) -> Iterator[tuple[str, list[Span]]]:
        # The longest groups have lanes of their own.
        names = [group.name for group in sorted(self.by(by), key=lambda group: -group.seconds)]
        of_call = keys_of(self.trace)[by]
        lanes: dict[str, list[Span]] = {name: [] for name in names[:MOST_LANES]}
        rest: list[Span] = []
        positions = {call.name: i for i, call in enumerate(self.trace.calls)}
        for each in self.calls:
            start = self.profile.calls[positions[each.call.name]].start
            kind = PHASES.get(each.call.phase, "others")
            lanes.get(of_call(each.call), rest).append(Span(start / 1e9, each.time / 1e9, kind, each.call.name))
        yield from ((name or "(no module)", spans) for name, spans in lanes.items())
        if rest:
            yield "others", rest

    def _min_seconds(self, times: Times, bound: float) -> float:
        # The bound of the whole run holds only if every call was measured and is bounded.
        is_whole = not self.n_missed and all(each.bound is not None for each in self.calls)
        return max(bound, times.least_seconds) if is_whole else bound

    def _share(self, seconds: float) -> str:
        return f"{seconds * 1e9 / self.profile.span:.1%} of the span" if self.profile.span else ""

    def _idle_note(self) -> str:
        gaps = [stream.longest for stream in self.profile.streams]
        longest = f", longest gap of a stream {duration(max(gaps) / 1e9)}" if gaps else ""
        return self._share(self.profile.idle / 1e9) + longest

    def against(self, other: Measured, by: str | None = None) -> MeasuredChange:
        """Compare the measured times of this run and a later one, group by group.

        Args:
            other: the measured view of the second run.
            by: see :meth:`by`; default: classes of modules, or operators if a trace has no modules.

        Raises:
            TypeError: if ``other`` is not a measured view.
            ValueError: for another key.
        """
        if not isinstance(other, Measured):
            raise TypeError(f"against expects the result of report.measured() (got {type(other).__name__})")
        chosen = by or ("op" if "op" in (self._default_key, other._default_key) else "class")
        self.by(chosen)
        return MeasuredChange(self, other, chosen)

    @property
    def remarks(self) -> list[str]:
        """The lines below a table: calls below their bound, uncounted and unmatched calls, and TF32."""
        profile = self.profile
        lines = [*profile.remarks, *([f"no bound: {profile.no_bound}"] if profile.no_bound else [])]
        if self.times is not None:
            lines.append(LOST)
        lines += [FUSED_IS_TWO] * any(record.cost is not None for record in self._records.values())
        lines += [
            f"below the bound: {each.call.name} took {duration(each.time / 1e9)}, the bound is {duration(each.bound)}"
            for each in self.below_bound[:5]
        ]
        uncounted = Counter[str]()
        for record, each in ((self._records[each.call.name], each) for each in self.calls):
            if record.cost is None:
                uncounted[each.call.native] += each.time
        whole = sum(each.time for each in self.calls)
        for native, time in uncounted.most_common(5):
            lines.append(f"not counted: {native}, {time / whole:.1%} of the time of calls" if whole else native)
        if profile.inside:
            n = len(profile.inside)
            lines.append(f"{n} calls have no kernel of their own: computed by another call's kernel, or before the run")
        if self.n_missed:
            lines.append(f"{self.n_missed} calls of the run are not in the profile")
        if profile.tf32:
            lines.append("kernel names show that float32 products were rounded to TF32")
        return lines

    @cached_property
    def _records(self) -> Mapping[str, Any]:
        return {record.call.name: record for record in self.trace}


# Comparison of two measured runs: did the work of a group change, or its speed?


SAME = 0.02
"""The maximum relative change of work or speed that counts as none: clocks and kernels vary by as much."""


class MeasuredChange(Result):
    """The measured time of two runs, group by group.

    Args:
        before: the measured view of the first run.
        after: the measured view of the second run.
        by: the key to group calls by; see :meth:`Measured.by`.
    """

    before: Measured
    after: Measured
    by: str

    def __init__(self, before: Measured, after: Measured, by: str = "class") -> None:
        self.before, self.after, self.by = before, after, by

    def _picture(self, theme: Theme) -> Picture:
        table = self._content().tables[0]
        shown = [each for each in table.columns if each.key not in ("before", "after")]
        return bars_of([table.title], shown, table.rows, theme)

    def __repr__(self) -> str:
        return f"<MeasuredChange: {duration(self.before.total.seconds)} to {duration(self.after.total.seconds)}>"

    def table(self) -> Table:
        """Return a table of the groups, the largest change of time first."""
        before = {group.name: group for group in self.before.by(self.by)}
        after = {group.name: group for group in self.after.by(self.by)}
        names = dict.fromkeys([*before, *after])
        rows = [_row(name or "(outside of modules)", before.get(name), after.get(name)) for name in names]
        rows.sort(key=lambda row: -abs(row["change"]))
        columns = [
            Column("name", TITLES[self.by]),
            Column("before", "Before", "duration"),
            Column("after", "After", "duration"),
            Column("change", "Change", "duration"),
            Column("work", "Work", "percent"),
            Column("speed", "Speed", "percent"),
            Column("why", "What changed"),
        ]
        total = _row("total", self.before.total, self.after.total)
        remarks = [
            "work: operations, or bytes of a group without any, after as a share of before; speed: work per second"
        ]
        return Table("Largest change of time first", columns, rows, total=total, remarks=remarks)

    def _content(self) -> Content:
        before, after = self.before.total.seconds, self.after.total.seconds
        share = f"{after / before - 1:+.1%}" if before else ""
        figures = [
            Figure("before", "Before", before, "duration", self.before.profile.device, "measured"),
            Figure("after", "After", after, "duration", self.after.profile.device, "measured"),
            Figure("change", "Change", after - before, "duration", share, "measured"),
        ]
        table = self.table()
        return Content("Measured time of two runs", figures, [table.top(MOST_ROWS)], table.remarks)


def _row(name: str, before: MeasuredGroup | None, after: MeasuredGroup | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": name,
        "before": 0.0 if before is None else before.seconds,
        "after": 0.0 if after is None else after.seconds,
    }
    row["change"] = row["after"] - row["before"]
    if before is None or after is None:
        return row | {"why": "only after" if before is None else "only before"}
    work = _ratio(after.flops, before.flops) if before.flops else _ratio(after.n_bytes, before.n_bytes)
    if work is None or not before.seconds or not after.seconds:
        return row
    speed = work * before.seconds / after.seconds
    changed = [name for name, value in (("work", work), ("speed", speed)) if abs(value - 1) > SAME]
    return row | {"work": 100 * work, "speed": 100 * speed, "why": " and ".join(changed)}


def _ratio(after: int, before: int) -> float | None:
    return after / before if before else None


# Measured calls and their sums.


MOST_ROWS = 8
"""The number of rows of a table in ``print`` and notebooks."""

MOST_LANES = 7
"""The groups with a lane of their own in the timeline; one more has the others."""

PHASES = {"forward": "value", "backward": "saved", "recompute": "temporary", "optimizer": "optimizer"}
"""The CSS class that colors the calls of each phase."""

TITLES = {
    "call": "Call",
    "type": "Layer type",
    "op": "Operator",
    "module": "Module",
    "class": "Class",
    "phase": "Phase",
}
"""The keys to group calls by, with the title of the column."""


class MeasuredCall(NamedTuple):
    """One call with its measurements.

    Attributes:
        call: the call.
        time: nanoseconds that it took: of the device, or of the host in a run without one.
        alone: its part of the span, in nanoseconds.
        host: nanoseconds of the host.
        bound: the least seconds on the device; None if it is unknown.
        flops: its operations, a fused multiply-add as two.
        n_bytes: bytes that it reads and writes.
        limit: the bound, or the seconds in which main memory moves all of these bytes if that is longer. Time above it
            is lost. With a cache, a call can be faster.
    """

    call: Call
    time: int
    alone: int
    host: int
    bound: float | None
    flops: int
    n_bytes: int
    limit: float | None = None

    @property
    def lost(self) -> float:
        """The seconds above the limit."""
        return 0.0 if self.limit is None else max(0.0, self.time / 1e9 - self.limit)


class MeasuredGroup(NamedTuple):
    """Several calls together; times are in seconds, and None is unknown.

    Attributes:
        name: the value of the key that they share.
        n_calls: the number of calls.
        seconds: their time.
        alone: their part of the span.
        host: the time of the host in them.
        bound: their minimum time, over calls with a known bound.
        lost: the time above the limit of each call with a known bound; see :attr:`MeasuredCall.limit`.
        flops: operations of counted calls, a fused multiply-add as two.
        n_bytes: bytes that counted calls read and write.
        at_limit: the time that is not lost, over calls with a known bound.
    """

    name: str
    n_calls: int
    seconds: float
    alone: float
    host: float
    bound: float | None
    lost: float | None
    flops: int
    n_bytes: int
    at_limit: float | None = None

    @property
    def of_bound(self) -> float | None:
        """The explained part of the measured time, in percent, of calls with a known bound."""
        whole = (self.at_limit or 0.0) + (self.lost or 0.0)
        return None if self.at_limit is None or not whole else 100 * self.at_limit / whole


def measured_calls(trace: Trace, profile: Profile, times: Times | None) -> list[MeasuredCall]:
    """Return every call that was measured.

    Raises:
        CostError: if the run has symbolic sizes.
    """
    bounds, limits = bounds_of(times), limits_of(times)
    found = []
    for position, record in enumerate(trace):
        time = profile.calls.get(position)
        if time is None:
            continue
        flops, n_bytes = work_of(record.cost, record.call)
        length = time.device if profile.clock == "device" else time.host
        bound = bounds.get(record.call.name)
        if bound and not length:  # its kernels are not in the file, for example while a CUDA graph is captured
            bound = None
        limit = None if bound is None else limits[record.call.name]
        found.append(MeasuredCall(record.call, length, time.alone, time.host, bound, flops, n_bytes, limit))
    return found


def bounds_of(times: Times | None) -> Mapping[str, float]:
    """Return the known bounds of calls in seconds, by name."""
    if times is None:
        return {}
    return {group.name: group.bound_seconds for group in times.groups if group.is_bounded and len(group.calls) == 1}


def limits_of(times: Times | None) -> Mapping[str, float | None]:
    """Return :meth:`Times.limit` of every call, by name."""
    if times is None:
        return {}
    return {group.name: times.limit(group) for group in times.groups if len(group.calls) == 1}


def work_of(cost: Cost | None, call: Call) -> tuple[int, int]:
    """Return the FLOPs of all executions of a call, a fused multiply-add as two, and the bytes that it moves.

    Raises:
        CostError: if they are symbolic.
    """
    if cost is None:
        return 0, 0
    flops = cost.flops.flops(fma_1flop=False) if isinstance(cost.flops, Operations) else cost.flops
    try:
        return int(flops * call.times), int((cost.mread + cost.mwrite) * call.times)
    except TypeError as error:
        raise CostError(
            "measured needs numbers for the symbolic sizes. Substitute them first: report.subs(…)"
        ) from error


def keys_of(trace: Trace) -> Mapping[str, Callable[[Call], str]]:
    """Return the keys to group calls by: functions from a call to the name of its group."""
    modules = trace.run.modules

    def module_class(call: Call) -> str:
        module = modules.get(call.module)
        return "" if module is None or not call.module else module.type

    return {
        "call": lambda call: call.name,
        "type": lambda call: call.type,
        "op": lambda call: call.layer.op,
        "module": lambda call: call.module,
        "class": module_class,
        "phase": lambda call: call.phase,
    }


def grouped(calls: Iterable[MeasuredCall], trace: Trace, by: str) -> list[MeasuredGroup]:
    """Return the sums by one of the keys of :func:`keys_of`, ordered by time above the bound, the longest first.

    Raises:
        ValueError: for another key; the message lists them.
    """
    keys = keys_of(trace)
    if by not in keys:
        raise ValueError(unknown("key", by, keys))
    members: dict[str, list[MeasuredCall]] = {}
    for each in calls:
        members.setdefault(keys[by](each.call), []).append(each)
    groups = [summed(name, each) for name, each in members.items()]
    return sorted(groups, key=lambda group: -(group.seconds if group.lost is None else group.lost))


def summed(name: str, calls: Iterable[MeasuredCall]) -> MeasuredGroup:
    """Return the sums of several calls."""
    calls = [*calls]
    known = [each for each in calls if each.bound is not None]
    bound = fsum(each.bound or 0.0 for each in known) if known else None
    return MeasuredGroup(
        name,
        len(calls),
        sum(each.time for each in calls) / 1e9,
        sum(each.alone for each in calls) / 1e9,
        sum(each.host for each in calls) / 1e9,
        bound,
        None if bound is None else fsum(each.lost for each in known),
        sum(each.flops for each in calls),
        sum(each.n_bytes for each in calls),
        None if bound is None else fsum(each.time / 1e9 - each.lost for each in known),
    )
