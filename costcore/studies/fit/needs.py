"""What a captured run needs of each memory of a target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from costcore.analyses.memory.arena_report import Arena
from costcore.reports.report import Report
from costcore.studies.batch_size.limit import Limit
from costcore.studies.fit.target import Target


@dataclass(frozen=True)
class Needs:
    """What a run needs.

    Attributes:
        amounts: bytes by memory of the target.
        peak: the most bytes of values that are alive at once, in the order of the run.
        where: the call at which that is, with its module.
        by_kind: the bytes at the peak by what they are for, if the memory of the run was recorded.
    """

    amounts: Mapping[str, int]
    peak: int
    where: str
    by_kind: Mapping[str, int]

    def excess(self, target: Target) -> dict[str, int]:
        """Return by how many bytes each memory is exceeded, of those that are."""
        over = {name: self.amounts[name] - limit for name, limit in target.memories.items()}
        return {name: nbytes for name, nbytes in over.items() if nbytes > 0}


def needs_of(report: Report, target: Target, limit: Limit | None, arena: Arena | None) -> Needs:
    """Return what a run needs.

    Args:
        report: the report of the run.
        target: what it is to fit.
        limit: the terms beside tensors of a target with one memory; None for one that is divided.
        arena: the values of the run, placed; None for a run whose memory was recorded.

    Raises:
        ArenaError: if sizes are symbolic, or lifetimes of values are unknown.
    """
    if arena is None:
        memory = report.memory
        assert memory is not None and limit is not None
        peak = limit.peak_of(memory)
        return Needs({"memory": limit.needed(peak)}, memory.peak, memory.where, memory.by_kind)
    size = arena.size  # the first of the figures, because it says if sizes are not numbers
    weights, peak = int(arena.weights), int(arena.peak)
    amounts = {"sram": size, "flash": weights}
    if limit is not None:  # not a microcontroller, so that a runtime may allocate buffers as it runs
        amounts = {"memory": limit.needed(max(size, int(arena.peak_with_reuse)) + weights)}
    return Needs({name: amounts[name] for name in target.memories}, peak, _where(report, arena), {})


def _where(report: Report, arena: Arena) -> str:
    """Return the call at which the peak of an arena is, with its module."""
    module = next((call.module for call in report.calls if call.name == arena.at), "")
    return f"at {arena.at}{f' ({module})' if module else ''}" if arena.at else "before the first call"
