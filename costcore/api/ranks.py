"""The costs of several processes of a parallel run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

from costcore.api.estimate import estimate
from costcore.api.target import model_and_inputs
from costcore.reports.report import Report
from costcore.tables.answer import Answer
from costcore.tables.quantities import column_of
from costcore.tables.result import Result
from costcore.tables.table import Table
from costcore.text.table import Column

COLUMNS = (
    Column("rank", "Rank", "count"),
    Column("n_held", "Parameters held", "count"),
    *(column_of(name) for name in ("n_layers", "flops", "macs", "mrw", "mcomm")),
    Column("peak", "Peak of memory", "bytes"),
)
"""The columns of the table of ranks; that of memory is shown if it was recorded."""


class RankReports(Result, dict[int, Report]):
    """The reports of several processes by rank, as :func:`costcore.estimate_ranks` returns them."""

    def __repr__(self) -> str:
        return f"<RankReports of {self._mesh}: {len(self)} rank{'s' * (len(self) != 1)}>"

    @property
    def _mesh(self) -> str:
        ranks = (report.trace.run.rank for report in self.values())
        return next((f"the mesh {each.mesh_text}" for each in ranks if each is not None), "no mesh")

    def _answer(self) -> Answer:
        rows = [_row(rank, report) for rank, report in self.items()]
        columns = [each for each in COLUMNS if any(each.key in row for row in rows)]
        table = Table("By rank", columns, rows, n_digits=2)
        own = {f"costs are those of {report.trace.run.rank}" for report in self.values()}
        remarks = dict.fromkeys(line for report in self.values() for line in report.remarks if line not in own)
        return Answer(f"{len(self)} rank{'s' * (len(self) != 1)} of {self._mesh}", (), [table], [*remarks])


def _row(rank: int, report: Report) -> dict[str, Any]:
    total, held = report.total_report, report.trace.run.rank
    row = {**total, "rank": rank, "mrw": total["mread"] + total["mwrite"], "n_held": held and held.n_params}
    return row if report.memory is None else {**row, "peak": report.memory.peak}


def estimate_ranks(
    model: Any,
    inputs: Any = None,
    *,
    mesh: Mapping[str, int],
    plan: Any,
    ranks: Iterable[int] | None = None,
    **options: Any,
) -> RankReports:
    """Return a report for each of several processes of a parallel run, by rank.

    ::

        reports = estimate_ranks(net, (8, 512), mesh={"tp": 8}, plan=plan)
        macs = sum(report.total_report["macs"] for report in reports.values())

    Args:
        model: the model.
        inputs: the inputs of one process; all have inputs of these shapes.
        mesh: number of processes along each dimension, by name.
        plan: distributes the model, see :func:`estimate`.
        ranks: the processes to count, ``(0, -1)`` for the first and the last; default: all, one after the other.
        options: further options of :func:`estimate`.

    Raises:
        CostError, TypeError, ValueError: as :func:`estimate`; also if ``ranks`` is not a list of ranks of the mesh.
    """
    model, inputs = model_and_inputs(model, inputs, is_step=bool(options.get("backward") or options.get("optimizer")))
    options = {**options, "mesh": mesh, "plan": plan}
    if ranks is None:
        if not isinstance(mesh, Mapping) or not all(isinstance(size, int) for size in mesh.values()):
            ranks = (0,)  # estimate raises the error
        else:
            ranks = range(prod(mesh.values()))
    elif isinstance(ranks, str) or not isinstance(ranks, Iterable):
        raise TypeError(f"ranks must be a list of ranks such as (0, -1) (got {ranks!r})")
    reports = (estimate(model, inputs, rank=rank, **options) for rank in ranks)
    return RankReports((report.trace.run.rank.rank, report) for report in reports if report.trace.run.rank is not None)
