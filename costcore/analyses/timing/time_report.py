"""The report of the time of a run on a device: bounds and calibrated times per group, type and run.

Then follow its rows, the table of several devices, the section of pages, remarks, the roofline as an SVG file, and the
writer of device files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import fsum
from os import PathLike
from typing import Any

from costcore.analyses.analysis import ReportLike
from costcore.analyses.devices.device import TF32, Device
from costcore.analyses.timing.bound import CONVOLUTIONS, MARGIN, MEMORY, OBSERVED, GroupTime, may_round, product_dtype
from costcore.analyses.timing.calibrated import plus_minus
from costcore.analyses.timing.roofline import (
    MOST_DRAWN,
    TimeComparison,
    dots_of,
    label_of,
    legend,
    picture,
    roofline,
    roofline_axes,
    roofs_of,
    seconds_by,
    seconds_of_run,
    shapes,
    spots_of,
)
from costcore.analyses.timing.times import TF32_OPERATORS, Times, times_of
from costcore.errors import CostError
from costcore.ledger.ledger import flops_of, remarks
from costcore.tables.answer import Content, Figure
from costcore.tables.columns import by_key, choose, in_order, limited, preset
from costcore.tables.html import card, cards, section, table, text
from costcore.tables.pictures import Picture, Theme
from costcore.tables.renderers import dropped_first
from costcore.tables.result import Result, Table, writes_table
from costcore.text.amounts import duration, exact, short
from costcore.text.output import Column, Target, save
from costcore.trace.trace import Trace

MOST_TYPES = 5
"""The maximum number of types in ``print`` and notebooks; a last row sums the others."""


class TimeReport(Result, Times):
    """The time of a run on a device: a lower bound for every group of calls.

    No program with these groups is faster than the bound, whatever its kernels are. Real programs take several times as
    long: see the documentation page "How long will it take". Groups run one after the other.

    Attributes:
        make_report: returns the report of a trace; :meth:`to_html` writes the page of that report.
    """

    make_report: Callable[[Trace], Any]

    @property
    def remarks(self) -> list[str]:
        """The lines below a table: the meaning of the figures, unknown rates of the device, and uncounted calls."""
        return time_remarks(self)

    def _picture(self, theme: Theme) -> Picture:
        return roofline(self, theme)

    def _content(self) -> Content:
        binds = "" if self.bound_seconds is None else f"bound by {total_of(self)['binds'] or 'nothing'}"
        figures = [Figure("bound_seconds", "At least", self.bound_seconds, "duration", binds, "bound")]
        if self.seconds is not None:
            error = plus_minus(self.error)
            figures.append(Figure("seconds", "Calibrated", self.seconds, "duration", error, "calibrated"))
        columns = choose(TIMES_BY_TYPE, TimeSummaryColumns.of(self))
        types = Table("By type, largest bound first", columns, summary(self), n_digits=3)
        types.others = others_of
        groups = Table("By group of calls", choose(TIMES, TimeColumns.of(self)), entries(self), total=total_of(self))
        shown = types.sorted(TIMES_BY_TYPE["bound_seconds"]).top(MOST_TYPES)
        title = f"Time on {self.device.name}, {self.status}"
        return Content(title, figures, [shown, groups.part([])], self.remarks, model=self.trace.run.model)

    def by_type(self) -> dict[str, dict[str, Any]]:
        """Return sums of groups by the type of their main call, and an entry ``total``."""
        return {entry["type"]: entry for entry in (*summary(self), total_of(self))}

    def layers(self) -> list[dict[str, Any]]:
        """Return one entry per group, in order of execution."""
        return entries(self)

    @writes_table(elsewhere="csv")
    def show_report(self, top: int | None, columns: Sequence[str] | None = None, sort: str | None = None) -> Table:
        """Write a table with one row per group of calls, and the total.

        Args:
            ost: the stream to write to; default: standard output at the time of the call.
            mode: ``csv``, ``md``, ``table``, ``color``, or a mode registered by a plug-in.
            unit: None for exact numbers (seconds, bytes); otherwise as in :meth:`costcore.Report.show_report`.
            columns: names of the columns to show; see :class:`costcore.analyses.timing.time_report.TimeColumns`.
            n_digits: digits after the decimal point, 0 to 10; None for 10.
            sort: the column to sort by: numbers from the largest, text alphabetically.
            top: the maximum number of rows; a row ``others`` sums the remaining ones.

        Raises:
            TypeError, ValueError: if an argument is invalid.
        """
        order = None if sort is None else choose(TIMES, [sort])[0]
        rows = sorted_and_limited(entries(self), order, top)
        chosen = choose(TIMES, columns or TimeColumns.of(self))
        return self._table(chosen, rows, TimeColumns.SETS)

    @writes_table(elsewhere="csv")
    def show_summary_report(
        self, top: int | None, columns: Sequence[str] | None = None, sort: str | None = None
    ) -> Table:
        """Write a table with one row per type of the main call of a group; arguments as for :meth:`show_report`."""
        order = None if sort is None else choose(TIMES_BY_TYPE, [sort])[0]
        rows = sorted_and_limited(summary(self), order, top)
        chosen = choose(TIMES_BY_TYPE, columns or TimeSummaryColumns.of(self))
        return self._table(chosen, rows, TimeSummaryColumns.SETS)

    def _table(self, columns: Sequence[Column], rows: Sequence[Any], sets: Sequence[Sequence[str]]) -> Table:
        dropped = dropped_first(columns, sets)
        return Table("Time", columns, rows, total=total_of(self), remarks=self.remarks, dropped_first=dropped)

    def compare(self, *measured: ReportLike) -> TimeComparison:
        """Compare measured times of the same model with the bound and the calibrated time.

        ::

            with ComputationalCostHook(measure_time=True) as hook:
                net(x)
            estimate(net, x).time("mine.toml").compare(hook.report).show()

        Calls are matched by name. For several runs, the median of each call counts. A call below its bound shows an
        error of the bound or of the device file; :attr:`TimeComparison.violations` lists such calls.

        Args:
            measured: reports of runs measured on this device.

        Raises:
            CostError: if no time was measured, or if no call matches.
            TypeError: if an argument is not a report.
        """
        for report in measured:
            if not hasattr(report, "trace"):
                raise TypeError(f"compare expects reports, as a hook returns them (got {type(report).__name__})")
        return TimeComparison(self, [report.trace for report in measured])

    def to_dict(self) -> dict[str, Any]:
        """Return the device, the options, the totals and the groups in plain JSON types; times are in seconds."""
        return {
            **super().to_dict(),
            "device": self.device.name,
            "dtype": self.dtype,
            "fusion": self.fusion,
            "tf32": list(self.tf32),
            "status": self.status,
            "total": total_of(self) if self.error is None else {**total_of(self), "error": self.error},
            **self._communication(),
            "types": summary(self),
            "groups": entries(self),
            "remarks": self.remarks,
        }

    def _communication(self) -> dict[str, Any]:
        groups = [
            {**each._asdict(), "link": None if each.link is None else each.link._asdict()}
            for each in self.communications
        ]
        return {"communication": {"seconds": self.communication_seconds, "groups": groups}} if groups else {}

    def to_html(self, target: Target = None, title: str = "", made: str = "") -> str:
        """Return the page of the report with a roofline of the run, and write it to ``target`` if given.

        The costs on the page are those at ``dtype``. A multiply-add counts as two FLOPs, as in the peaks of devices.

        Args:
            target: a path, which is replaced atomically, or a stream.
            title: heading of the page; default: the type of the model.
            made: as for every result.

        Raises:
            OSError: if the path cannot be written.
        """
        report = self.make_report(Trace(self.trace.records, replace(self.trace.run, fma_1flop=False)))
        page: str = report.export("page", target, title=title, time=time_section(self), made=made)
        return page

    def to_svg(self, target: Target = None) -> str:
        """Return the roofline as an SVG picture, and write it to ``target`` (a path or a stream) if given.

        Raises:
            CostError: if no group of the run has operations and bytes.
            OSError: if the path cannot be written.
        """
        return save(roofline_svg(self), target)


def time_of(report: ReportLike, device: str | PathLike[str] | Device, **options: Any) -> TimeReport:
    """Return the minimum time of a run on a device; arguments as for :meth:`costcore.Report.time`."""
    times = times_of(TimeReport, report.trace, device, **options)
    times.make_report = type(report)
    return times


# Rows and columns of time tables.


WHOLE_RUN = "whole run"
"""The row for the time of the whole run beyond the sum of its groups: reads of weights and inputs from memory."""

UNKNOWN = "unknown"
"""The bottleneck of groups without a bound: the device file lacks all rates that they need."""

_SHARED = (
    *preset("mread", "mwrite", "mrw", "flops").values(),
    Column("bound_seconds", "Bound", "duration"),
    Column("bound_seconds%", "Bound", "percent"),
    Column("binds", "Bound by"),
    Column("matrix_seconds", "Matrix", "duration"),
    Column("vector_seconds", "Vector", "duration"),
    Column("special_seconds", "Special", "duration"),
    Column("dram_seconds", "DRAM", "duration"),
    Column("cache_seconds", "Cache", "duration"),
    Column("seconds", "Calibrated", "duration"),
    Column("seconds%", "Calibrated", "percent"),
)

TIMES = by_key(
    Column("name", "Layer name"),
    Column("names", "Calls"),
    Column("type", "Layer type"),
    Column("op", "Operator"),
    Column("module", "Module"),
    Column("phase", "Phase"),
    Column("dtype", "Element type"),
    Column("n_layers", "# Calls", "count"),
    *_SHARED,
)

TIMES_BY_TYPE = by_key(
    Column("type", "Layer type"),
    Column("n_groups", "# Groups", "count"),
    Column("n_layers", "# Calls", "count"),
    *_SHARED,
)


class TimeColumns:
    """Column sets of ``show_report`` of a time report."""

    DEFAULT: tuple[str, ...] = ("name", "type", "mread", "mwrite", "bound_seconds", "bound_seconds%", "binds")
    CALIBRATED: tuple[str, ...] = (*DEFAULT[:4], "seconds", *DEFAULT[4:])
    ALL: tuple[str, ...] = tuple(TIMES)
    SETS: tuple[tuple[str, ...], ...] = (DEFAULT, CALIBRATED, ALL)

    @classmethod
    def of(cls, report: Times) -> tuple[str, ...]:
        """Return the default columns of a report."""
        return cls.DEFAULT if report.seconds is None else cls.CALIBRATED


class TimeSummaryColumns(TimeColumns):
    """Column sets of ``show_summary_report`` of a time report."""

    DEFAULT: tuple[str, ...] = ("type", "n_groups", "bound_seconds", "bound_seconds%", "binds")
    CALIBRATED: tuple[str, ...] = (
        "type",
        "n_groups",
        "seconds",
        "seconds%",
        "bound_seconds",
        "bound_seconds%",
        "binds",
    )
    ALL: tuple[str, ...] = tuple(TIMES_BY_TYPE)
    SETS: tuple[tuple[str, ...], ...] = (DEFAULT, CALIBRATED, ALL)


def entries(report: Times) -> list[dict[str, Any]]:
    """Return one entry per group, and one for the time of the whole run beyond the sum of its groups."""
    once = report.trace.run.fma_1flop
    return _with_shares([*(_entry(group, once) for group in report.groups), *_whole_run_entry(report)], report)


def summary(report: Times) -> list[dict[str, Any]]:
    """Return sums of groups by the type of their main call, in order of first call, and the whole-run entry."""
    by_type: dict[str, list[GroupTime]] = {}
    for group in report.groups:
        by_type.setdefault(group.main.type, []).append(group)
    once = report.trace.run.fma_1flop
    rows = [{"type": kind, **_sums(members, once)} for kind, members in by_type.items()]
    return _with_shares([*rows, *_whole_run_entry(report)], report)


def total_of(report: Times) -> dict[str, Any]:
    """Return the entry of the total."""
    sums = _sums(report.groups, report.trace.run.fma_1flop)
    total = {
        "name": "total",
        "names": "total",
        "type": "total",
        **sums,
        "bound_seconds": report.bound_seconds,
        "binds": shares_of(seconds_of_run(report)) or (UNKNOWN if report.bound_seconds is None else ""),
    }
    return _with_shares([total], report)[0]


def _whole_run_entry(report: Times) -> list[dict[str, Any]]:
    seconds = report.beyond_groups
    if seconds <= 0:
        return []
    nothing = {**_sums((), True), "n_groups": 0, "bound_seconds": seconds, "binds": report.beyond_binds}
    return [{"name": WHOLE_RUN, "names": WHOLE_RUN, "type": WHOLE_RUN, **nothing}]


def sorted_and_limited(
    rows: Sequence[Mapping[str, Any]], sort: Column | None, top: int | None
) -> list[Mapping[str, Any]]:
    """Sort the rows and keep ``top`` of them; a last row ``others`` sums the rest."""
    return [*limited(rows if sort is None else in_order(rows, sort, lambda row: row), top, others_of)]


def others_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the row ``others``, with the sums of several rows."""
    values = {key: [row.get(key, "") for row in rows] for key in rows[0]}
    amounts = {key: _sum(each) for key, each in values.items() if not any(isinstance(value, str) for value in each)}
    return {"name": "others", "names": "others", "type": "others", **amounts}


