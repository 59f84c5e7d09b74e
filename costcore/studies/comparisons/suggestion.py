"""The options of ``costcore diff`` with which two reports of one network would be equal."""

from __future__ import annotations

from collections.abc import Callable

from costcore.counting.layout import with_free_layout
from costcore.reports.data.report_data import ReportData
from costcore.studies.comparisons.differences import Delta

METRICS = ("macs", "flops", "mread", "mwrite")
"""The totals that must be equal. Parameters are not among them: an exporter may fold them or store them twice."""

Reports = tuple[ReportData, ReportData]


def suggestion(reports: Reports, regrouped: Callable[[], Reports] | None) -> str:
    """Return which of ``--layout free`` and ``--regroup`` make the totals of two reports equal; ``""`` if none does.

    Args:
        reports: the old and the new report.
        regrouped: returns both with the operators regrouped that an exporter decomposed; None if that is not possible.
            It is called once, if it is needed.
    """
    if are_equal(reports):
        return ""
    has_layout = any(report.trace.run.layout != "free" for report in reports)
    if has_layout and are_equal(_free(reports)):
        return _sentence("--layout free")
    if regrouped is None:
        return ""
    others = regrouped()
    if are_equal(others):
        return _sentence("--regroup")
    return _sentence("--regroup --layout free") if has_layout and are_equal(_free(others)) else ""


def are_equal(reports: Reports) -> bool:
    """Return whether MACs, FLOPs and bytes of two reports are equal."""
    old, new = (report.total_report for report in reports)
    return all(Delta(old[key], new[key]).equal for key in METRICS)


def _sentence(options: str) -> str:
    return f"counted with {options}, MACs, FLOPs and bytes are equal"


def _free(reports: Reports) -> Reports:
    """Return the reports without the cost of data movement, as ``layout="free"`` counts them."""
    old, new = reports
    return ReportData(with_free_layout(old.trace)), ReportData(with_free_layout(new.trace))
