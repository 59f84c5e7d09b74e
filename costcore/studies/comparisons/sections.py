"""The cells of the tables of a comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from costcore.studies.comparisons.differences import Delta
from costcore.tables.quantities import quantity
from costcore.text.amounts import readable
from costcore.text.table import Column
from costcore.text.values import Shown

CHANGES = ("added", "removed", "changed")
"""What can happen to a call or to blocks of memory."""

DELTA = [*(Column(name, name, "count") for name in ("old", "new", "difference")), Column("ratio", "ratio", "ratio")]
"""The columns of an old and a new amount."""


def texts(*names: str) -> list[Column]:
    """Return columns of text."""
    return [Column(name, name) for name in names]


def cells(delta: Delta, kind: str) -> dict[str, Any]:
    """Return the old and the new amount of a cost of some kind, their difference and their ratio."""
    return {
        "old": Shown(delta.old, readable(delta.old, kind)),
        "new": Shown(delta.new, readable(delta.new, kind)),
        "difference": Shown(delta.difference, readable(delta.difference, kind, signed=True)),
        "ratio": "" if delta.ratio is None else Shown(delta.ratio, f"×{delta.ratio:.4f}"),
    }


def rows_of(head: Mapping[str, str], costs: Mapping[str, Delta], names: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield a row per cost; all but the first show no ``head``. One row without costs if no cost differs."""
    if not costs:
        yield dict(head)
    for i, (key, delta) in enumerate(costs.items()):
        shown = head if i == 0 else {name: Shown(value, "") for name, value in head.items()}
        yield {**shown, "what": names[key], **cells(delta, quantity(key).kind)}


def counts_of(changes: Sequence[str]) -> str:
    """Return how many there are of every change: ``1 added, 0 removed, 2 changed``."""
    return ", ".join(f"{changes.count(change)} {change}" for change in CHANGES)
