"""The words for what a report counts: FLOPs, or what another convention counts, such as ``MACs (fvcore)``."""

from __future__ import annotations


def per_byte(unit: str) -> str:
    """Return the name of amounts per byte: ``FLOPs per byte``, ``MACs per byte``."""
    return f"{_plural(unit)} per byte"


def short_per_byte(unit: str) -> str:
    """Return the unit of amounts per byte: ``FLOP/B``, ``MAC/B``."""
    return f"{_plural(unit).removesuffix('s')}/B"


def _plural(unit: str) -> str:
    """Return the unit without the convention in parentheses that it may end with."""
    return unit.partition(" (")[0]
