"""The differences between the memory of two runs: the peak, its parts by kind, and the blocks that are alive at it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, TypeAlias

from costcore.analyses.memory.report import Memory
from costcore.studies.comparisons.differences import BlockDelta, Delta
from costcore.studies.comparisons.memory_sections import memory_sections
from costcore.tables.answer import Answer
from costcore.tables.result import Result
from costcore.text.amounts import exact
from costcore.text.encoding import encodable
from costcore.trace.memory_ledger import KINDS

Group: TypeAlias = "tuple[str, str, str]"
"""What blocks have in common that are compared: their kind, their module, and their name or operator."""


class MemoryComparison(Result):
    """The memory of two runs, in bytes.

    Args:
        old, new: the memory of the runs.
        moved: new paths of modules by their old paths.
    """

    def __init__(self, old: Memory, new: Memory, moved: Mapping[str, str]) -> None:
        self._sides = old, new
        self._moved = moved

    def __repr__(self) -> str:
        peak = self.figures["peak"]
        return encodable(f"<MemoryComparison: peak {exact(peak.old)} → {exact(peak.new)} bytes>")

    def _answer(self) -> Answer:
        peak = self.figures["peak"]
        change = "equal" if peak.equal else exact(peak.difference, signed=True) + " B"
        tables = memory_sections(self.figures, self.by_kind, self.blocks)
        return Answer(f"Peak of memory: {exact(peak.old)} B → {exact(peak.new)} B, {change}", (), tables)

    @property
    def figures(self) -> dict[str, Delta]:
        """The change of ``peak``, ``base`` (before the run), ``saved`` (kept for backward) and ``end``."""
        old, new = self._sides
        return {key: Delta(getattr(old, key), getattr(new, key)) for key in ("peak", "base", "saved", "end")}

    @property
    def where(self) -> tuple[str, str]:
        """Where the two peaks are."""
        return self._sides[0].where, self._sides[1].where

    @property
    def by_kind(self) -> dict[str, Delta]:
        """The change of the bytes of every kind that are alive at the peak; they add up to the change of the peak."""
        old, new = (side.by_kind for side in self._sides)
        return {kind: Delta(old.get(kind, 0), new.get(kind, 0)) for kind in KINDS if kind in old or kind in new}

    @cached_property
    def blocks(self) -> list[BlockDelta]:
        """The blocks alive at one of the peaks that came, went or changed in size, the largest change first."""
        old, new = _groups(self._sides[0].blocks(), self._moved), _groups(self._sides[1].blocks(), {})
        none = 0, 0
        changes = [
            BlockDelta(*group, *map(Delta, old.get(group, none), new.get(group, none)))
            for group in dict.fromkeys((*new, *old))
            if old.get(group) != new.get(group)
        ]
        return sorted(changes, key=lambda change: -abs(int(change.nbytes.difference)))


def _groups(blocks: Iterable[Mapping[str, Any]], moved: Mapping[str, str]) -> dict[Group, tuple[int, int]]:
    """Return the number of blocks and the sum of their sizes, by group."""
    found: dict[Group, tuple[int, int]] = {}
    for block in blocks:
        module = block["module"]
        what = block["name"].removeprefix(f"{module}.") or block["call"].rpartition("-")[0]
        group = block["kind"], moved.get(module, module), what
        count, nbytes = found.get(group, (0, 0))
        found[group] = count + 1, nbytes + block["nbytes"]
    return found