def _sum(values: Sequence[Any]) -> Any:
    # None if the sum is 0 only because values are unknown.
    total = sum(value for value in values if value is not None)
    return total or (None if None in values else total)


def _entry(group: GroupTime, fma_1flop: bool) -> dict[str, Any]:
    main = group.main
    tensors = main.layer.outputs or tuple(main.layer.inputs.values())
    return {
        "name": group.name,
        "names": " + ".join(call.name for call in group.calls),
        "type": main.type,
        "op": main.layer.op,
        "module": main.module,
        "phase": main.phase,
        "dtype": tensors[0].dtype if tensors else "",
        **_sums([group], fma_1flop),
    }


def _sums(groups: Sequence[GroupTime], fma_1flop: bool) -> dict[str, Any]:
    is_bounded = not groups or any(group.is_bounded for group in groups)
    by = {
        f"{name}_seconds": fsum(group.bound.by[name] * group.times for group in groups)
        for name in ("matrix", "vector", "special", "dram", "cache")
    }
    sums: dict[str, Any] = {
        "n_groups": len(groups),
        "n_layers": sum(len(group.calls) for group in groups),
        "mread": sum(group.read for group in groups),
        "mwrite": sum(group.written for group in groups),
        "mrw": sum(group.read + group.written for group in groups),
        "flops": sum(flops_of(cost, fma_1flop) * group.times for group in groups for cost in group.costs()),
        "bound_seconds": fsum(group.bound_seconds for group in groups) if is_bounded else None,
        "binds": shares_of(seconds_by(groups)) if is_bounded else UNKNOWN,
        **by,
    }
    seconds = [group.seconds for group in groups if group.seconds is not None]
    return {**sums, "seconds": fsum(seconds)} if seconds and len(seconds) == len(groups) else sums


