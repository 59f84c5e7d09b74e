"""Weights that one of two reports reads as one tied tensor and the other stores several times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from costcore.numbers.dims import Dim
from costcore.reports.data.report_data import ReportData
from costcore.text.amounts import exact


def stored_again(old: ReportData, new: ReportData, names: tuple[str, str]) -> Iterator[str]:
    """Yield a remark for each report that stores tied weights of the other several times.

    A weight is tied if several modules or operators read it, as an embedding and the head of a language model do. An
    exporter that transposes it for one of them stores it twice.

    Args:
        old: a report.
        new: a report.
        names: their names.
    """
    sizes = [Counter(report.trace.run.parameters.values()) for report in (old, new)]
    tied = [_tied(report) for report in (old, new)]
    for one, other in ((0, 1), (1, 0)):
        counts = {
            size: min(readers - tied[other][size], sizes[other][size] - sizes[one][size])
            for size, readers in tied[one].items()
        }
        again = sum(size * count for size, count in counts.items() if count > 0)
        if again:
            yield f"{names[other]} stores tied weights again: {exact(again)} parameters that {names[one]} counts once"


def _tied(report: ReportData) -> Counter[Dim]:
    """Return, by size, how many more readers than one the weights have."""
    readers: dict[int, set[tuple[str, str]]] = {}
    for call in report.trace.calls:
        for parameter in call.parameters:
            readers.setdefault(parameter, set()).add((call.module, call.layer.op))
    sizes = report.trace.run.parameters
    found: Counter[Dim] = Counter()
    for parameter, places in readers.items():
        if len(places) > 1 and parameter in sizes:
            found[sizes[parameter]] += len(places) - 1
    return found
