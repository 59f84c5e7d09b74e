"""The overview of a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from costcore.ledger.caveats import mode_of
from costcore.numbers.dims import is_symbolic
from costcore.numbers.symbolic import magnitude
from costcore.tables.arrange import arrange
from costcore.tables.cells import TableRow
from costcore.tables.columns import SUMMARY, choose
from costcore.tables.overview.overview import Figure, Overview, Part
from costcore.tables.tabulate import tabulate
from costcore.text.amounts import exact, readable
from costcore.text.table import Column
from costcore.trace.run import FLOPS

if TYPE_CHECKING:
    from costcore.reports.data.report_data import ReportData

MOST_TYPES = 5
"""The number of types in the table; a row sums the others."""

COLUMNS = ("type", "n_layers", "flops", "flops%", "macs", "mrw")
"""The columns of the table of types."""


def overview_of(report: ReportData, types: Sequence[TableRow]) -> Overview:
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
    return Overview(heading, [*_figures(report)], [_types(report, types)], report.remarks, tree, report.trace.run.unit)


def _figures(report: ReportData) -> Iterator[Figure]:
    total, run = report.ledger.total, report.trace.run
    once = "one FLOP" if run.fma_1flop else "two FLOPs"
    own = run.unit == FLOPS
    yield _amount(run.unit, total["flops"], "flops", f"a fused multiply-add is {once}" if own else "")
    yield _amount("MACs", total["macs"], "flops")
    yield _amount("Parameters", total["n_params"], "flops")
    yield _amount("Bytes read and written", total["mrw"], "bytes")
    if report.memory is not None:
        yield _amount("Peak of memory", report.memory.peak, "bytes", report.memory.where)
    if "seconds" in total:
        yield Figure("Measured time", f"{1000 * total['seconds']:.3f} ms")


def _amount(title: str, value: object, kind: str, note: str = "") -> Figure:
    """Return a figure with its exact value, if that is not what is shown."""
    if is_symbolic(value):
        return Figure(title, exact(value), "")
    shown, digits = readable(value, kind), exact(value)
    notes = [digits] if shown.removesuffix(" B") != digits else []
    return Figure(title, shown, "; ".join([*notes, *filter(None, [note])]))


def _types(report: ReportData, types: Sequence[TableRow]) -> Part:
    """Return the types with the most FLOPs, or with the most bytes if there are no FLOPs."""
    by = "flops" if any(magnitude(row.entry["flops"]) for row in types) else "mrw"
    entries = arrange(types, SUMMARY[by], MOST_TYPES, report.ledger)
    unit = report.trace.run.unit
    columns = [_renamed(column, unit) for column in choose(SUMMARY, COLUMNS)]
    table = tabulate(columns, entries, "auto", 1, fixed=True)
    what = unit if by == "flops" else "bytes"
    title = f"The {MOST_TYPES} types with the most {what}" if len(types) > MOST_TYPES else f"By type, most {what} first"
    return Part(title, table)


def _renamed(column: Column, unit: str) -> Column:
    if column.key == "flops%":
        return column._replace(title="Share")
    titles = {"type": "Type", "n_layers": "Calls", "flops": unit, "mrw": "Read + write"}
    return column._replace(title=titles.get(column.key, column.title))


def _calls(n: int) -> str:
    return f"{n:,} call{'s' * (n != 1)}"
