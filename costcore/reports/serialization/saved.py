"""A saved report as the commands take it: read, and counted and filled in as their options say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from costcore.counting.substitution import symbols_in
from costcore.errors import CostError
from costcore.reports.report import Report


def saved_report(path: str, fma_1flop: bool, dims: Mapping[str, int] | None = None, is_alone: bool = False) -> Report:
    """The report saved in a file.

    Args:
        path: a ``.json`` file.
        fma_1flop: False counts a fused multiply-add as two FLOPs, whatever the report says; True leaves it as it is.
        dims: values for its symbolic dimensions.
        is_alone: whether a report without symbols is to refuse ``dims``: beside other models, these are for them.

    Raises:
        CostError, OSError: for a file that cannot be read or is no report, and for a name in ``dims`` that is none of
            its dimensions; says which file.
    """
    report = Report.from_json(Path(path))
    if not fma_1flop:
        trace = report.trace
        report = Report(replace(trace, run=replace(trace.run, fma_1flop=False)))
    if not dims or not (is_alone or symbols_in(report.trace)):
        return report
    try:
        return report.subs(**dims)
    except CostError as error:
        raise CostError(f"{path}: {error}") from error
