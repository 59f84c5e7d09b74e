"""The tables of a comparison, and their cells."""

from __future__ import annotations

from typing import NamedTuple

from costcore.studies.comparisons.differences import Delta
from costcore.text.amounts import readable
from costcore.text.table import TextTable


class Section(NamedTuple):
    """A table of a comparison.

    Attributes:
        title: the heading.
        table: the table.
        is_detail: whether the section is collapsible in formats that support it.
    """

    title: str
    table: TextTable
    is_detail: bool


CHANGES = ("added", "removed", "changed")
"""What can happen to a call or to blocks of memory."""

DELTA_TITLES = [("old", ""), ("new", ""), ("difference", ""), ("ratio", "")]


def cells(delta: Delta, kind: str) -> list[str]:
    """Return the old and the new amount of a cost of some kind, their difference and their ratio."""
    ratio = "" if delta.ratio is None else f"×{delta.ratio:.4f}"
    return [readable(delta.old, kind), readable(delta.new, kind), readable(delta.difference, kind, signed=True), ratio]
