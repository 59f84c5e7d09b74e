"""The rows and columns of tables of time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import fsum
from typing import Any

from costcore.analyses.timing.group_time import GroupTime
from costcore.analyses.timing.times import Times
from costcore.ledger.ledger import flops_of
from costcore.tables.arrange import in_order, limited
from costcore.tables.columns import by_key, preset
from costcore.text.table import Column

WHOLE_RUN = "whole run"
"""The row for the time in which weights and inputs come from memory, as far as the groups do not account for it."""
UNKNOWN = "unknown"
"""What binds groups of which the device file states nothing that they need; they have no bound."""

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
    ALL = tuple(TIMES)
    SETS = (DEFAULT, CALIBRATED, ALL)

    @classmethod
    def of(cls, report: Times) -> tuple[str, ...]:
        """Return the default columns of a report."""
        return cls.DEFAULT if report.seconds is None else cls.CALIBRATED


class TimeSummaryColumns(TimeColumns):
    """Column sets of ``show_summary_report`` of a time report."""

    DEFAULT = ("type", "n_groups", "bound_seconds", "bound_seconds%", "binds")
    CALIBRATED = ("type", "n_groups", "seconds", "seconds%", "bound_seconds", "bound_seconds%", "binds")
    ALL = tuple(TIMES_BY_TYPE)
    SETS = (DEFAULT, CALIBRATED, ALL)


def entries(report: Times) -> list[dict[str, Any]]:
    """Return the entry of every group, and one for what the whole run takes longer than its groups."""
    once = report.trace.run.fma_1flop
    return _with_shares([*(_entry(group, once) for group in report.groups), *_whole_run(report)], report)


def summary(report: Times) -> list[dict[str, Any]]:
    """Return sums of the groups by the type of their main call, in order of first call, and of the whole run."""
    by_type: dict[str, list[GroupTime]] = {}
    for group in report.groups:
        by_type.setdefault(group.main.type, []).append(group)
    once = report.trace.run.fma_1flop
    rows = [{"type": kind, **_sums(members, once)} for kind, members in by_type.items()]
    return _with_shares([*rows, *_whole_run(report)], report)


def total_of(report: Times) -> dict[str, Any]:
    """Return the entry of the total."""
    sums = _sums(report.groups, report.trace.run.fma_1flop)
    by, memory = seconds_by(report.groups), report.whole_run.binds
    by[memory] = by.get(memory, 0.0) + report.beyond_groups
    total = {
        "name": "total",
        "names": "total",
        "type": "total",
        **sums,
        "bound_seconds": report.bound_seconds,
        "binds": shares_of(by) or (UNKNOWN if report.bound_seconds is None else ""),
    }
    return _with_shares([total], report)[0]


def _whole_run(report: Times) -> list[dict[str, Any]]:
    """Return the entry of the time in which weights and inputs come from memory, beyond the bounds of the groups."""
    seconds = report.beyond_groups
    if seconds <= 0:
        return []
    nothing = {**_sums((), True), "n_groups": 0, "bound_seconds": seconds, "binds": report.whole_run.binds}
    return [{"name": WHOLE_RUN, "names": WHOLE_RUN, "type": WHOLE_RUN, **nothing}]


def arranged(rows: Sequence[Mapping[str, Any]], sort: Column | None, top: int | None) -> list[Mapping[str, Any]]:
    """Return the rows, sorted and limited; a last row ``others`` has the amounts of the rows beyond the limit."""
    return [*limited(rows if sort is None else in_order(rows, sort, lambda row: row), top, others_of)]


def others_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the row that stands for several rows: the sums of their amounts."""
    values = {key: [row.get(key, "") for row in rows] for key in rows[0]}
    amounts = {key: _sum(each) for key, each in values.items() if not any(isinstance(value, str) for value in each)}
    return {"name": "others", "names": "others", "type": "others", **amounts}


def _sum(values: Sequence[Any]) -> Any:
    """Return the sum of the values that are known; None if that is 0 and others are not."""
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


def seconds_by(groups: Iterable[GroupTime]) -> dict[str, float]:
    """Return the seconds of the bounds by what they come from."""
    by: dict[str, float] = {}
    for group in groups:
        by[group.binds] = by.get(group.binds, 0.0) + group.bound_seconds
    return by


def shares_of(seconds: Mapping[str, float]) -> str:
    """Return what the time comes from, with shares of the time if it is not one thing: ``dram 80%, matrix 20%``."""
    total = fsum(seconds.values())
    parts = sorted(((part / total, name) for name, part in seconds.items() if part > 0), reverse=True)
    shown = [(name, f"{share:.0%}") for share, name in parts if share >= 0.005]
    return shown[0][0] if len(shown) == 1 else ", ".join(f"{name} {share}" for name, share in shown)


def _with_shares(rows: list[dict[str, Any]], report: Times) -> list[dict[str, Any]]:
    """Add shares of the totals to entries."""
    for key, total in (("bound_seconds", report.least_seconds), ("seconds", report.seconds)):
        for row in rows:
            if key in row:
                row[f"{key}%"] = 100 * (row[key] or 0.0) / total if total else 0.0
    return rows
