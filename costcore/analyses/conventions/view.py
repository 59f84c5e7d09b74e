"""A report as another convention counts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from os import PathLike
from typing import Any

from costcore.analyses.analysis import Analyzed
from costcore.analyses.conventions.catalog import named
from costcore.analyses.conventions.convention import UNIT_NAMES, Convention
from costcore.analyses.conventions.counting import Counts, Line, amounts, count
from costcore.counting.substitution import substitute_values
from costcore.errors import CostError
from costcore.ir import Cost
from costcore.numbers.dims import Dim
from costcore.numbers.symbolic import as_text, expanded_sum, magnitude
from costcore.tables.answer import Answer, Figure
from costcore.tables.result import OfReport
from costcore.tables.table import Table
from costcore.text.table import Column
from costcore.text.units import check_digits, check_unit, prefix_for, scaled
from costcore.trace.call import Call
from costcore.trace.trace import CallCost, Trace


class View(OfReport):
    """A report as a convention counts it; :meth:`costcore.Report.under` returns it.

    The calls are those of the report, and the report does not change. A call that the convention does not count has 0;
    a call that costcore could not count is unknown here too, and the status is ``partial``. All ``show_…`` and ``to_…``
    methods of reports, ``tree`` and ``plot`` work, with the amounts of the convention in the column of FLOPs.

    Args:
        counts: what the convention counts.
        trace: the run.
        make_report: makes a report of a trace.

    Attributes:
        counts: the convention, and a line for every call that one of its rules counts.
    """

    def __init__(self, counts: Counts, trace: Trace, make_report: Callable[[Trace], Any]) -> None:
        self.counts = counts
        self._make_report = make_report
        self._trace = trace

    def __repr__(self) -> str:
        return f"<{as_text(self.total)} {UNIT_NAMES[self.unit]} as {self.counts.convention.label} counts>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("show_", "to_")) or name in ("tree", "plot"):
            return getattr(self.report, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _text(self, mode: str = "", unit: str | None = "auto", n_digits: int | None = None, **options: Any) -> str:
        return self.describe(unit, 3 if n_digits is None else n_digits)

    def _answer(self) -> Answer:
        convention, unit = self.counts.convention, UNIT_NAMES[self.unit]
        says = f"{convention.tool} calls them {convention.calls_it}" if convention.calls_it else ""
        parts = _largest_first(self.by_term if self.is_closed_form else self.by("op"))
        entries = [{"part": name, "amount": amount} for name, amount in parts if amount != 0]
        columns = [Column("part", "Term" if self.is_closed_form else "Operator"), Column("amount", unit, "flops")]
        ignored = [f"{op} ({len(names)} call{'s' * (len(names) > 1)})" for op, names in self.ignored.items()]
        lines = [f"not counted by {convention.tool}: {', '.join(ignored)}"] if ignored else []
        return Answer(
            f"{unit} as {convention.label} counts them, {self.status}",
            [Figure("total", unit, self.total, "count", says)],
            [Table("Largest first", columns, entries, n_digits=3)],
            [*lines, *([self._why_no_lines] * self.is_closed_form), *self.notes],
        )

    @cached_property
    def report(self) -> Any:
        """The report with the amounts of the convention as FLOPs, a :class:`costcore.Report`.

        It is made when it is asked for: many conventions are tried for their totals alone.

        Raises:
            CostError: if the convention is a closed form, which has no amounts of calls.
        """
        if self.is_closed_form:
            raise CostError(f"{self._why_no_lines}. Use total and by_term.")
        unit = UNIT_NAMES[self.unit]
        return self._make_report(counted_trace(self._trace, self.amounts, self.name, unit))

    @property
    def _why_no_lines(self) -> str:
        """Why a closed form has neither amounts of calls nor of modules."""
        return (
            f"convention {self.name!r} is a closed form of the whole network, computed from its sizes and not from its "
            "calls, so that it has no amounts per call, operator or module"
        )

    @property
    def name(self) -> str:
        """The name of the convention."""
        return self.counts.convention.name

    @property
    def unit(self) -> str:
        """What it counts: ``MAC``, ``FLOP``, ``MULT``, ``BOP`` or ``OP``."""
        return self.counts.convention.unit

    @cached_property
    def total(self) -> Dim:
        """The number that the tool prints: an exact int, or an expression in the symbolic dimensions."""
        return expanded_sum(line.amount for line in self.counts.lines)

    @property
    def status(self) -> str:
        """``complete``, ``assumed`` or ``partial``, see :attr:`costcore.Report.status`."""
        return self._trace.status

    @property
    def notes(self) -> list[str]:
        """What the convention cannot reproduce, with the size of the gap where it is known."""
        return list(self.counts.notes)

    @cached_property
    def by_call(self) -> dict[str, Dim]:
        """The amount of every call by name, 0 if the convention does not count it."""
        return {
            record.call.name: amount
            for record, amount in zip(self._trace, self.amounts, strict=True)
            if record.cost is not None
        }

    @cached_property
    def by_term(self) -> dict[str, Dim]:
        """The terms of a closed form by name; of any other convention the amounts by key of the rule."""
        terms: dict[str, list[Dim]] = {}
        for line in self.counts.lines:
            terms.setdefault(line.rule, []).append(line.amount)
        return {term: expanded_sum(amounts) for term, amounts in terms.items()}

    def by(self, *keys: str) -> dict[Any, Dim]:
        """Return the amounts by one or several of ``type``, ``op``, ``module``, ``phase``, ``dtype``, ``native``.

        Raises:
            TypeError: if there is no key, or if a key is not a string.
            ValueError: if a key is unknown.
            CostError: if the convention is a closed form, which has no amounts of calls.
        """
        return {group: sums["flops"] for group, sums in self.report.by(*keys).items()}

    @cached_property
    def ignored(self) -> dict[str, list[str]]:
        """Calls by operator that do arithmetic, or have parameters, and that the convention does not count."""
        ignored: dict[str, list[str]] = {}
        for record, amount in zip(self._trace, self.amounts, strict=True):
            call = record.call
            if record.cost is not None and amount == 0 and _does_arithmetic(record.cost):
                ignored.setdefault(call.layer.op, []).append(call.name)
        return {} if self.is_closed_form else ignored

    def subs(self, values: Mapping[str, Any] | None = None, /, **named: Any) -> View:
        """Return this view with values for its symbolic dimensions, as :meth:`costcore.Report.subs` does."""
        report = self._make_report(substitute_values(self._trace, {**(values or {}), **named}))
        return view_of(report, self.counts.convention)

    def describe(self, unit: str | None = "auto", n_digits: int | None = 3) -> str:
        """Return the total with its parts, and what the convention ignores, as text.

        Args:
            unit: a prefix of numbers as for :meth:`costcore.Report.show_report`.
            n_digits: digits after the decimal point.

        Raises:
            TypeError, ValueError: if an argument is invalid.
        """
        check_unit(unit)
        digits = check_digits(n_digits)
        parts = self.by_term if self.is_closed_form else self.by("op")
        prefix = prefix_for([self.total], "flops") if unit in ("auto", "autoaligned") else unit or ""

        def text(amount: Dim) -> str:
            return scaled(amount, prefix, "flops", digits, fixed=True)

        convention = self.counts.convention
        says = f" calls them {convention.calls_it}" if convention.calls_it else ""
        amounts = ", ".join(f"{name} {text(amount)}" for name, amount in _largest_first(parts) if amount != 0)
        lines = [
            f"{text(self.total)} {prefix}{UNIT_NAMES[self.unit]} ({convention.label}{says}): {amounts or 'nothing'}"
        ]
        if self.ignored:
            ignored = ", ".join(f"{op} {len(names)}" for op, names in self.ignored.items())
            lines.append(f"calls that {convention.tool} ignores: {ignored}")
        lines += [self._why_no_lines] * self.is_closed_form
        return "\n".join(lines)

    @cached_property
    def lines(self) -> list[tuple[Call | None, Line]]:
        """Every line with the call that it counts; None for a term of a closed form."""
        records = self._trace.records
        return [(None if line.position is None else records[line.position].call, line) for line in self.counts.lines]

    @cached_property
    def amounts(self) -> Sequence[Dim]:
        """The amount of every call in the order of the trace, 0 for one that is not counted."""
        return amounts(self.counts, self._trace)

    @property
    def records(self) -> tuple[CallCost, ...]:
        """The calls of the report with their costs; see :class:`costcore.Trace`."""
        return self._trace.records

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls of the report."""
        return self._trace.calls

    @property
    def is_closed_form(self) -> bool:
        """Whether the convention counts the network as a whole, from its sizes: no call or module has an amount."""
        return any(line.position is None for line in self.counts.lines)