def shares_of(seconds: Mapping[str, float]) -> str:
    """Return the bottlenecks as text, with shares if there are several: ``dram 80%, matrix 20%``."""
    total = fsum(seconds.values())
    parts = sorted(((part / total, name) for name, part in seconds.items() if part > 0), reverse=True)
    shown = [(name, f"{share:.0%}") for share, name in parts if share >= 0.005]
    return shown[0][0] if len(shown) == 1 else ", ".join(f"{name} {share}" for name, share in shown)


def _with_shares(rows: list[dict[str, Any]], report: Times) -> list[dict[str, Any]]:
    for key, total in (("bound_seconds", report.least_seconds), ("seconds", report.seconds)):
        for row in rows:
            if key in row:
                row[f"{key}%"] = 100 * (row[key] or 0.0) / total if total else 0.0
    return rows


# Several devices: one row each.


DEVICE = Column("device", "Device")

BOUND = Column("bound_seconds", "Bound", "duration")

CALIBRATED = Column("seconds", "Calibrated", "duration")

RATIO = Column("ratio", "Ratio", "ratio")

BINDS = Column("binds", "Bound by")

CHECKED = Column("checked", "Sources")

MOST_RATIO = 1000
"""The maximum ratio between times in one unit."""


def device_rows(times: Sequence[TimeReport]) -> list[dict[str, Any]]:
    """Return one entry per device in the given order; ``ratio`` is its bound over the smallest bound above 0."""
    least = min((time.bound_seconds for time in times if time.bound_seconds), default=0.0)
    return [
        {
            **total_of(time),
            "device": time.device.name,
            "ratio": time.least_seconds / least if time.least_seconds else None,
            "checked": time.device.checked,
        }
        for time in times
    ]


