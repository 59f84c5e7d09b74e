"""``data .json``: the complete report, which ``Report.from_json`` reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from costcore.analyses.registered import data
from costcore.reports.serialization.to_json import to_dict, to_json

if TYPE_CHECKING:
    from costcore.reports.data.report_data import ReportData
    from costcore.tables.quantity import Quantity


def complete(report: ReportData) -> dict[str, Any]:
    """Return the report in plain JSON types, with the parts of the analyses."""
    of_analyses = data(report)
    return to_dict(report.trace, report.ledger.total) | ({"analyses": of_analyses} if of_analyses else {})


def to_data(report: ReportData, columns: Sequence[str | Quantity] = (), indent: int | None = None) -> str:
    """Return the report as JSON text, ``indent`` spaces per level; it has no columns, as they follow from the rest."""
    return to_json(complete(report), None, indent)
