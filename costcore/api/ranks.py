"""The costs of several processes of a parallel run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

from costcore.api.estimate import estimate
from costcore.reports.report import Report


def estimate_ranks(
    model: Any,
    inputs: Any = None,
    *,
    mesh: Mapping[str, int],
    plan: Any,
    ranks: Iterable[int] | None = None,
    **options: Any,
) -> dict[int, Report]:
    """Return a report for each of several processes of a parallel run, by rank; see :func:`estimate`.

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
    options = {**options, "mesh": mesh, "plan": plan}
    if ranks is None:
        if not isinstance(mesh, Mapping) or not all(isinstance(size, int) for size in mesh.values()):
            ranks = (0,)  # estimate raises the error
        else:
            ranks = range(prod(mesh.values()))
    elif isinstance(ranks, str) or not isinstance(ranks, Iterable):
        raise TypeError(f"ranks must be a list of ranks such as (0, -1) (got {ranks!r})")
    reports = (estimate(model, inputs, rank=rank, **options) for rank in ranks)
    return {report.trace.run.rank.rank: report for report in reports if report.trace.run.rank is not None}
