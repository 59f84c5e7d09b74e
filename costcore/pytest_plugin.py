"""The pytest plug-in: a fixture that holds a model to its budget."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from costcore.budgets.check import BudgetLike
    from costcore.reports.report import Report

LIMITS = ("flops", "macs", "mread", "mwrite", "mrw", "n_params")
SECTIONS = ("strict", "baseline", "max_increase", "total", "module", "operator")


class CostBudget:
    """What the fixture ``cost_budget`` gives a test; see :meth:`__call__`."""

    def __call__(self, model: Any, inputs: Any = None, budget: BudgetLike | None = None, **given: Any) -> Report:
        """Fail the test where ``model`` costs more than its budget; returns its report.

        ``cost_budget(model, (1, 3, 224, 224), flops="4.2G", n_params=25_600_000)`` or
        ``cost_budget(report, "budget.toml")``.

        Args:
            model: a model, as for :func:`costcore.estimate`, or a report that was made already.
            inputs: what the model is run on; for a report, its budget may stand here.
            budget: the path of a TOML file, a mapping that says the same, or a :class:`costcore.budgets.budget.Budget`.
            given: limits on totals (``flops``, ``macs``, ``mread``, ``mwrite``, ``mrw``, ``n_params``), the other
                entries of a budget (``module={"layer?": {"macs": "1G"}}``, ``operator``, ``baseline``,
                ``max_increase``, ``strict``), and arguments of :func:`costcore.estimate`.

        Raises:
            TypeError, ValueError: for arguments that are not accepted; says what is.
        """
        __tracebackhide__ = True
        from costcore.api.build_report import warn
        from costcore.api.estimate import estimate
        from costcore.budgets.check import check
        from costcore.reports.report import Report

        limits = {key: given.pop(key) for key in LIMITS if key in given}
        said = {key: given.pop(key) for key in SECTIONS if key in given}
        if limits:
            said["total"] = {**said.get("total", {}), **limits}
        if isinstance(model, Report):
            if budget is None:
                budget, inputs = inputs, None
            if inputs is not None or given:
                told = f"{', '.join(given)}{_limits(given)}" if given else "inputs"
                raise TypeError(f"a report is made already: it takes a budget, not {told}")
            report = model
            warn(report)
        else:
            try:
                report = estimate(model, inputs, **given)
            except TypeError as error:
                own = estimate.__kwdefaults__ or {}
                if unknown := [name for name in given if name not in own and name in str(error)]:
                    raise TypeError(f"{error}{_limits(unknown)}") from error
                raise
        budgets = [part for part in (budget, said or None) if part is not None]
        if not budgets:
            raise TypeError(f"no budget: give the path of a TOML file, or limits by name, {', '.join(LIMITS)}")
        if breaches := [breach for part in budgets for breach in check(report, part)]:
            pytest.fail("over budget\n" + "\n".join(map(str, breaches)), pytrace=False)
        return report


def _limits(unknown: Iterable[str]) -> str:
    """The limits that there are, and those that words nobody knows may have been meant for."""
    from difflib import get_close_matches

    near = [match for name in unknown for match in get_close_matches(name.lower(), (*LIMITS, *SECTIONS), 1)]
    return f"; limits are {', '.join(LIMITS)}" + (f": did you mean {' and '.join(near)}?" if near else "")


@pytest.fixture(scope="session")
def cost_budget() -> CostBudget:
    """Holds a model to its budget: ``cost_budget(model, inputs, flops="4.2G")``, ``cost_budget(report, "b.toml")``."""
    return CostBudget()
