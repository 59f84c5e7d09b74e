"""Check a report against a budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from fractions import Fraction
from functools import cached_property
from os import PathLike
from typing import Any, NamedTuple, TypeAlias

from costcore.analyses.conventions.catalog import named
from costcore.analyses.timing.remarks import unknown_rates
from costcore.errors import CostError
from costcore.ledger.module_paths import path_and_parents
from costcore.numbers.dims import is_symbolic
from costcore.registry.calculators import calculators
from costcore.reports.data.report_data import ReportData
from costcore.reports.exports.facts import status
from costcore.reports.report import Report
from costcore.studies.budgets.budget import MAX_NAMES, Budget, Limit, Violation
from costcore.studies.budgets.toml import read_budget
from costcore.text.amounts import exact
from costcore.trace.call import Call

BudgetLike: TypeAlias = "Budget | str | PathLike[str] | Mapping[str, Any]"


def check(report: Report, budget: BudgetLike) -> list[Violation]:
    """Return the violations of ``budget`` by ``report``, in the order of its limits.

    A limit with a pattern applies to each matching module, including its submodules, or to each matching operator. A
    pattern that matches nothing is a violation, because the limit of a renamed module would never be exceeded.

    Args:
        report: the report.
        budget: a :class:`Budget`, the path of a TOML file, or a mapping with the same content.

    Raises:
        TypeError: if ``report`` is not a report.
        BudgetError: if the budget is invalid; the message includes the file, line and key.
        CostError: if a limited cost is a symbolic expression.
    """
    if not isinstance(report, Report):
        raise TypeError(f"check expects a report, such as that of estimate (got {type(report).__name__})")
    read = budget if isinstance(budget, Budget) else read_budget(budget)
    return [*_check_costs(report, read), *_too_long(report, read)]


def _too_long(report: Report, budget: Budget) -> Iterator[Violation]:
    """Yield a violation for every device on which the run takes longer than its limit, at least."""
    for limit in budget.times:
        time, where = report.time(limit.device, **limit.options), f"time on {limit.device}"
        if time.least_seconds > limit.most:
            nanoseconds = round(1e9 * time.least_seconds)
            yield Violation(where, "bound_seconds", nanoseconds, round(1e9 * limit.most))
        elif time.bound_seconds is None or (budget.strict and time.status != report.status):
            yield Violation(where, reason="; ".join(unknown_rates(time)))


def _check_costs(report: Report, read: Budget) -> list[Violation]:
    """Return the violations of the limits on costs."""
    if read.fused:
        return _check_fused(report, read)
    if not read.convention:
        return [*_incomplete(report, read), *_exceeded(report, read, read.baseline)]
    baseline = None if read.baseline is None else _counted(read.baseline, read.convention)
    found = _exceeded(_counted(report, read.convention), read, baseline)
    as_counted = f"as {named(read.convention).name} counts"
    return [*_incomplete(report, read), *(_with_reason(violation, as_counted) for violation in found)]


def _check_fused(report: Report, budget: Budget) -> list[Violation]:
    """Return the violations of a budget that limits the bytes after fusion."""
    baseline = None if budget.baseline is None else _fused(budget.baseline, budget.fused)
    found = _check_costs(_fused(report, budget.fused), replace(budget, baseline=baseline, fused=""))
    reason = f"after fusion ({budget.fused})"
    return [_with_reason(violation, reason, ("mread", "mwrite", "mrw")) for violation in found]


def _fused(report: Report, level: str) -> Report:
    """Return a report with the bytes after fusion; one that was saved so is returned unchanged."""
    fusion = report.trace.run.fusion
    fused: Report = report if fusion is not None and fusion.level == level else report.fused(level).report
    return fused


def _counted(report: Report, convention: str) -> Report:
    counted: Report = report.under(convention).report
    return counted


def _with_reason(violation: Violation, reason: str, metrics: Sequence[str] = ("flops",)) -> Violation:
    """Return a violation of a limit on one of these metrics that says how they are counted."""
    if violation.metric not in metrics:
        return violation
    return violation._replace(reason=", ".join(filter(None, (reason, violation.reason))))


def _incomplete(report: Report, budget: Budget) -> Iterator[Violation]:
    if budget.strict and report.status != "complete":
        yield Violation("total", reason=status(report))


def _exceeded(report: Report, budget: Budget, compared_with: Report | None) -> Iterator[Violation]:
    costs = _Costs(report, "the report")
    baseline = None if compared_with is None else _Costs(compared_with, "the baseline")
    unmatched = set()
    for limit in budget.limits:
        matched = costs.matching(limit)
        if not matched and (limit.scope, limit.pattern) not in unmatched:
            unmatched.add((limit.scope, limit.pattern))
            yield Violation(str(limit), reason=f"no {limit.scope} of this model matches{costs.near_matches(limit)}")
        for target in matched:
            value = costs.figure(target, limit)
            if limit.most is not None:
                most, reason = limit.most, ""
            else:
                old = 0 if baseline is None else baseline.figure(target, limit)
                most, reason = _increased(old, limit.increase or 0)
            if value > most:
                yield Violation(str(target), limit.metric, value, most, reason)


def _increased(old: int, increase: Fraction | int) -> tuple[int, str]:
    """Return the largest value after an increase, and its computation as text."""
    if isinstance(increase, Fraction):
        return old + int(old * increase), f"baseline {exact(old)} + {float(100 * increase):g} %"
    return old + increase, f"baseline {exact(old)} + {exact(increase)}"


class LimitTarget(NamedTuple):
    """What a limit applies to: the whole model, a module including its submodules, or an operator."""

    scope: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.scope} {self.name}" if self.name else self.scope


TOTAL = LimitTarget("total")


class _Costs:
    """The costs of a report in total, by module including its submodules, and by operator.

    Args:
        report: the report.
        source: what it is, for messages.
    """

    def __init__(self, report: ReportData, source: str) -> None:
        self._report = report
        self._source = source
        ledger = report.ledger
        groups: dict[LimitTarget, list[Call]] = {TOTAL: [call for call, _ in ledger.counted]}
        for call, _ in ledger.counted:
            for path in path_and_parents(call.module):
                groups.setdefault(LimitTarget("module", path), []).append(call)
            for name in dict.fromkeys((call.layer.op, call.type)):
                groups.setdefault(LimitTarget("operator", name), []).append(call)
        self._sums = {target: ledger.sum(calls) for target, calls in groups.items()}

    def figure(self, target: LimitTarget, limit: Limit) -> int:
        """Return the limited figure of a target; zero if this report has no such module or operator.

        Raises:
            CostError: if it is symbolic, or if it is the peak of memory and memory was not recorded.
        """
        if limit.metric == "peak_memory":
            return self._peaks.get(target, 0)
        if limit.metric == "arena":
            return self._report.arena().size
        value = self._sums.get(target, {}).get(limit.metric, 0)
        if is_symbolic(value):
            raise CostError(
                f"{limit}: {limit.metric} of {self._source} is the symbolic expression {exact(value)} (expected a "
                "number). Substitute values for its dimensions (--dim, report.subs)."
            )
        return int(value)

    @cached_property
    def _peaks(self) -> dict[LimitTarget, int]:
        """The most bytes alive in total, and while each module runs."""
        memory = self._report.memory
        if memory is None:
            raise CostError(
                f"the budget limits peak_memory, but memory was not recorded in {self._source}. Record it: memory=True "
                "for estimate and ComputationalCostHook, --memory on the command line (PyTorch). Of an inference "
                "without it, as of an ONNX model, limit the arena instead."
            )
        peaks = {TOTAL: memory.peak}
        for call, (_, _, live) in zip(self._report.trace.calls, memory.live_by_call(), strict=True):
            for path in path_and_parents(call.module):
                target = LimitTarget("module", path)
                peaks[target] = max(peaks.get(target, 0), live)
        return peaks

    def matching(self, limit: Limit) -> list[LimitTarget]:
        """Return the targets of the limit; an operator that was not called has the cost zero."""
        if limit.scope == TOTAL.scope:
            return [TOTAL]
        targets = [
            LimitTarget(limit.scope, name) for name in self._names(limit.scope) if fnmatchcase(name, limit.pattern)
        ]
        if not targets and limit.scope == "operator" and any(fnmatchcase(op, limit.pattern) for op in calculators()):
            targets = [LimitTarget(limit.scope, limit.pattern)]
        return targets

    def near_matches(self, limit: Limit) -> str:
        """Return the end of the message for a limit that matches nothing: near matches, or the existing names."""
        names = self._names(limit.scope)
        if near := get_close_matches(limit.pattern, names):
            return f". Did you mean {' or '.join(map(repr, near))}?"
        more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
        return f" ({limit.scope}s are {', '.join(names[:MAX_NAMES])}{more})" if names else ""

    def _names(self, scope: str) -> list[str]:
        return [target.name for target in self._sums if target.scope == scope]