def table_of_devices(times: Sequence[TimeReport], unit: str | None = "autoaligned", n_digits: int = 3) -> Table:
    """Return a table with one row per device; arguments as for :meth:`TimeReport.show_report`.

    If times are more than a factor of :data:`MOST_RATIO` apart, each has its own unit.

    Args:
        times: the times of one run on different devices.
        unit: the unit of times.
        n_digits: digits after the decimal point.
    """
    calibrated = [CALIBRATED] if any(time.seconds is not None for time in times) else []
    columns = [DEVICE, *calibrated, BOUND, RATIO, BINDS, CHECKED]
    rows = device_rows(times)
    if unit == "autoaligned" and any(row["ratio"] is not None and row["ratio"] > MOST_RATIO for row in rows):
        unit = "auto"
    return Table("Devices", columns, rows, remarks=comparison_remarks(times), prefix=unit, n_digits=n_digits)


def comparison_remarks(times: Sequence[TimeReport]) -> list[str]:
    """Return the lines below the table."""
    first = times[0]
    lines = [MEANING.format(fusion=FUSIONS[first.fusion], device="the device")]
    if any(time.seconds is None for time in times):
        lines.append(UNCALIBRATED)
    lines += [line for time in times for line in (*time.without_effect, *float32_products(time), *unknown_rates(time))]
    return [*dict.fromkeys(lines), *remarks(first.trace)]


