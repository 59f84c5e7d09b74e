"""Check a model or a report against a budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from fractions import Fraction
from os import PathLike
from typing import Any, NamedTuple, TypeAlias

from costcore.budgets.budget import MOST_NAMES, Breach, Budget, Limit
from costcore.budgets.toml import read_budget
from costcore.dims import Dim, is_symbolic
from costcore.errors import CostError
from costcore.registry.calculators import calculators
from costcore.reports.caveats import not_counted
from costcore.reports.module_paths import path_and_parents
from costcore.reports.report import Report
from costcore.reports.report_data import ReportData
from costcore.reports.text.amounts import METRICS, exact
from costcore.trace.call import Call

BudgetLike: TypeAlias = "Budget | str | PathLike[str] | Mapping[str, Any]"


def check(report: Report, budget: BudgetLike) -> list[Breach]:
    """Where ``report`` breaks ``budget``, in the order of its limits; empty where it holds.

    A limit of a pattern holds for each module (with everything inside it) or operator that matches. A pattern that
    matches nothing is a breach: a limit on a module that was renamed would hold for ever.

    Args:
        report: the report.
        budget: a :class:`Budget`, the path of a TOML file, or what such a file says, as a mapping.

    Raises:
        TypeError: for a report that is none.
        BudgetError: for a malformed budget; names file, line and key.
        CostError: where a limited cost is an expression over symbolic dimensions.
    """
    if not isinstance(report, Report):
        raise TypeError(f"check takes a report, as estimate makes them, got {type(report).__name__}")
    limits = budget if isinstance(budget, Budget) else read_budget(budget)
    return [*_partial(report, limits), *_broken(report, limits)]


def _partial(report: Report, budget: Budget) -> Iterator[Breach]:
    if budget.strict and (missing := not_counted(report.trace)):
        yield Breach("total", reason=f"partial: not counted: {missing}")


def _broken(report: Report, budget: Budget) -> Iterator[Breach]:
    costs = _Costs(report)
    before = None if budget.baseline is None else _Costs(budget.baseline)
    reported = set()
    for limit in budget.limits:
        matched = costs.matching(limit)
        if not matched and (limit.scope, limit.pattern) not in reported:
            reported.add((limit.scope, limit.pattern))
            yield Breach(str(limit), reason=f"no {limit.scope} of this model matches{costs.nearest(limit)}")
        for place, found in matched:
            value = _whole(found[limit.metric], limit, "the report")
            if limit.most is not None:
                most, reason = limit.most, ""
            else:
                old = _whole(before.of(place)[limit.metric] if before else 0, limit, "the baseline")
                most, reason = _raised(old, limit.increase or 0)
            if value > most:
                yield Breach(str(place), limit.metric, value, most, reason)


def _raised(old: int, increase: Fraction | int) -> tuple[int, str]:
    if isinstance(increase, Fraction):
        return old + int(old * increase), f"baseline {exact(old)} + {float(100 * increase):g} %"
    return old + increase, f"baseline {exact(old)} + {exact(increase)}"


def _whole(value: Dim, limit: Limit, where: str) -> int:
    if is_symbolic(value):
        raise CostError(
            f"{limit}: {limit.metric} of {where} is {exact(value)}; give its dimensions values (--dim, report.subs)"
        )
    return int(value)


class Place(NamedTuple):
    """What a limit applies to: the whole model, a module with everything inside it, or an operator."""

    scope: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.scope} {self.name}" if self.name else self.scope


TOTAL = Place("total")


class _Costs:
    """The costs of a report in total, by module with everything inside it, and by operator."""

    def __init__(self, report: ReportData) -> None:
        ledger = report.ledger
        groups: dict[Place, list[Call]] = {TOTAL: [call for call, _ in ledger.counted]}
        for call, _ in ledger.counted:
            for path in path_and_parents(call.module):
                groups.setdefault(Place("module", path), []).append(call)
            for name in dict.fromkeys((call.layer.op, call.type)):
                groups.setdefault(Place("operator", name), []).append(call)
        self._sums = {place: ledger.sum(calls) for place, calls in groups.items()}

    def of(self, place: Place) -> Mapping[str, Dim]:
        """The costs there; zero if this report has no such module or operator."""
        return self._sums.get(place, dict.fromkeys(METRICS, 0))

    def matching(self, limit: Limit) -> list[tuple[Place, Mapping[str, Dim]]]:
        """The places that the limit applies to, with their costs; an operator that did not run costs nothing."""
        if limit.scope == TOTAL.scope:
            return [(TOTAL, self.of(TOTAL))]
        names = self._names(limit.scope)
        found = [Place(limit.scope, name) for name in names if fnmatchcase(name, limit.pattern)]
        if not found and limit.scope == "operator" and any(fnmatchcase(op, limit.pattern) for op in calculators()):
            found = [Place(limit.scope, limit.pattern)]
        return [(place, self.of(place)) for place in found]

    def nearest(self, limit: Limit) -> str:
        """Names that a limit which matches nothing may have been meant for."""
        names = self._names(limit.scope)
        if near := get_close_matches(limit.pattern, names):
            return f"; did you mean {' or '.join(map(repr, near))}?"
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        return f"; there are {', '.join(names[:MOST_NAMES])}{more}" if names else ""

    def _names(self, scope: str) -> list[str]:
        return [place.name for place in self._sums if place.scope == scope]
