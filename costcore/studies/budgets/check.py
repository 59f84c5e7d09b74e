"""Check a report against a budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from fractions import Fraction
from os import PathLike
from typing import Any, NamedTuple, TypeAlias

from costcore.errors import CostError
from costcore.ledger.module_paths import path_and_parents
from costcore.numbers.dims import is_symbolic
from costcore.registry.calculators import calculators
from costcore.reports.exports.facts import status
from costcore.reports.report import Report
from costcore.studies.budgets.budget import MAX_NAMES, Budget, Limit, Violation, is_time_kind
from costcore.studies.budgets.toml import BudgetError, read_budget
from costcore.studies.budgets.violations import Violations
from costcore.text.amounts import exact
from costcore.trace.call import Call

BudgetLike: TypeAlias = "Budget | str | PathLike[str] | Mapping[str, Any]"


def check(report: Report, budget: BudgetLike) -> Violations:
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
    return Violations([*_check_costs(report, read), *_too_long(report, read)])


def _too_long(report: Report, budget: Budget) -> Iterator[Violation]:
    """Yield a violation for every device on which the run takes longer than its limit, at least."""
    for limit in budget.times:
        where = f"time on {limit.device}"
        try:
            time = report.time(limit.device, **limit.options)
        except (TypeError, ValueError) as error:
            raise BudgetError(f"{budget.source}: {where}: {error}") from error
        if time.least_seconds > limit.most:
            nanoseconds = round(1e9 * time.least_seconds)
            yield Violation(where, "bound_seconds", nanoseconds, round(1e9 * limit.most))
        elif time.bound_seconds is None or (budget.strict and time.status != report.status):
            from costcore.analyses.timing.remarks import unknown_rates

            yield Violation(where, reason="; ".join(unknown_rates(time)))


def _check_costs(report: Report, budget: Budget) -> Iterator[Violation]:
    """Yield the violations of the limits on costs."""
    if budget.strict and report.status != "complete":
        yield Violation("total", reason=status(report))
    costs = _Costs(report, budget, "the report")
    baseline = None if budget.baseline is None else _Costs(budget.baseline, budget, "the baseline")
    unmatched = set()
    for limit in budget.limits:
        matched = costs.matching(limit)
        if not matched and (limit.scope, limit.pattern) not in unmatched:
            unmatched.add((limit.scope, limit.pattern))
            yield Violation(str(limit), reason=f"no {limit.scope} of this model matches{costs.near_matches(limit)}")
        for target in matched:
            yield from _exceeded(target, limit, costs, baseline)


def _exceeded(target: LimitTarget, limit: Limit, costs: _Costs, baseline: _Costs | None) -> Iterator[Violation]:
    """Yield a violation if a target exceeds its limit, or if its value is unknown."""
    value = costs.value(target, limit)
    if value is None:
        yield Violation(str(target), reason=costs.why_unknown(limit))
        return
    if limit.most is not None:
        most, reason = limit.most, ""
    else:
        old = (0 if baseline is None else baseline.value(target, limit)) or 0
        most, reason = _increased(old, limit.increase or 0)
    if value > most:
        reason = ", ".join(filter(None, (costs.budget.reason_of(limit.metric), reason)))
        if is_time_kind(costs.budget.quantity_of(limit.metric).kind):
            value, most = round(1e9 * value), round(1e9 * most)
        yield Violation(str(target), limit.metric, value, most, reason)


def _increased(old: int | float, increase: Fraction | int | float) -> tuple[int | float, str]:
    """Return the largest value after an increase, and its computation as text."""
    if isinstance(increase, Fraction):
        more = int(old * increase) if isinstance(old, int) else old * float(increase)
        return old + more, f"baseline {exact(old)} + {float(100 * increase):g} %"
    return old + increase, f"baseline {exact(old)} + {exact(increase)}"


class LimitTarget(NamedTuple):
    """What a limit applies to: the whole model, a module including its submodules, or an operator."""

    scope: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.scope} {self.name}" if self.name else self.scope


TOTAL = LimitTarget("total")


class _Costs:
    """What a budget limits of a report: in total, by module including its submodules, and by operator.

    Args:
        report: the report.
        budget: the budget.
        source: what the report is, for messages.
    """

    def __init__(self, report: Report, budget: Budget, source: str) -> None:
        self.budget = budget
        self._ledger = ledger = report.ledger
        self._source = source
        self._calls: dict[LimitTarget, list[Call]] = {TOTAL: []}
        for call in ledger.calls:
            for path in path_and_parents(call.module):
                self._calls.setdefault(LimitTarget("module", path), []).append(call)
            for name in dict.fromkeys((call.layer.op, call.type)):
                self._calls.setdefault(LimitTarget("operator", name), []).append(call)

    def value(self, target: LimitTarget, limit: Limit) -> int | float | None:
        """Return the limited value of a target, None if it is unknown; 0 if there is no such module or operator.

        Raises:
            CostError: if it is symbolic, or if the report does not have it.
        """
        limited = self.budget.quantity_of(limit.metric)
        try:
            calls = self._calls.get(target, [])
            value: Any = limited.total(self._ledger) if target == TOTAL else limited.of(self._ledger, calls)
        except CostError as error:
            raise CostError(f"{limit}: {limit.metric} of {self._source}: {error}") from error
        if is_symbolic(value):
            raise CostError(
                f"{limit}: {limit.metric} of {self._source} is the symbolic expression {exact(value)} (expected a "
                "number). Substitute values for its dimensions (--dim, report.subs)."
            )
        return value  # type: ignore[no-any-return]

    def why_unknown(self, limit: Limit) -> str:
        """Return why the value of a limit is unknown."""
        missing = self.budget.quantity_of(limit.metric).missing(self._ledger)
        return f"{limit.metric} is unknown: {'; '.join(missing)}"

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
        return [target.name for target in self._calls if target.scope == scope]
