"""``page .html``: the complete report as one page, for offline use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from costcore.reports.html import to_html

if TYPE_CHECKING:
    from costcore.reports.data.report_data import ReportData
    from costcore.tables.quantity import Quantity


def to_page(
    report: ReportData, columns: Sequence[str | Quantity] = (), title: str = "", time: str = "", made: str = ""
) -> str:
    """Return the page; arguments as for :func:`costcore.reports.html.to_html`."""
    return to_html(report, title, time, columns, made)