def under(report: Analyzed, convention: str | PathLike[str]) -> View:
    """Return a report as the convention of that name or file counts it, see :meth:`costcore.Report.under`."""
    return view_of(report, named(convention))


def view_of(report: Analyzed, convention: Convention) -> View:
    """Return a :class:`costcore.Report` as a convention counts it.

    Raises:
        CostError: if the convention needs what the capture does not know.
    """
    return View(count(report.trace, convention), report.trace, type(report))


def _largest_first(parts: Mapping[str, Dim]) -> list[tuple[str, Dim]]:
    return sorted(parts.items(), key=lambda item: -magnitude(item[1]))


def _does_arithmetic(cost: Cost) -> bool:
    flops = cost.flops if not hasattr(cost.flops, "flops") else cost.flops.flops()
    return bool(flops != 0 or cost.macs != 0)


def counted_trace(trace: Trace, amounts: Sequence[Dim], convention: str, unit: str) -> Trace:
    """Return the trace with amounts of a convention as FLOPs, and its unit and name in the run.

    An amount of several executions of a call stands for all of them, so such a call is counted as executed once.

    Args:
        trace: the run.
        amounts: the amount of every call.
        convention: the name of the convention.
        unit: what it counts, in the plural.
    """
    records = [_counted(record, amount) for record, amount in zip(trace, amounts, strict=True)]
    unit = f"{unit} ({convention})"  # beside the MACs of costcore
    return Trace(tuple(records), replace(trace.run, convention=convention, unit=unit))


def _counted(record: CallCost, amount: Dim) -> CallCost:
    call, cost = record.call, record.cost
    if cost is None:
        return record
    times = call.times
    if times == 1:
        return record._replace(cost=cost._replace(flops=amount))
    whole = Cost(amount, cost.mread * times, cost.mwrite * times, cost.params, cost.macs * times, cost.mcomm * times)
    return record._replace(call=call._replace(times=1), cost=whole)
