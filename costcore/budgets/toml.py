"""Budgets as people write them: a TOML file, or the same as a mapping."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from costcore.budgets.budget import SCOPES, Budget, Limit
from costcore.errors import CostError
from costcore.messages import why
from costcore.reports.report import Report
from costcore.reports.text.amounts import METRICS, parse_amount, parse_percent

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TOP = ("strict", "baseline", "max_increase", *SCOPES)

LIMITS = (*METRICS, "max_increase")


class BudgetError(CostError):
    """A malformed budget: says which file, line and key, and what is accepted there."""


def read_budget(budget: str | PathLike[str] | Mapping[str, Any]) -> Budget:
    """The budget of a file or a mapping.

    ::

        strict = true                  # unknown operators break the budget
        baseline = "report.json"       # a saved report, beside this file; in a mapping it may be a Report
        max_increase = "1%"            # of every total, against the baseline

        [total]
        flops = "4.2G"                 # also macs, mread, mwrite, mrw, n_params
        n_params = 25_600_000

        [module."layer?"]              # holds for each module that matches, with everything inside it
        mread = "100 MiB"
        max_increase = { macs = 0 }    # one limit by cost

        [operator.conv]
        macs = "4G"

    Raises:
        TypeError: for what is neither.
        BudgetError: where it is malformed; names file, line and key.
        OSError: where it cannot be read.
    """
    if isinstance(budget, Mapping):
        return _Reader("budget", "", Path()).budget(budget)
    if not isinstance(budget, (str, PathLike)):
        raise TypeError(f"a budget is the path of a TOML file or a mapping, got {budget!r}")
    path = Path(budget)
    try:
        text = path.read_text(encoding="utf-8")
        content = tomllib.loads(text)
    except OSError as error:
        raise type(error)(f"{path} cannot be read: {why(error)}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BudgetError(f"{path} is no TOML: {error}") from error
    return _Reader(str(path), text, path.parent).budget(content)


class _Reader:
    """Reads one budget and knows where in the file it stands."""

    def __init__(self, source: str, text: str, folder: Path) -> None:
        self._source = source
        self._text = text
        self._folder = folder

    def budget(self, content: Mapping[str, Any]) -> Budget:
        for key in content:
            if key not in TOP:
                raise self._error((key,), f"is not known; known are {', '.join(TOP)}")
        strict = content.get("strict", False)
        if not isinstance(strict, bool):
            raise self._error(("strict",), f"must be true or false, got {strict!r}")
        limits = (*self._limits(content),)
        baseline = self._baseline(content.get("baseline"))
        if baseline is None and any(limit.increase is not None for limit in limits):
            raise BudgetError(f"{self._source}: max_increase needs a baseline, the path of a saved report")
        if not limits and not strict:
            raise BudgetError(f"{self._source}: sets no limit; known are {', '.join(TOP)}")
        return Budget(limits, baseline, strict, self._source)

    def _limits(self, content: Mapping[str, Any]) -> Iterator[Limit]:
        if "max_increase" in content:
            yield from self._increases("total", "", content["max_increase"], ("max_increase",))
        for scope in SCOPES:
            section = content.get(scope, {})
            self._table(section, (scope,))
            if scope == "total":
                yield from self._section(scope, "", section, (scope,))
                continue
            for pattern, limits in section.items():
                self._table(limits, (scope, pattern))
                yield from self._section(scope, pattern, limits, (scope, pattern))

    def _section(self, scope: str, pattern: str, limits: Mapping[str, Any], place: tuple[str, ...]) -> Iterator[Limit]:
        for key, value in limits.items():
            if key == "max_increase":
                yield from self._increases(scope, pattern, value, (*place, key))
            elif key in METRICS:
                yield Limit(scope, pattern, key, most=self._amount(value, key, (*place, key)))
            else:
                raise self._error((*place, key), f"is not known; known are {', '.join(LIMITS)}")

    def _increases(self, scope: str, pattern: str, value: Any, place: tuple[str, ...]) -> Iterator[Limit]:
        given = value if isinstance(value, Mapping) else dict.fromkeys(METRICS, value)
        for metric, increase in given.items():
            if metric not in METRICS:
                raise self._error((*place, metric), f"is not known; known are {', '.join(METRICS)}")
            share = parse_percent(increase)
            if share is None and not isinstance(value, Mapping) and increase != 0:
                raise self._error(place, f'must be a percentage like "1%", 0, or a table by cost, got {value!r}')
            raised = share if share is not None else self._amount(increase, metric, (*place, metric))
            yield Limit(scope, pattern, metric, increase=raised)

    def _amount(self, value: Any, metric: str, place: tuple[str, ...]) -> int:
        try:
            return parse_amount(value, metric)
        except (TypeError, ValueError) as error:
            raise self._error(place, str(error).removeprefix(f"{metric} ")) from error

    def _table(self, value: Any, place: tuple[str, ...]) -> None:
        if not isinstance(value, Mapping):
            example = "[total]" if place == ("total",) else f'[{place[0]}."pattern"]'
            raise self._error(place, f"must be a table of limits, as in {example}, got {value!r}")

    def _baseline(self, value: Any) -> Report | None:
        if value is None or isinstance(value, Report):
            return value
        if not isinstance(value, (str, PathLike)):
            raise self._error(("baseline",), f"must be the path of a saved report, got {value!r}")
        try:
            return Report.from_json(self._folder / value)
        except CostError as error:
            raise self._error(("baseline",), str(error)) from error

    def _error(self, place: tuple[str, ...], problem: str) -> BudgetError:
        line = _line_of(self._text, place)
        where = f"{self._source}, line {line}" if line else self._source
        return BudgetError(f"{where}: {'.'.join(place)} {problem}")


def _line_of(text: str, place: tuple[str, ...]) -> int | None:
    """The number of the line that sets the key at ``place``, or of the nearest header around it."""
    section: tuple[str, ...] = ()
    best: tuple[int, int | None] = (0, None)
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            content = tomllib.loads(line)
        except tomllib.TOMLDecodeError:
            continue  # a piece of a value that takes several lines
        path = _path(content)
        if line.lstrip().startswith("["):
            section = path = path
        else:
            path = (*section, *path)
        depth = len(path) if path and path == place[: len(path)] else 0
        if depth > best[0]:
            best = depth, number
    return best[1]


def _path(content: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys that a line of TOML goes through."""
    path: tuple[str, ...] = ()
    while isinstance(content, Mapping) and content:
        name = next(iter(content))
        path, content = (*path, name), content[name]
    return path
