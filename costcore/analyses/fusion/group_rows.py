"""The table of groups."""

from __future__ import annotations

from typing import Any

from costcore.analyses.analysis import Analyzed
from costcore.tables.cells import TableRow
from costcore.tables.columns import SHARES, by_key, preset
from costcore.tables.quantity import Quantity
from costcore.text.table import Column
from costcore.trace.call import Call

UNFUSED = "unfused_mrw"
"""The column of bytes without fusion."""

FUSED = by_key(
    Column("group", "Group", "count"),
    Column("names", "Calls"),
    Column("n_layers", "# Calls", "count"),
    Column("op", "Operators"),
    Column("module", "Module"),
    Column("phase", "Phase"),
    *preset("flops", "macs", "mread", "mwrite", "mrw").values(),
    Column(UNFUSED, "Unfused R+W", "bytes"),
    *preset(*SHARES, "n_params").values(),
)


class FusedColumns:
    """Column sets of the table of groups."""

    DEFAULT = ("group", "names", "flops", "mread", "mwrite", "mrw", UNFUSED)
    DEFAULT_AND_PERCENT = (*DEFAULT, "flops%", "mread%", "mwrite%", "mrw%")
    ALL = tuple(FUSED)
    SETS = (DEFAULT, DEFAULT_AND_PERCENT, ALL)


def unfused(original: Analyzed) -> Quantity:
    """Return the bytes that calls read and write in a report without fusion."""
    doc = "bytes read and written if each call runs by itself"
    return Quantity(
        UNFUSED, "Unfused R+W", "bytes", doc, lambda _: [e["mrw"] for e in original.ledger.entries.values()]
    )


def group_rows(fused: Analyzed) -> list[TableRow]:
    """Return a row for every group that computes, reads or writes anything, numbered from 1.

    Args:
        fused: a report with the bytes after fusion.
    """
    fusion, calls = fused.trace.run.fusion, fused.trace.calls
    rows: list[TableRow] = []
    for positions in () if fusion is None else fusion.groups:
        members = [calls[i] for i in positions if calls[i].name in fused.ledger.entries]
        sums = fused.ledger.sum(members)
        if sums["mrw"] != 0 or sums["flops"] != 0:
            rows.append(TableRow({"group": len(rows) + 1, **_texts(members), **sums}, members))
    return rows


def _texts(calls: list[Call]) -> dict[str, Any]:
    """Return the names, operators, modules and phase of the calls of a group; each text once."""
    return {
        "names": ", ".join(call.name for call in calls),
        "op": ", ".join(dict.fromkeys(call.layer.op for call in calls)),
        "module": ", ".join(dict.fromkeys(call.module for call in calls if call.module)),
        "phase": calls[0].phase,
    }
