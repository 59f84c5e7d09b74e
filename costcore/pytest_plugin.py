"""The pytest plug-in: fixtures ``cost_budget`` for models and ``cost_conformance`` for frontends."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from costcore.reports.report import Report
    from costcore.studies.budgets import BudgetLike, Violation
    from costcore.studies.conformance import Builder

LIMITS = ("flops", "macs", "mread", "mwrite", "mrw", "n_params", "mcomm", "arena", "peak_memory")
SECTIONS = ("strict", "baseline", "max_increase", "total", "module", "operator")


class CostBudget:
    """The value of the fixture ``cost_budget``; see :meth:`__call__`."""

    def __call__(self, model: Any, inputs: Any = None, budget: BudgetLike | None = None, **arguments: Any) -> Report:
        """Fail the test if ``model`` exceeds its budget; otherwise return its report.

        ``cost_budget(model, (1, 3, 224, 224), flops="4.2G", n_params=25_600_000)`` or
        ``cost_budget(report, "budget.toml")``.

        Args:
            model: a model, as for :func:`costcore.estimate`, or a report.
            inputs: the inputs of the model. If ``model`` is a report, its budget may be passed here.
            budget: the path of a TOML file, a mapping with the same content, or a
                :class:`costcore.studies.budgets.Budget`.
            arguments: limits on totals (``flops``, ``macs``, ``mread``, ``mwrite``, ``mrw``, ``n_params``, ``arena``,
                ``peak_memory``, for which memory is recorded), the other entries of a budget
                (``module={"layer?": {"macs": "1G"}}``, ``operator``, ``baseline``, ``max_increase``, ``strict``), and
                arguments of :func:`costcore.estimate`.

        Raises:
            TypeError, ValueError: if an argument is invalid.
        """
        __tracebackhide__ = True
        from costcore.errors import CostError

        try:
            report, violations = self._checked(model, inputs, budget, arguments)
        except CostError as error:
            raise error.with_traceback(None) from None  # the test and the message, not the code of costcore
        if violations:
            pytest.fail("over budget: " + "\n".join(map(str, violations)), pytrace=False)
        return report

    def _checked(
        self, model: Any, inputs: Any, budget: BudgetLike | None, arguments: dict[str, Any]
    ) -> tuple[Report, list[Violation]]:
        __tracebackhide__ = True
        from costcore.api.estimate import estimate
        from costcore.api.hook import warn_about
        from costcore.errors import UnknownOptionError
        from costcore.reports.report import Report
        from costcore.studies.budgets import Budget, check, read_budget

        limits = {key: arguments.pop(key) for key in LIMITS if key in arguments}
        sections = {key: arguments.pop(key) for key in SECTIONS if key in arguments}
        if limits:
            sections["total"] = {**sections.get("total", {}), **limits}
        if isinstance(model, Report) and budget is None:
            budget, inputs = inputs, None
        given = [part for part in (budget, sections or None) if part is not None]
        budgets = [part if isinstance(part, Budget) else read_budget(part) for part in given]
        if isinstance(model, Report):
            if inputs is not None or arguments:
                names, limits_hint = (", ".join(arguments), _limits(arguments)) if arguments else ("inputs", "")
                raise TypeError(
                    f"for a report, cost_budget accepts a budget and limits only (got {names}){limits_hint}"
                )
            report = model
            warn_about(report)
        else:
            arguments = {**{option: value for part in budgets for option, value in part.needs.items()}, **arguments}
            try:
                report = estimate(model, inputs, **arguments)
            except UnknownOptionError as error:
                raise TypeError(f"{error}{_limits(error.options)}") from None
        if not budgets:
            raise TypeError(
                f"cost_budget needs a budget: the path of a TOML file, or limits by name ({', '.join(LIMITS)})"
            )
        return report, [violation for part in budgets for violation in check(report, part)]


def _limits(unknown: Iterable[str]) -> str:
    from costcore.errors import did_you_mean

    return f". Limits are {', '.join(LIMITS)}{did_you_mean(map(str.lower, unknown), (*LIMITS, *SECTIONS))}"


@pytest.fixture(scope="session")
def cost_budget() -> CostBudget:
    """Checks a model against a budget: ``cost_budget(model, inputs, flops="4.2G")``."""
    return CostBudget()


@pytest.fixture(scope="session")
def cost_conformance() -> Callable[[str, Builder], None]:
    """Compares a row of the conformance table: ``cost_conformance("relu", lambda: estimate(relu, (2, 3, 4, 4)))``."""
    from costcore.studies.conformance import EQUAL, outcome

    def compare(name: str, build: Builder) -> None:
        found = outcome(name, build)
        if found.state != EQUAL:
            pytest.fail(f"{name}: {found.text}", pytrace=False)

    return compare
