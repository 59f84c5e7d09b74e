"""The rows of the table of an arena: one row per value with its place in memory and its lifetime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from costcore.reports.columns import Column
from costcore.reports.tables.arrange import in_order
from costcore.reports.tables.checks import check_top

if TYPE_CHECKING:
    from costcore.memory.arena_report import Arena


def arena_rows(arena: Arena, sort: Column | None, top: int | None) -> list[Mapping[str, Any]]:
    """Return the entries of the values, the largest first, and the whole arena last; of symbolic sizes the peak.

    Args:
        arena: the arena.
        sort: the column to sort by; None for the size.
        top: the maximum number of rows; a row ``others`` sums the remaining ones. None for all.
    """
    check_top(top)
    entries = in_order(arena.entries(), sort or ARENA["nbytes"], lambda entry: entry)
    shown, hidden = (entries, []) if top is None else (entries[:top], entries[top:])
    if hidden:
        shown = [*shown, {"name": f"others ({len(hidden)})", "nbytes": sum(entry["nbytes"] for entry in hidden)}]
    last = {"name": "peak", "nbytes": arena.peak} if arena.symbols else {"name": "arena", "nbytes": arena.size}
    return [*shown, last]


_COLUMNS = (
    Column("name", "Value"),
    Column("nbytes", "Size", "bytes"),
    Column("offset", "Offset", "count"),
    Column("born", "From"),
    Column("dies", "To"),
    Column("at_peak", "At peak"),
    Column("kind", "Kind"),
    Column("module", "Module"),
    Column("shape", "Shape", "shape"),
    Column("dtype", "Element type"),
)
ARENA: Mapping[str, Column] = {column.key: column for column in _COLUMNS}


class ArenaColumns:
    """Column sets of ``show_arena``."""

    DEFAULT = ("name", "nbytes", "offset", "born", "dies", "at_peak", "kind", "shape", "dtype")
    ALL = tuple(ARENA)
