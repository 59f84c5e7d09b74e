"""The rows of the table of an arena: one row per value with its place in memory and its lifetime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from costcore.numbers.dims import Dim
from costcore.tables.arrange import in_order, limited
from costcore.tables.columns import by_key
from costcore.text.table import Column


class Slot(NamedTuple):
    """The place of a value in the arena.

    Attributes:
        name: the call that makes the value, or the input; of a value that takes over the memory of others, the first.
        offset: the first byte.
        nbytes: its size, before alignment.
        born: index of the first step that needs it.
        dies: index of the last step that needs it.
        kind: ``input``, ``value`` or ``output``.
        module: path of the module of the call that makes it.
        shape: its shape; None if it is not one tensor.
        dtype: its dtype.
    """

    name: str
    offset: int
    nbytes: int
    born: int
    dies: int
    kind: str
    module: str
    shape: tuple[Dim, ...] | None
    dtype: str


def arena_rows(
    values: Sequence[Mapping[str, Any]], whole: Mapping[str, Any], sort: Column | None, top: int | None
) -> list[Mapping[str, Any]]:
    """Return the entries of the values, the largest first, and that of the whole arena.

    Args:
        values: an entry per value.
        whole: the last row.
        sort: the column to sort by; None for the size.
        top: the maximum number of rows; a row ``others`` sums the remaining ones. None for all.
    """
    return [*limited(in_order(values, sort or ARENA["nbytes"], lambda entry: entry), top, others_of), whole]


def others_of(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the row that stands for several values."""
    return {"name": f"others ({len(entries)})", "nbytes": sum(entry["nbytes"] for entry in entries)}


ARENA = by_key(
    Column("name", "Value"),
    Column("nbytes", "Memory", "bytes"),
    Column("offset", "Offset", "count"),
    Column("born", "From"),
    Column("dies", "To"),
    Column("at_peak", "At peak"),
    Column("kind", "Kind"),
    Column("module", "Module"),
    Column("shape", "Shape", "shape"),
    Column("dtype", "Element type"),
)


class ArenaColumns:
    """Column sets of ``show_arena``."""

    DEFAULT = ("name", "nbytes", "offset", "born", "dies", "at_peak", "kind", "shape", "dtype")
    ALL = tuple(ARENA)
