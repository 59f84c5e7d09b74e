"""The violations of a budget, which print and are written as every result is."""

from __future__ import annotations

from costcore.studies.budgets.budget import Violation
from costcore.tables.answer import Answer
from costcore.tables.result import Result
from costcore.tables.table import Table
from costcore.text.table import Column

AMOUNTS = ("is", "limit", "over by")
COLUMNS = [Column(key, key, "count" if key in AMOUNTS else "text") for key in ("where", "what", *AMOUNTS, "limit from")]


class Violations(Result, list[Violation]):
    """The violations of a budget in the order of its limits, as :func:`costcore.check` returns them; none if empty."""

    def __repr__(self) -> str:
        return f"<Violations: {[*map(str, self)]}>"

    def _text(
        self, mode: str = "table", unit: str | None = "auto", n_digits: int | None = None, *, is_whole: bool = True
    ) -> str:
        return "\n".join(map(str, self)) or "within the budget"

    def _answer(self) -> Answer:
        table = self.table()
        return Answer(table.title if self else "Within the budget", (), [table] if self else ())

    def table(self) -> Table:
        """Return a table with a row for each violation: amounts in words, times with their unit."""
        return Table("Over the budget", COLUMNS, [_row(each) for each in self])


def _row(violation: Violation) -> dict[str, str]:
    return {
        "where": violation.where,
        "what": violation.name,
        "limit from": violation.reason if violation.metric else "",
        **dict(zip(AMOUNTS, violation.amounts, strict=True)),
    }
