"""The content of an overview, without a format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from costcore.text.table import Table
from costcore.trace.run import FLOPS


class Figure(NamedTuple):
    """A number of the overview.

    Attributes:
        title: what it is.
        value: its rounded value with a unit, or an expression.
        note: its exact value, or what it means; can be empty.
    """

    title: str
    value: str
    note: str = ""


class Part(NamedTuple):
    """A table of the overview.

    Attributes:
        title: its heading.
        table: the table.
        is_open: whether formats that can fold it show it at first.
    """

    title: str
    table: Table
    is_open: bool = True


class Overview(NamedTuple):
    """What is shown of a result.

    Attributes:
        title: the heading: what was counted, and the status.
        figures: the totals.
        parts: the tables.
        lines: what is not counted, and what the numbers assume.
        tree: the module hierarchy as :meth:`costcore.Report.tree` returns it; None without one.
        unit: what the modules of the tree count.
    """

    title: str
    figures: Sequence[Figure] = ()
    parts: Sequence[Part] = ()
    lines: Sequence[str] = ()
    tree: Mapping[str, Any] | None = None
    unit: str = FLOPS
