"""The rows of ``show_memory``: the blocks that are alive at the peak, sums by kind, and the total."""

from __future__ import annotations

from typing import Any

from costcore.memory.report import Memory
from costcore.reports.tables.arrange import check_top


def memory_rows(memory: Memory, top: int | None) -> list[dict[str, Any]]:
    """Return one row per block, one per kind, and the total.

    Args:
        memory: the memory of the run.
        top: the maximum number of blocks; a row ``others`` sums the remaining ones. None for all.
    """
    check_top(top)
    blocks = memory.blocks()
    rows = blocks[:top]
    if len(blocks) > len(rows):
        others = blocks[len(rows) :]
        rows.append({"kind": "others", "name": f"{len(others)} blocks", "nbytes": sum(b["nbytes"] for b in others)})
    rows += [{"kind": f"all {kind}", "nbytes": nbytes} for kind, nbytes in memory.by_kind.items()]
    rows.append({"kind": "total", "call": memory.at, "nbytes": memory.peak})
    return [{**row, "nbytes%": 100 * row["nbytes"] / memory.peak if memory.peak else 0} for row in rows]