# HTML section.


MOST_ROWS = 12
"""The maximum number of types in the table; the largest bounds are shown."""


def time_section(times: Times) -> str:
    """Return the section: totals, the roofline, a table by type, and the meaning of the figures."""
    notes = "".join(f"<li>{text(line)}</li>" for line in [*time_remarks(times), *times.device.notes])
    content = f"{cards(_cards(times))}{picture(times)}{_table(times)}<ul class='note'>{notes}</ul>"
    return section(f"Time on {times.device.name}", content, "time")


def _cards(times: Times) -> list[str]:
    total = total_of(times)
    words = filter(None, (FUSIONS[times.fusion], times.dtype, "partial" * (times.status == "partial")))
    found = [card("At least", _shown(times.bound_seconds), ", ".join(words))]
    if times.seconds is not None:
        found.append(card("Calibrated", _shown(times.seconds), f"estimated on this device, {plus_minus(times.error)}"))
    found.append(card("Bound by", total["binds"].partition(" ")[0] or "nothing", total["binds"]))
    found.append(card("Groups", exact(len(times.groups)), "calls that run as one kernel"))
    return found


def _shown(seconds: float | None) -> str:
    return duration(None) if seconds is None else short(seconds, "duration")


def _table(times: Times) -> str:
    rows = sorted(summary(times), key=lambda row: -(row["bound_seconds"] or 0.0))
    bounded = [row for row in rows if row["bound_seconds"]]
    if not bounded:
        return ""
    columns = choose(TIMES_BY_TYPE, TimeSummaryColumns.of(times))
    types = Table("By type, largest bound first", columns, bounded)
    types.others = others_of
    return table(types.top(MOST_ROWS))


# Remarks: the meaning of the figures, and unknown rates.


MEANING = (
    "bound: lower bound on {device} with {fusion}, without kernel launches; measured CPU runs took 2.2 to 10 times "
    "their bounds"
)

SHORT_KERNEL = 1e-6
"""Seconds; well below a kernel launch, which takes 3.4 to 15 us, median 4.9, in ``docs/bert_h100.trace.json.gz``."""

FUSIONS = {"none": "one kernel per call", "pointwise": "pointwise fusion", "compiler": "the fusion of a compiler"}

WHOLE_RUN_MEANING = (
    "whole run: weights and inputs are read from memory once, other values again if the calls between read more than "
    "the cache holds"
)

UNCALIBRATED = "no time estimate: this device is not calibrated (run costcore calibrate)"


