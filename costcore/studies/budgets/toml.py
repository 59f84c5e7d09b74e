"""Read a budget from a TOML file, or from a mapping with the same content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from costcore.errors import CostError
from costcore.messages import unknown
from costcore.plugins import with_left_out
from costcore.renamed import say_once
from costcore.reports.report import Report
from costcore.studies.budgets.budget import SCOPES, Budget, Limit, TimeLimit, is_time_kind
from costcore.tables.costs import AMOUNTS
from costcore.tables.quantities import is_quantity, numbers, quantity
from costcore.tables.quantity import Quantity
from costcore.text.amounts import parse_amount, parse_percent
from costcore.text.durations import parse_duration
from costcore.toml_files import TOMLDecodeError, loads, read_toml
from costcore.trace.run import LEVELS

TOP_LEVEL_KEYS = ("strict", "convention", "baseline", "max_increase", "fusion", *SCOPES, "time")

OTHER_NAMES = {"sram": "arena", "flash": "weights"}
"""What microcontrollers call the memory of two quantities."""

TIME_KEYS = ("bound_seconds", "dtype", "fusion", "cores", "tf32")
"""The keys of a limit on time; all but the first are arguments of :meth:`costcore.Report.time`."""


class BudgetError(CostError):
    """An invalid budget; the message includes the file, line and key."""


def read_budget(budget: str | PathLike[str] | Mapping[str, Any], *, reads_baseline: bool = True) -> Budget:
    """Return the budget in a file or a mapping.

    ::

        strict = true                  # a partial or assumed report is a violation
        convention = "fvcore"          # flops are counted as fvcore counts them; default: as costcore does
        fusion = "pointwise"           # bytes are those after fusion; default: those of every call by itself
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
        reads_baseline: whether the report that the budget names as its baseline is read. Without it, only its path is
            known, and it need not exist.

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
    """Reads one budget, and finds the lines of its keys for messages.

    Args:
        source: the path of the file, or another name of the budget.
        text: the text of the file; empty for a mapping.
        folder: the folder to which the path of the baseline is relative.
        reads_baseline: as in :func:`read_budget`.
    """

    def __init__(self, source: str, text: str, folder: Path, reads_baseline: bool) -> None:
        self._source = source
        self._text = text
        self._folder = folder
        self._reads_baseline = reads_baseline

    def budget(self, content: Mapping[str, Any]) -> Budget:
        """Return the budget with this content."""
        if "fused" in content:
            say_once(self._source, "fused is now fusion")
            content = {"fusion" if key == "fused" else key: value for key, value in content.items()}
        for key in content:
            if key not in TOP_LEVEL_KEYS:
                raise self._error((key,), unknown("key", key, TOP_LEVEL_KEYS))
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
                from costcore.analyses.conventions.catalog import named

                named(convention)
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
                from costcore.analyses.devices.catalog import named

                named(path)
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
                yield Limit(scope, pattern, limited.name, most=self._amount(value, limited, (*key_path, key)))

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
        """Return the quantity that a key limits; files that it names are relative to the budget."""
        name = OTHER_NAMES.get(name, name)
        stem, at, parameter = name.partition("@")
        if ".toml" in parameter:
            name = f"{stem}{at}{self._folder / parameter}"
        if not is_quantity(name):
            raise self._error(key_path, with_left_out(unknown("key", name, (*numbers(), "max_increase"))))
        try:
            found = quantity(name)
        except (ValueError, OSError) as error:
            raise self._error(key_path, str(error)) from error
        if not found.is_number:
            raise self._error(key_path, f"{name} is text, which has no limit")
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
        """Return the report from which increases are measured, and its file."""
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
        """Return the error for the key at ``key_path``; ``problem`` names the last key of the path."""
        line = _line_of(self._text, key_path)
        location = [f"{self._source}, line {line}" if line else self._source, ".".join(key_path[:-1])]
        return BudgetError(": ".join([*filter(None, location), problem]))


def _line_of(text: str, key_path: tuple[str, ...]) -> int | None:
    """Return the number of the line with the key at ``key_path``, or of the nearest header above it."""
    section: tuple[str, ...] = ()
    best: tuple[int, int | None] = (0, None)
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            content = loads(line)
        except TOMLDecodeError:
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
    """Return the path of keys in a line of TOML."""
    path: tuple[str, ...] = ()
    while isinstance(content, Mapping) and content:
        name = next(iter(content))
        path, content = (*path, name), content[name]
    return path
