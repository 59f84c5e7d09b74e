"""Limits on what a model may cost, and where a report breaks them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import NamedTuple

from costcore.reports.report import Report
from costcore.reports.text.amounts import METRICS, exact

SCOPES = ("total", "module", "operator")

MOST_NAMES = 8
"""Modules or operators that are named where a pattern matches none."""


class Limit(NamedTuple):
    """One limit.

    Attributes:
        scope: ``total``, ``module`` or ``operator``.
        pattern: of the module path or operator it holds for, as a shell has it (``layer?.*``); empty for the total.
        metric: a key of :data:`costcore.reports.text.amounts.METRICS`.
        most: the largest value allowed; None where the limit is an increase.
        increase: what a value may exceed the baseline by, a fraction of it (:class:`fractions.Fraction`) or an amount.
    """

    scope: str
    pattern: str
    metric: str
    most: int | None = None
    increase: Fraction | int | None = None

    def __str__(self) -> str:
        return self.scope if self.scope == "total" else f"{self.scope} {self.pattern!r}"


@dataclass(frozen=True)
class Budget:
    """Limits, and how they are meant.

    Attributes:
        limits: every limit.
        baseline: the report that increases are measured against.
        strict: whether a report with unknown operators breaks the budget.
        source: the file it was read from.
    """

    limits: tuple[Limit, ...]
    baseline: Report | None = None
    strict: bool = False
    source: str = field(default="budget", compare=False)

    def as_strict(self) -> Budget:
        """This budget, broken by unknown operators."""
        return replace(self, strict=True)


class Breach(NamedTuple):
    """A broken limit; its text is one line.

    Attributes:
        where: ``total``, ``module layer1.conv`` or ``operator conv``.
        metric: what was limited; empty where the report is partial or a pattern matches nothing.
        value: what it costs.
        limit: what it may.
        reason: what the limit comes from, or what is wrong.
    """

    where: str
    metric: str = ""
    value: int = 0
    limit: int = 0
    reason: str = ""

    @property
    def excess(self) -> int:
        """By how much."""
        return self.value - self.limit

    def __str__(self) -> str:
        if not self.metric:
            return f"{self.where}: {self.reason}"
        share = f", {100 * self.excess / self.limit:.2f} %" if self.limit else ""
        reason = f" ({self.reason})" if self.reason else ""
        return (
            f"{self.where}: {exact(self.value)} {METRICS[self.metric][0]}, limit {exact(self.limit)}{reason}, "
            f"{exact(self.excess)} over{share}"
        )
