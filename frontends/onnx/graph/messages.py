"""Fragments of messages and notes: lists of names."""

from __future__ import annotations

from collections.abc import Sequence


def joined(items: Sequence[str], maximum: int = 10) -> str:
    """Return items separated by commas, shortened to ``maximum`` of them."""
    return ", ".join([*items[:maximum], *([f"and {len(items) - maximum} more"] if len(items) > maximum else [])])
