"""Budgets: limits on the costs of a model, read from TOML or a mapping, and the check of a report against them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from fractions import Fraction
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from costcore.errors import CostError, did_you_mean, unknown
from costcore.files import loads, read_toml
from costcore.ledger.ledger import Ledger
from costcore.ledger.modules import path_and_parents
from costcore.numbers import is_symbolic
from costcore.plugins import with_plugin_hint
from costcore.registry import calculators
from costcore.reports.exports import status
from costcore.reports.report import Report
from costcore.tables.answer import Content
from costcore.tables.quantity import AMOUNTS, Quantity, is_quantity, needed_options, numbers, quantity
from costcore.tables.result import Result, Table
from costcore.text.amounts import duration, exact, in_thousands, parse_amount, parse_duration, parse_percent, readable
from costcore.text.output import Column, printable
from costcore.trace.call import Call
from costcore.trace.run import LEVELS

# The check.


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
    return Violations([*_check_costs(report, read), *_check_times(report, read)])


def _check_times(report: Report, budget: Budget) -> Iterator[Violation]:
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
            from costcore.analyses.timing.time_report import unknown_rates

            yield Violation(where, reason="; ".join(unknown_rates(time)))


def _check_costs(report: Report, budget: Budget) -> Iterator[Violation]:
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
    value = costs.value(target, limit)
    if value is None:
        yield Violation(str(target), reason=costs.why_unknown(limit))
        return
    if limit.most is not None:
        most, reason = limit.most, limit.read
    else:
        old = (0 if baseline is None else baseline.value(target, limit)) or 0
        most, reason = _increased(old, limit.increase or 0)
    if value > most:
        reason = ", ".join(filter(None, (costs.budget.reason_of(limit.metric), reason)))
        if is_time_kind(costs.budget.quantity_of(limit.metric).kind):
            # Violations state times in nanoseconds.
            value, most = round(1e9 * value), round(1e9 * most)
        yield Violation(str(target), limit.metric, value, most, reason)


def _increased(old: int | float, increase: Fraction | int | float) -> tuple[int | float, str]:
    if isinstance(increase, Fraction):
        more = int(old * increase) if isinstance(old, int) else old * float(increase)
        return old + more, f"baseline {exact(old)} + {float(100 * increase):g} %"
    return old + increase, f"baseline {exact(old)} + {exact(increase)}"


class LimitTarget(NamedTuple):
    """The scope of a limit: the whole model, a module including its submodules, or an operator."""

    scope: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.scope} {self.name}" if self.name else self.scope


TOTAL = LimitTarget("total")


class _Costs:
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
            value: Any = _total(limited, self._ledger) if target == TOTAL else limited.of(self._ledger, calls)
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


def _total(limited: Quantity, ledger: Ledger) -> Any:
    # A limit on ``n_params`` of the whole model includes parameters that no counted call reads.
    return (quantity("n_params_model") if limited.name == "n_params" else limited).total(ledger)


# Budgets, limits and violations.


SCOPES = ("total", "module", "operator")
"""The scopes of limits: the run, modules including submodules, and operators."""

FUSED = ("mread", "mwrite", "mrw")
"""The metrics that can be limited after fusion."""

MAX_NAMES = 8
"""The maximum number of modules or operators in a message."""


class Limit(NamedTuple):
    """A limit on one metric.

    Attributes:
        scope: ``total``, ``module`` or ``operator``.
        pattern: a shell pattern for the module paths or operators to which it applies (``layer?.*``); empty for the
            total.
        metric: the name of a quantity with numbers, see :func:`costcore.quantities`.
        most: the maximum value, of times in seconds; None if the increase is limited.
        increase: the maximum increase over the baseline, relative (:class:`fractions.Fraction`) or absolute (int).
        read: how a size such as ``256 KB`` was read; empty for others.
    """

    scope: str
    pattern: str
    metric: str
    most: int | float | None = None
    increase: Fraction | int | float | None = None
    read: str = ""

    def __str__(self) -> str:
        return self.scope if self.scope == "total" else f"{self.scope} {self.pattern!r}"


class TimeLimit(NamedTuple):
    """A limit on the minimum time of a run on a device.

    Attributes:
        device: the device, as :meth:`costcore.Report.time` takes it.
        most: the maximum of ``bound_seconds``, in seconds.
        options: further arguments of :meth:`costcore.Report.time`.
    """

    device: str
    most: float
    options: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Budget:
    """Limits on the cost of a model.

    Attributes:
        limits: all limits.
        baseline: the report from which increases are measured.
        baseline_path: the file of that report; None if there is none.
        strict: whether a report with status ``partial`` or ``assumed`` is a violation.
        convention: the convention of FLOPs; empty for costcore's.
        fusion: the level of fusion for bytes; empty for the bytes of every call by itself.
        times: limits on the minimum time of a run, by device.
        source: the file from which the budget was read.
    """

    limits: tuple[Limit, ...]
    baseline: Report | None = None
    strict: bool = False
    convention: str = ""
    fusion: str = ""
    times: tuple[TimeLimit, ...] = ()
    source: str = field(default="budget", compare=False)
    baseline_path: Path | None = field(default=None, compare=False)

    @property
    def needs(self) -> dict[str, Any]:
        """The options of :func:`costcore.estimate` that the limited quantities need."""
        return needed_options(self.quantity_of(limit.metric).name for limit in self.limits)

    def quantity_of(self, metric: str) -> Quantity:
        """Return the quantity of a metric, by the convention of this budget and after its fusion."""
        if metric == "flops" and self.convention:
            return quantity(f"flops@{self.convention}")
        if metric in FUSED and self.fusion:
            return quantity(f"fused_{metric}@{self.fusion}")
        return quantity(metric)

    def reason_of(self, metric: str) -> str:
        """Return how the budget counts a metric; empty for the default."""
        if metric == "flops" and self.convention:
            from costcore.analyses.conventions.convention import find_convention

            return f"as {find_convention(self.convention).name} counts"
        return f"after fusion ({self.fusion})" if metric in FUSED and self.fusion else ""

    def as_strict(self) -> Budget:
        """Return this budget with ``strict=True``."""
        return replace(self, strict=True)


class Violation(NamedTuple):
    """A limit that is exceeded; its text is one line.

    Attributes:
        where: ``total``, ``module layer1.conv``, ``operator conv`` or ``time on l4``.
        metric: the limited metric; ``bound_seconds`` for the minimum time of a run; empty if the report is partial, a
            pattern matches nothing, or the value is unknown.
        value: the value of the metric; of times in nanoseconds, rounded.
        limit: its maximum.
        reason: how the limit was computed from the baseline, or why there is a violation without a metric.
    """

    where: str
    metric: str = ""
    value: int | float = 0
    limit: int | float = 0
    reason: str = ""

    @property
    def excess(self) -> int | float:
        """The amount by which the value exceeds the limit."""
        return self.value - self.limit

    @property
    def name(self) -> str:
        """The limited metric in words; without a metric the reason."""
        if not self.metric:
            return self.reason
        return TIME_NAME if self.metric == "bound_seconds" else quantity(self.metric).in_words

    @property
    def amounts(self) -> tuple[str, str, str]:
        """The value, its limit and the excess as text; empty without a metric."""
        if not self.metric:
            return "", "", ""
        is_time = self.metric == "bound_seconds" or is_time_kind(quantity(self.metric).kind)
        as_text = _nanoseconds if is_time else exact
        return as_text(self.value), as_text(self.limit), as_text(self.excess)

    def __str__(self) -> str:
        if not self.metric:
            return f"{self.where}: {self.reason}"
        value, limit, excess = self.amounts
        share = f", {100 * self.excess / self.limit:.2f} %" if self.limit else ""
        if self.excess >= 10 * self.limit > 0:
            share = f", {self.value // self.limit:,} times the limit"
        reason = f" ({self.reason})" if self.reason else ""
        return f"{self.where}: {value} {self.name}, limit {limit}{reason}, {excess} over{share}"


TIME_NAME = "at least"
"""The name of the bound on time: a run takes at least this long."""


def is_time_kind(kind: str) -> bool:
    """Return whether values of this kind are seconds."""
    return kind in ("duration", "seconds")


def _nanoseconds(value: int | float) -> str:
    return duration(value / 1e9)


# Read a budget from a TOML file or a mapping.


TOP_LEVEL_KEYS = ("strict", "convention", "baseline", "max_increase", "fusion", *SCOPES, "time")

OTHER_NAMES = {"sram": "arena", "flash": "weights"}
"""Names of quantities for microcontrollers."""

TIME_KEYS = ("bound_seconds", "dtype", "fusion", "cores", "tf32")
"""The keys of a limit on time; all but the first are arguments of :meth:`costcore.Report.time`."""


class BudgetError(CostError):
    """An invalid budget; the message includes the file, line and key."""


def read_budget(budget: str | PathLike[str] | Mapping[str, Any], *, reads_baseline: bool = True) -> Budget:
    """Return the budget in a file or a mapping.

    ::

        strict = true                  # a partial or assumed report is a violation
        convention = "fvcore"          # flops are counted as fvcore counts them; default: as costcore does
        fusion = "pointwise"           # count bytes after fusion; default: unfused
        baseline = "report.json"       # a saved report, relative to this file; in a mapping it may be a Report
        max_increase = "1%"            # of each total, from the baseline

        [total]
        flops = "4.2G"                 # any quantity with numbers that costcore.quantities() lists
        n_params = 25_600_000
        sram = "256 KiB"               # or arena; of the whole run only: not of modules or operators
        flash = "1 MiB"                # or weights; likewise
        peak_memory = "2 GiB"          # of a report with memory; in total, or while a module runs
        "flops@fvcore" = "4.1G"
        "bound_seconds@l4" = "2 ms"

        [module."layer?"]              # applies to each matching module, including its submodules
        mread = "100 MiB"
        max_increase = { macs = 0 }    # limits by metric

        [operator.conv]
        macs = "4G"

        [time.l4]                      # a device: the least time of a run; dtype, fusion, cores, tf32 as in Report.time
        bound_seconds = "5 ms"
        dtype = "bfloat16"

    Args:
        budget: the path of the file, or the mapping.
        reads_baseline: whether to read the baseline report. If not, only its path is known, and it need not exist.

    Raises:
        TypeError: if ``budget`` is neither a path nor a mapping.
        BudgetError: if the budget is invalid; the message includes the file, line and key.
        OSError: if the file cannot be read.
    """
    if isinstance(budget, Mapping):
        return _Reader("budget", "", Path(), reads_baseline).budget(budget)
    if not isinstance(budget, (str, PathLike)):
        raise TypeError(f"a budget must be the path of a TOML file or a mapping (got {budget!r})")
    path = Path(budget)
    content, text = read_toml(path, BudgetError)
    return _Reader(str(path), text, path.parent, reads_baseline).budget(content)


class _Reader:
    def __init__(self, source: str, text: str, folder: Path, reads_baseline: bool) -> None:
        self._source = source
        self._text = text
        self._folder = folder
        self._reads_baseline = reads_baseline

    def budget(self, content: Mapping[str, Any]) -> Budget:
        """Return the budget with this content."""
        for key in content:
            if key not in TOP_LEVEL_KEYS:
                hint = ". Limits of the whole model are below a line [total]" if key in numbers() else ""
                raise self._error((key,), unknown("key", key, TOP_LEVEL_KEYS) + hint)
        strict = content.get("strict", False)
        if not isinstance(strict, bool):
            raise self._error(("strict",), f"strict must be true or false (got {strict!r})")
        limits = (*self._limits(content),)
        baseline, path = self._baseline(content.get("baseline"))
        if (baseline, path) == (None, None) and any(limit.increase is not None for limit in limits):
            raise BudgetError(f"{self._source}: max_increase needs a baseline, the path of a saved report")
        times = (*self._times(content.get("time", {})),)
        if not limits and not times and not strict:
            raise BudgetError(f"{self._source}: the budget has no limits (expected {', '.join(TOP_LEVEL_KEYS)})")
        convention, fusion = self._convention(content.get("convention", "")), content.get("fusion", "")
        if fusion not in ("", *LEVELS):
            raise self._error(("fusion",), unknown("level of fusion", fusion, LEVELS))
        return Budget(limits, baseline, strict, convention, fusion, times, self._source, path)

    def _convention(self, value: Any) -> str:
        if not isinstance(value, str):
            raise self._error(("convention",), f"convention must be a name (got {value!r})")
        convention = str(self._folder / value) if value.endswith(".toml") else value
        try:
            if convention:
                from costcore.analyses.conventions.convention import find_convention

                find_convention(convention)
            return convention
        except (ValueError, CostError, OSError) as error:
            raise self._error(("convention",), str(error)) from error

    def _limits(self, content: Mapping[str, Any]) -> Iterator[Limit]:
        if "max_increase" in content:
            yield from self._increases("total", "", content["max_increase"], ("max_increase",))
        for scope in SCOPES:
            section = content.get(scope, {})
            self._check_table(section, (scope,))
            if scope == "total":
                yield from self._section(scope, "", section, (scope,))
                continue
            for pattern, limits in section.items():
                self._check_table(limits, (scope, pattern))
                yield from self._section(scope, pattern, limits, (scope, pattern))

    def _times(self, section: Any) -> Iterator[TimeLimit]:
        self._check_table(section, ("time",))
        for device, limits in section.items():
            self._check_table(limits, ("time", device))
            if wrong := [key for key in limits if key not in TIME_KEYS]:
                raise self._error(("time", device, wrong[0]), unknown("key", wrong, TIME_KEYS))
            place = ("time", device, "bound_seconds")
            path = str(self._folder / device) if device.endswith(".toml") else device
            try:
                from costcore.analyses.devices.device import find_device

                find_device(path)
                most = parse_duration(limits.get("bound_seconds"), "bound_seconds")
            except (TypeError, ValueError, OSError) as error:
                raise self._error(place, str(error)) from error
            yield TimeLimit(path, most, {key: value for key, value in limits.items() if key != "bound_seconds"})

    def _section(
        self, scope: str, pattern: str, limits: Mapping[str, Any], key_path: tuple[str, ...]
    ) -> Iterator[Limit]:
        for key, value in limits.items():
            if key == "max_increase":
                yield from self._increases(scope, pattern, value, (*key_path, key))
            else:
                limited = self._quantity(scope, key, (*key_path, key))
                most, read = self._amount(value, limited, (*key_path, key)), in_thousands(value)
                yield Limit(scope, pattern, limited.name, most=most, read=read)

    def _increases(self, scope: str, pattern: str, value: Any, key_path: tuple[str, ...]) -> Iterator[Limit]:
        by_metric = value if isinstance(value, Mapping) else dict.fromkeys(AMOUNTS, value)
        for metric, increase in by_metric.items():
            limited = self._quantity(scope, metric, (*key_path, metric))
            share = parse_percent(increase)
            if share is None and not isinstance(value, Mapping) and increase != 0:
                example = 'a percentage such as "1%", 0, or a table such as { macs = "1%" }'
                raise self._error(key_path, f"max_increase must be {example} (got {value!r})")
            amount = share if share is not None else self._amount(increase, limited, (*key_path, metric))
            yield Limit(scope, pattern, limited.name, increase=amount)

    def _quantity(self, scope: str, name: str, key_path: tuple[str, ...]) -> Quantity:
        name = OTHER_NAMES.get(name, name)
        stem, at, parameter = name.partition("@")
        # Files in a quantity are relative to the budget.
        if ".toml" in parameter:
            name = f"{stem}{at}{self._folder / parameter}"
        if not is_quantity(name):
            raise self._error(key_path, with_plugin_hint(unknown("key", name, (*numbers(), "max_increase"))))
        try:
            found = quantity(name)
        except (ValueError, OSError) as error:
            raise self._error(key_path, str(error)) from error
        if not found.is_number:
            raise self._error(key_path, f"{name} is text, which has no limit{did_you_mean([name], numbers())}")
        if scope != "total" and found.is_of_run_only:
            raise self._error(key_path, f"{name} is known of the whole run only: limit it in [total]")
        return found

    def _amount(self, value: Any, limited: Quantity, key_path: tuple[str, ...]) -> int | float:
        try:
            if is_time_kind(limited.kind):
                return parse_duration(value, limited.name)
            return parse_amount(value, limited.name, limited.kind)
        except (TypeError, ValueError) as error:
            raise self._error(key_path, str(error)) from error

    def _check_table(self, value: Any, key_path: tuple[str, ...]) -> None:
        if not isinstance(value, Mapping):
            example = "[total]" if key_path == ("total",) else f'[{key_path[0]}."pattern"]'
            raise self._error(key_path, f"{key_path[-1]} must be a table of limits, as in {example} (got {value!r})")

    def _baseline(self, value: Any) -> tuple[Report | None, Path | None]:
        if value is None or isinstance(value, Report):
            return value, None
        if not isinstance(value, (str, PathLike)):
            raise self._error(("baseline",), f"baseline must be the path of a saved report (got {value!r})")
        path = self._folder / value
        try:
            return (Report.from_json(path) if self._reads_baseline else None), path
        except CostError as error:
            hint = (
                "" if not isinstance(error.__cause__, FileNotFoundError) else ". `costcore check … --update` writes it"
            )
            raise self._error(("baseline",), f"baseline: {error}{hint}") from error

    def _error(self, key_path: tuple[str, ...], problem: str) -> BudgetError:
        line = _line_of(self._text, key_path)
        location = [f"{self._source}, line {line}" if line else self._source, ".".join(key_path[:-1])]
        return BudgetError(": ".join([*filter(None, location), problem]))


def _line_of(text: str, key_path: tuple[str, ...]) -> int | None:
    section: tuple[str, ...] = ()
    best: tuple[int, int | None] = (0, None)
    for number, line in enumerate(text.splitlines(), start=1):
        # TOML parsers report no line of a key: parse line by line, and keep the deepest matching header.
        try:
            content = loads(line)
        except ValueError:
            continue  # a part of a value with several lines
        path = _keys_in(content)
        if line.lstrip().startswith("["):
            section = path
        else:
            path = (*section, *path)
        depth = len(path) if path and path == key_path[: len(path)] else 0
        if depth > best[0]:
            best = depth, number
    return best[1]


def _keys_in(content: Mapping[str, Any]) -> tuple[str, ...]:
    path: tuple[str, ...] = ()
    while isinstance(content, Mapping) and content:
        name = next(iter(content))
        path, content = (*path, name), content[name]
    return path


# Violations as a result.


VIOLATION_AMOUNTS = ("is", "limit", "over by")

COLUMNS = [
    Column(key, key, "count" if key in VIOLATION_AMOUNTS else "text")
    for key in ("where", "what", *VIOLATION_AMOUNTS, "limit from")
]


class Violations(Result, list[Violation]):
    """The violations of a budget in the order of its limits, as :func:`costcore.check` returns them; may be empty."""

    def __repr__(self) -> str:
        return f"<Violations: {[*map(str, self)]}>"

    def _text(
        self, mode: str = "table", unit: str | None = "auto", n_digits: int | None = None, *, is_whole: bool = True
    ) -> str:
        return "\n".join(map(str, self)) or "within the budget"

    def _content(self) -> Content:
        table = self.table()
        return Content(table.title if self else "Within the budget", (), [table] if self else ())

    def table(self) -> Table:
        """Return a table with a row for each violation: amounts in words, times with their unit."""
        return Table("Over the budget", COLUMNS, [_row(each) for each in self])


def _row(violation: Violation) -> dict[str, str]:
    return {
        "where": violation.where,
        "what": violation.name,
        "limit from": violation.reason if violation.metric else "",
        **dict(zip(VIOLATION_AMOUNTS, violation.amounts, strict=True)),
    }


# Badge: an SVG file for a README.


LABEL = "cost"
"""The text on the left of a badge."""

MOST_SHOWN = 2
"""The maximum number of amounts on a badge."""

GREEN, RED, LEFT = "#2b7a3f", "#b3261e", "#4b5563"
"""The colors of a badge; white text has a contrast of at least 4.5 on each."""

LETTER, PAD = 6.1, 7
"""The width of a letter, to which the text is fitted, and the space beside it (pixels)."""


def badge(report: Report, budget: Budget, violations: Violations) -> str:
    """Return a badge: the totals that the budget limits, or MACs and parameters; red with a violation.

    Args:
        report: the report.
        budget: the budget.
        violations: the violations of the budget by the report.
    """
    limited = [limit.metric for limit in budget.limits if limit.scope == "total" and limit.increase is None]
    shown = [*dict.fromkeys(limited)][:MOST_SHOWN] or ["macs", "n_params"]
    amounts = []
    for metric in shown:
        found = budget.quantity_of(metric)
        value = readable(_total(found, report.ledger), found.kind, 2)
        words = found.in_words.removeprefix("bytes of ").removeprefix("bytes ")
        amounts.append(f"{value}{'' if value[-1].isalpha() and words[:1].isupper() else ' '}{words}")
    text = " · ".join(amounts) + (", over budget" if violations else "")
    return _drawn(LABEL, printable(text), RED if violations else GREEN)


def _drawn(label: str, text: str, color: str) -> str:
    left, right = (round(LETTER * len(each) + 2 * PAD) for each in (label, text))
    words = [(label, left / 2, left), (text, left + right / 2, right)]
    shown = "".join(
        f"<text x='{x:g}' y='14' textLength='{width - 2 * PAD}'>{escape(word)}</text>" for word, x, width in words
    )
    title = escape(f"{label}: {text}")
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{left + right}' height='20' role='img' aria-label='{title}'>"
        f"<title>{title}</title><clipPath id='r'><rect width='{left + right}' height='20' rx='3'/></clipPath>"
        f"<g clip-path='url(#r)'><rect width='{left}' height='20' fill='{LEFT}'/>"
        f"<rect x='{left}' width='{right}' height='20' fill='{color}'/></g>"
        f"<g fill='#fff' text-anchor='middle' font-family='Verdana,DejaVu Sans,sans-serif' font-size='11'>{shown}</g>"
        "</svg>\n"
    )
