"""The tables of what changed in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from costcore.studies.comparisons.differences import BlockDelta, Delta
from costcore.studies.comparisons.sections import CHANGES, DELTA_TITLES, Section, cells
from costcore.text.table import TextTable


def memory_sections(
    figures: Mapping[str, Delta], by_kind: Mapping[str, Delta], blocks: Sequence[BlockDelta]
) -> list[Section]:
    """Return the tables of what changed in memory: the figures, the kinds at the peak, and the blocks alive at it."""
    names = {"peak": "peak", "base": "before the run", "saved": "kept for the backward pass", "end": "after the run"}
    deltas = {
        **{names[key]: delta for key, delta in figures.items()},
        **{f"{kind} at the peak": delta for kind, delta in by_kind.items()},
    }
    rows = [[name, *cells(delta, "bytes")] for name, delta in deltas.items() if not delta.equal]
    table = TextTable([("memory", ""), *DELTA_TITLES], rows, [False, True, True, True, True])
    counts = [(sum(each.change == change for each in blocks), change) for change in CHANGES]
    heading = "Blocks at the peak: " + ", ".join(f"{count} {change}" for count, change in counts)
    candidates = Section("Memory", table, False), Section(heading, _blocks(blocks), True)
    return [section for section in candidates if section.table.rows]


def _blocks(changes: Iterable[BlockDelta]) -> TextTable:
    rows = []
    for each in changes:
        old, new = each.n_blocks
        count = str(new or old) if each.n_blocks.equal or not (old and new) else f"{old} → {new}"
        rows.append([each.change, each.kind, each.module, each.what, count, *cells(each.nbytes, "bytes")])
    titles = [(title, "") for title in ("change", "kind", "module", "what", "blocks")]
    return TextTable([*titles, *DELTA_TITLES], rows, [False] * 4 + [True] * 5)
