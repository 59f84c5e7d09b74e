"""The figures of a report, and its table of types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from costcore.ledger.caveats import mode_of
from costcore.numbers.dims import is_symbolic
from costcore.numbers.symbolic import magnitude
from costcore.tables.answer import Answer, Figure
from costcore.tables.arrange import arrange
from costcore.tables.cells import TableRow
from costcore.tables.columns import SUMMARY, choose
from costcore.tables.table import Table
from costcore.text.table import Column
from costcore.text.values import Shown
from costcore.trace.run import FLOPS

if TYPE_CHECKING:
    from costcore.reports.data.report_data import ReportData

MOST_TYPES = 5
"""The number of types in the table; a row sums the others."""

COLUMNS = ("type", "n_layers", "flops", "flops%", "macs", "mrw")
"""The columns of the table of types."""


def answer_of(report: ReportData, types: Sequence[TableRow]) -> Answer:
    """Return the totals of a report, the types with the most FLOPs, the remarks and the modules.

    Args:
        report: the report.
        types: a row for each type.
    """
    total = report.ledger.total
    tree = report.tree()
    mode = mode_of(report.trace)
    parts = tree["type"], _calls(total["n_layers"]), f"{mode} mode" if mode else "", report.status
    heading = ", ".join(filter(None, parts))
    return Answer(heading, [*_figures(report)], [_types(report, types)], report.remarks, tree, report.trace.run.unit)


def _figures(report: ReportData) -> Iterator[Figure]:
    total, run = report.ledger.total, report.trace.run
    once = "one FLOP" if run.fma_1flop else "two FLOPs"
    is_own = run.unit == FLOPS and not is_symbolic(total["flops"])
    yield Figure("flops", run.unit, total["flops"], "flops", f"a fused multiply-add is {once}" if is_own else "")
    yield Figure("macs", "MACs", total["macs"], "flops")
    yield Figure("n_params", "Parameters", total["n_params"], "flops")
    yield Figure("mrw", "Bytes read and written", total["mrw"], "bytes")
    if report.memory is not None:
        yield Figure("peak_memory", "Peak of memory", report.memory.peak, "bytes", report.memory.where)
    if "seconds" in total:
        shown = Shown(total["seconds"], f"{1000 * total['seconds']:.3f} ms")
        yield Figure("seconds", "Measured time", shown, "duration", "", "measured")


def _types(report: ReportData, types: Sequence[TableRow]) -> Table:
    """Return the types with the most FLOPs, or with the most bytes if there are no FLOPs."""
    by = "flops" if any(magnitude(row.entry["flops"]) for row in types) else "mrw"
    unit, order = report.trace.run.unit, SUMMARY[by]
    columns = [_renamed(column, unit) for column in choose(SUMMARY, COLUMNS)]
    what = unit if by == "flops" else "bytes"
    rows = arrange(types, order, None, report.ledger)
    table = Table(f"By type, most {what} first", columns, rows)
    n_costly = sum(any(magnitude(row.entry[key]) for key in ("flops", "mrw")) for row in types)
    n = min(MOST_TYPES, n_costly or MOST_TYPES)  # those without cost are among the others
    if len(types) <= n:
        return table
    title = f"The {n} types with the most {what}" if n > 1 else f"The type with the most {what}"
    return table.part(arrange(types, order, n, report.ledger), title)


def _renamed(column: Column, unit: str) -> Column:
    titles = {"n_layers": "# Calls", "flops": unit, "flops%": unit}
    return column._replace(title=titles.get(column.key, column.title))


def _calls(n: int) -> str:
    return f"{n:,} call{'s' * (n != 1)}"