def time_remarks(report: Times) -> list[str]:
    """Return the lines below a table of times."""
    meant, *whole_run = meaning(report)
    lines = [meant, *([UNCALIBRATED] if report.calibrated is None else report.calibrated.remarks), *whole_run]
    lines += communication_lines(report)
    return [*lines, *report.without_effect, *float32_products(report), *unknown_rates(report), *remarks(report.trace)]


def float32_products(report: Times) -> list[str]:
    """Return a line on the float32 products that are timed in TF32, if the device has TF32."""
    if TF32 not in report.device.peak.get("matrix", {}):
        return []
    found: dict[bool, dict[str, None]] = {}
    for group in report.groups:
        for call, cost in zip(group.calls, group.costs(), strict=True):
            if cost.macs and product_dtype(call.layer) == "float32":
                family = "convolutions" if call.layer.op in CONVOLUTIONS else "matrix products"
                found.setdefault(may_round(call.layer, report.tf32), {})[family] = None
    if not found:
        return []
    parts = [
        f"{' and '.join(found[rounds])} in {'TF32' if rounds else 'float32'}"
        for rounds in (True, False)
        if rounds in found
    ]
    other = "none" if report.tf32 == TF32_OPERATORS else ",".join(TF32_OPERATORS)
    return [f"float32: {', '.join(parts)} (default: as the framework allows). Otherwise --tf32 {other}"]


def meaning(report: Times) -> list[str]:
    """Return the definition of the bound, and why the bound of the whole run may exceed the sum of its groups."""
    lines = [MEANING.format(fusion=FUSIONS[report.fusion], device=report.device.name)]
    if report.bound_kind == OBSERVED:
        name = report.device.name
        lines = [
            f"observed bound: a kernel takes at least {MARGIN:.0%} of the shortest one observed on {name}, "
            f"{report.device.least_kernel_us} us; bytes beyond its cache move at the bandwidth of its memory"
        ]
    elif report.calibrated is None:  # an estimate includes launches
        lines += _short_kernels(report)
    return [*lines, WHOLE_RUN_MEANING] if report.beyond_groups > 0 else lines


def _short_kernels(report: Times) -> list[str]:
    bounds = [group.bound_seconds for group in report.groups if group.read + group.written]
    n_short = sum(bound < SHORT_KERNEL for bound in bounds)
    if report.device.kind != "gpu" or 2 * n_short < len(bounds) or not bounds:
        return []
    seen = report.device.least_kernel_us
    more = f'; bound="observed" counts at least {MARGIN * seen:.2g} us for each' if seen else ""
    return [f"{n_short:,} of {len(bounds):,} kernels have bounds below 1 us, shorter than a launch{more}"]


def communication_lines(report: Times) -> list[str]:
    """Return a line for the total communication time, and one per process group; empty without collectives."""
    if not report.communications:
        return []
    seconds = report.communication_seconds
    total = "unknown" if seconds is None else f"{1000 * seconds:.4g} ms"
    lines = [f"communication: {total} without overlap, not part of the bound"]
    for each in report.communications:
        over = "no link given (links=…)"
        if each.link is not None and each.seconds is not None:
            over = f"{1000 * each.seconds:.4g} ms over {each.link.name}"
        group = f"{each.group or 'group'} of {each.group_size}"
        calls = f"{each.n_calls} call{'s' * (each.n_calls != 1)}"
        lines.append(f"communication, {group}: {over}, {calls}, {each.sent:,} B sent")
    return lines


def unknown_rates(report: Times) -> list[str]:
    """Return a line that lists the rates that the run needs and the device file lacks; the bound omits them."""
    device, dtypes = report.device, report.missing - {MEMORY}
    lines = []
    if dtypes and device.integers:
        lines.append(
            f"partial: {device.name} computes {_words(device.integers)} only; the run has {_words(sorted(dtypes))}: "
            f"quantize the model, or pass dtype={device.integers[0]!r} to time it as if it were quantized"
        )
    vector = ["the peak of its vector engine"] if dtypes and not device.integers else []
    if missing := vector + ["its memory bandwidth"] * (MEMORY in report.missing):
        lines.append(f"{device.name}: unknown, not part of the bound: {', '.join(missing)}")
    if report.bound_seconds is None and not report.missing:
        lines.append(f"partial: {device.name} lists no rate that limits this run")
    return lines


