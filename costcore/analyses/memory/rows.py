"""The rows of ``show_memory``: the blocks that are alive at the peak, sums by kind, and the total."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from costcore.tables.arrange import limited
from costcore.text.amounts import exact, readable

if TYPE_CHECKING:
    from costcore.ledger.memory_data import MemoryData


def memory_rows(memory: MemoryData, top: int | None, with_module: bool = False) -> list[dict[str, Any]]:
    """Return one row per block, one per kind, and the total.

    Args:
        memory: the memory of the run.
        top: the maximum number of blocks; a row ``others`` sums the remaining ones. None for all.
        with_module: whether the table shows the module of a block too, so that its name need not repeat it.
    """
    blocks = memory.blocks()
    if with_module:
        blocks = [{**row, "name": row["name"].removeprefix(f"{row['module']}.")} for row in blocks]
    rows = [*limited(blocks, top, _others)]
    rows += [{"kind": f"all {kind}", "nbytes": nbytes} for kind, nbytes in memory.by_kind.items()]
    rows.append({"kind": "total", "call": memory.at, "nbytes": memory.peak})
    return [{**row, "nbytes%": 100 * row["nbytes"] / memory.peak if memory.peak else 0} for row in rows]


def _others(blocks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"kind": "others", "name": f"{len(blocks)} blocks", "nbytes": sum(block["nbytes"] for block in blocks)}


def memory_remarks(memory: MemoryData) -> list[str]:
    """Return the lines below the table: the peak and where it is, the peaks of the phases, and the notes."""
    phases = ", ".join(f"{phase} {_bytes(nbytes)}" for phase, nbytes in memory.phases.items())
    saved = [f"kept for the backward pass: {_bytes(memory.saved)}"] if memory.saved else []
    return [
        f"peak: {_bytes(memory.peak)} ({exact(memory.peak)} B), {memory.where}",
        f"before the run: {_bytes(memory.base)}; highest in {phases}; after the run: {_bytes(memory.end)}",
        *saved,
        *memory.notes,
    ]


def _bytes(value: int) -> str:
    return readable(value, "bytes")
