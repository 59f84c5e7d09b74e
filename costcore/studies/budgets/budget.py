"""The data of a budget: its limits, and the violations of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from costcore.reports.report import Report
from costcore.tables.quantities import needed_options, quantity
from costcore.tables.quantity import Quantity
from costcore.text.amounts import exact
from costcore.text.durations import duration

SCOPES = ("total", "module", "operator")
"""What limits apply to: the run, modules with all that is inside them, and operators."""

FUSED = ("mread", "mwrite", "mrw")
"""The metrics that are those after fusion if a budget says so."""

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
    """

    scope: str
    pattern: str
    metric: str
    most: int | float | None = None
    increase: Fraction | int | float | None = None

    def __str__(self) -> str:
        return self.scope if self.scope == "total" else f"{self.scope} {self.pattern!r}"


class TimeLimit(NamedTuple):
    """A limit on the least time of a run on a device.

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
        strict: whether a report whose status is ``partial`` or ``assumed`` is a violation.
        convention: the convention by which FLOPs are counted; empty for that of costcore.
        fusion: the level of fusion after which bytes are counted; empty for those of every call by itself.
        times: limits on the least time of a run, by device.
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
        """The options of :func:`costcore.estimate` without which a run does not have what is limited."""
        return needed_options(self.quantity_of(limit.metric).name for limit in self.limits)

    def quantity_of(self, metric: str) -> Quantity:
        """Return what a limit on a metric limits: by the convention of this budget, and after its fusion."""
        if metric == "flops" and self.convention:
            return quantity(f"flops@{self.convention}")
        if metric in FUSED and self.fusion:
            return quantity(f"fused_{metric}@{self.fusion}")
        return quantity(metric)

    def reason_of(self, metric: str) -> str:
        """Return how a metric is counted, if this budget says so."""
        if metric == "flops" and self.convention:
            from costcore.analyses.conventions.catalog import named

            return f"as {named(self.convention).name} counts"
        return f"after fusion ({self.fusion})" if metric in FUSED and self.fusion else ""

    def as_strict(self) -> Budget:
        """Return this budget with ``strict=True``."""
        return replace(self, strict=True)


class Violation(NamedTuple):
    """A limit that is exceeded; its text is one line.

    Attributes:
        where: ``total``, ``module layer1.conv``, ``operator conv`` or ``time on l4``.
        metric: the limited metric; ``bound_seconds`` for the least time of a run; empty if the report is partial, a
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
        """What is limited, in words; the reason if no metric is."""
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
        reason = f" ({self.reason})" if self.reason else ""
        return f"{self.where}: {value} {self.name}, limit {limit}{reason}, {excess} over{share}"


TIME_NAME = "at least"
"""What a limit on time limits: the run takes this long at least."""


def is_time_kind(kind: str) -> bool:
    """Return whether values of this kind are seconds."""
    return kind in ("duration", "seconds")


def _nanoseconds(value: int | float) -> str:
    return duration(value / 1e9)