def _words(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


# The roofline as an SVG file for documents; it follows the light or dark mode of the page.


WIDTH, HEIGHT, LINE = 900, 400, 20
"""The size of the plot and the height of a legend line, in pixels."""

FILLS = {
    "matrix": ("#0072b2", "#3a9bd9"),
    "vector": ("#e69f00", "#e9ab26"),
    "special": ("#cc79a7", "#d990b7"),
    "dram": ("#009e73", "#1fb88c"),
    "cache": ("#56b4e9", "#8fd0f5"),
}
"""The colors of bottlenecks in light and dark mode."""

PAGE = (("#ffffff", "#1b2129", "#596473", "#dfe3e9"), ("#1a1e25", "#e4e8ee", "#9aa5b4", "#2d333d"))
"""The colors of background, text, labels and grid, in light and dark mode."""


def roofline_svg(times: Times) -> str:
    """Return the roofline as an SVG file.

    Raises:
        CostError: if no group of the run has operations and bytes.
    """
    dots = dots_of(times)
    if not dots:
        raise CostError("no group of this run has operations, bytes and a bound, so there is nothing to draw")
    roofs = roofs_of(times)
    items = legend(times, roofs)
    top, label = LINE * (len(items) + 1) + 8, label_of(dots)
    key = f"<text x='6' y='{LINE * len(items) + 18}'>{roofline_axes(dots)}</text>" + "".join(
        f"<circle class='{name}' cx='12' cy='{LINE * i + 14}' r='5'/><text class='key' x='24' y='{LINE * i + 18}'>"
        f"{text(line)}</text>"
        for i, (name, line) in enumerate(items)
    )
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {top + HEIGHT}' width='{WIDTH}' "
        f"height='{top + HEIGHT}' role='img' aria-label='{label}'><title>{label}</title><style>{_style()}</style>"
        f"<rect class='page' width='100%' height='100%'/>{key}"
        f"<svg y='{top}' width='{WIDTH}' height='{HEIGHT}'>{shapes(spots_of(dots)[-MOST_DRAWN:], roofs)}</svg></svg>\n"
    )


def _style() -> str:
    shared = "text{font:12px system-ui,sans-serif;paint-order:stroke;stroke-width:5px}circle{fill-opacity:.75}"
    shared += ".roof{stroke-width:2}.before{stroke-dasharray:1 4}"
    return f"{shared}{_mode(0)}@media(prefers-color-scheme:dark){{{_mode(1)}}}"


def _mode(i: int) -> str:
    page, ink, soft, line = PAGE[i]
    fills = "".join(f"circle.{name}{{fill:{c[i]}}}line.{name}{{stroke:{c[i]}}}" for name, c in FILLS.items())
    rest = f"text{{fill:{soft};stroke:{page}}}.key{{fill:{ink}}}.grid{{stroke:{line}}}circle{{stroke:{page}}}"
    return f".page{{fill:{page}}}{rest}{fills}"


# TOML writer; the standard library only has a reader.


_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def toml_text(content: Mapping[str, Any]) -> str:
    """Return a table as TOML text.

    Values may be strings, bools, finite numbers, lists of values, mappings, and lists of mappings. None is omitted.
    """
    return "\n".join(_lines(content, ())) + "\n"


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    tables = {key: value for key, value in table.items() if isinstance(value, Mapping) or _is_list_of_tables(value)}
    for key, value in table.items():
        if key not in tables and value is not None:
            yield f"{_key(key)} = {_value(value)}"
    for key, value in tables.items():
        inner = (*path, key)
        name = ".".join(map(_key, inner))
        if isinstance(value, Mapping):
            yield from ("", f"[{name}]", *_lines(value, inner))
        else:
            for item in value:
                yield from ("", f"[[{name}]]", *_lines(item, inner))


def _is_list_of_tables(value: object) -> bool:
    return isinstance(value, Sequence) and bool(value) and all(isinstance(item, Mapping) for item in value)


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _text(key)


def _text(value: str) -> str:
    # Basic strings of TOML have the escapes of JSON, except DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        items = [_value(item) for item in value]
        is_nested = any(isinstance(item, (list, tuple)) for item in value)
        return "[\n  " + ",\n  ".join(items) + ",\n]" if is_nested else f"[{', '.join(items)}]"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)
