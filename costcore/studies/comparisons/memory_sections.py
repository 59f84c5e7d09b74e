"""The tables of what changed in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from costcore.studies.comparisons.differences import BlockDelta, Delta
from costcore.studies.comparisons.sections import DELTA, cells, counts_of, texts
from costcore.tables.table import Table


def memory_sections(
    figures: Mapping[str, Delta], by_kind: Mapping[str, Delta], blocks: Sequence[BlockDelta]
) -> list[Table]:
    """Return the tables of what changed in memory: the figures, the kinds at the peak, and the blocks alive at it."""
    names = {"peak": "peak", "base": "before the run", "saved": "kept for the backward pass", "end": "after the run"}
    deltas = {
        **{names[key]: delta for key, delta in figures.items()},
        **{f"{kind} at the peak": delta for kind, delta in by_kind.items()},
    }
    rows = [{"memory": name, **cells(delta, "bytes")} for name, delta in deltas.items() if not delta.equal]
    heading = "Blocks at the peak: " + counts_of([each.change for each in blocks])
    columns = [*texts("change", "kind", "module", "what", "blocks"), *DELTA]
    candidates = (
        Table("Memory", [*texts("memory"), *DELTA], rows),
        Table(heading, columns, [*map(_block, blocks)], is_open=False),
    )
    return [table for table in candidates if table.rows]


def _block(each: BlockDelta) -> dict[str, Any]:
    old, new = each.n_blocks
    count = str(new or old) if each.n_blocks.equal or not (old and new) else f"{old} → {new}"
    head = {"change": each.change, "kind": each.kind, "module": each.module, "what": each.what}
    return {**head, "blocks": count, **cells(each.nbytes, "bytes")}
