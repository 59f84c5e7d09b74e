"""Load a saved report and apply the options of a command to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from costcore.counting.substitution import symbols_in
from costcore.errors import CostError
from costcore.reports.report import Report


def saved_report(
    path: str, fma_1flop: bool, dims: Mapping[str, int | str] | None = None, is_alone: bool = False
) -> Report:
    """Return the report saved in a file.

    Args:
        path: a ``.json`` file.
        fma_1flop: False counts a fused multiply-add as two FLOPs; True keeps what the report counts.
        dims: values for the symbolic dimensions of the report.
        is_alone: whether ``dims`` must be for this report. If it is one of several models, ``dims`` can be for the
            others: a report without symbolic dimensions then ignores them.

    Raises:
        CostError: if the file cannot be read or is not a report, or if ``dims`` has a name that is not one of its
            dimensions; the message contains the path.
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
