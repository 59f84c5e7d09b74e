"""A comparison in plain JSON types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costcore.studies.comparisons.comparison_data import ComparisonData
from costcore.studies.comparisons.conversion import ConversionChange, conversion_changes
from costcore.studies.comparisons.differences import Delta, Difference
from costcore.studies.comparisons.memory import MemoryComparison
from costcore.text.values import jsonable

SCHEMA = "costcore-comparison-1"
"""Name and version of the format."""


def to_dict(comparison: ComparisonData) -> dict[str, Any]:
    """Return the comparison in plain JSON types."""
    operators = {op: _deltas(sums) for op, sums in comparison.operators.items()}
    return {
        "schema": SCHEMA,
        "old": comparison.names[0],
        "new": comparison.names[1],
        "status": {"old": comparison.old.status, "new": comparison.new.status},
        "versions": {"old": comparison.old.versions, "new": comparison.new.versions},
        "matched_by": comparison.by,
        "equal": comparison.equal,
        "verdict": comparison.sentences,
        "notes": comparison.notes,
        "totals": _deltas(comparison.totals),
        "data_movement": _delta(comparison.data_movement),
        "operators": operators,
        "differences": [_difference(difference) for difference in comparison.differences],
        "moved": [{"old": old, "new": new} for old, new in comparison.moved],
        "conversion": [_conversion_change(change) for change in conversion_changes(comparison)],
        "memory": None if comparison.memory is None else _memory(comparison.memory),
    }


def _memory(memory: MemoryComparison) -> dict[str, Any]:
    blocks = [
        {
            **{key: getattr(each, key) for key in ("change", "kind", "module", "what")},
            **{key: _delta(getattr(each, key)) for key in ("n_blocks", "nbytes")},
        }
        for each in memory.blocks
    ]
    old, new = memory.where
    return {
        **_deltas(memory.figures),
        "where": {"old": old, "new": new},
        "by_kind": _deltas(memory.by_kind),
        "blocks": blocks,
    }


def _deltas(deltas: Mapping[str, Delta]) -> dict[str, Any]:
    return {key: _delta(delta) for key, delta in deltas.items()}


def _delta(delta: Delta) -> dict[str, Any]:
    return {
        "old": jsonable(delta.old),
        "new": jsonable(delta.new),
        "difference": jsonable(delta.difference),
        "ratio": delta.ratio,
    }


def _difference(difference: Difference) -> dict[str, Any]:
    sides = {}
    for side in ("old", "new"):
        entry = getattr(difference, side)
        keys = ("name", "type", "op", "module", "phase")
        sides[side] = None if entry is None else {key: entry[key] for key in keys}
    settings = {name: {"old": jsonable(a), "new": jsonable(b)} for name, (a, b) in difference.settings.items()}
    return {"change": difference.change, **sides, "costs": _deltas(difference.costs), "settings": settings}


def _conversion_change(change: ConversionChange) -> dict[str, Any]:
    return {
        "what": change.what,
        "old": list(change.old),
        "new": list(change.new),
        "times": change.times,
        "flops": _delta(change.flops),
        "mrw": _delta(change.mrw),
    }
